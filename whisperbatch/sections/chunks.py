"""The chunks of a recording, section by section.

`SoundMeasure` measures how much sound and speech a section has, while its VAD frames pass.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Final, TypeAlias

import numpy as np

from whisperbatch.audio.clips import clips, min_clip
from whisperbatch.chunking.merge import chunks
from whisperbatch.options import Options
from whisperbatch.protocols import Vad
from whisperbatch.sections.stage import Section, sections
from whisperbatch.types import (
    SECTION,
    WHOLE,
    Chunk,
    Samples,
    SectionSound,
    Span,
    SpeechFrames,
    to_samples,
)
from whisperbatch.vad import open_vad

MIN_LEVEL: Final = -65.0  # dBFS; fainter frames are silence, as in `second_opinion.regions`


class SoundMeasure:
    """Passes the VAD frames of a section on, and measures them.

    Args:
        section: its frames are iterated once, by `frames`.
        vad_onset: frames with this probability or more are speech.
        hop: samples per VAD frame.

    Attributes:
        sound: the result for the frames so far.
    """

    def __init__(self, section: Section, vad_onset: float, hop: int) -> None:
        self._frames, self._vad_onset, self._hop = section.frames, vad_onset, hop
        self.sound = SectionSound(section.number, section.start, section.start, 0, 0)

    def frames(self) -> Iterator[SpeechFrames]:
        """Yield the frames of the section."""
        for block in self._frames:
            self._add(block)
            yield block

    def _add(self, block: SpeechFrames) -> None:
        starts = range(0, len(block.samples), self._hop)
        squares = np.add.reduceat(np.square(block.samples), starts)
        loud = np.count_nonzero(squares >= self._hop * 10 ** (MIN_LEVEL / 10))
        speech = np.count_nonzero(block.probabilities >= self._vad_onset)
        known, length = self.sound, len(block.samples)
        self.sound = SectionSound(
            known.number,
            known.start,
            known.end + length,
            known.sound + min(int(loud) * self._hop, length),
            known.speech + min(int(speech) * self._hop, length),
        )


SecondOpinion: TypeAlias = Callable[[Iterable[SpeechFrames], int, int], Iterable[SpeechFrames]]
"""Takes the frames, the first sample and the number of a section, and returns the frames again."""


def chunk_recording(
    blocks: Iterable[Samples],
    options: Options,
    vad: Vad | None = None,
    recording: int = 0,
    second_opinion: SecondOpinion | None = None,
    *,
    span: Span = WHOLE,
    position: int = 0,
    on_section: Callable[[SectionSound], None] = lambda _: None,
) -> Iterator[Chunk]:
    """Yield the chunks of a recording, or of a span of it, numbered from 0 across all sections.

    No chunk crosses a boundary. The chunks of a span are those that the whole
    recording has there, but for their numbers.

    Args:
        blocks: the samples of the recording from `position` on, which is at most `span.start`.
        options: ranges, speech spans and chunks.
        vad: the result of `open_vad` for these options, if it is open already.
        recording: number of the recording.
        second_opinion: finds speech in the audio that the VAD rejects.
        span: the sections that are processed.
        position: first sample of `blocks`.
        on_section: called after the chunks of each section.
    """
    vad = vad or open_vad(options)
    index = 0
    ranges = [
        (start, end)
        for start, end in options.clip_timestamps or ((0.0, None),)
        if span.begins_before_end(to_samples(start) // SECTION)
    ]
    for clip in clips(blocks, ranges, min_clip(options, vad.hop), position):
        for section in sections(clip, vad, options, span):
            measure = SoundMeasure(section, options.vad_onset, vad.hop)
            frames: Iterable[SpeechFrames] = measure.frames()
            if second_opinion:
                frames = second_opinion(frames, section.start, section.number)
            for chunk in chunks(
                frames,
                options,
                vad.hop,
                recording=recording,
                index=index,
                offset=section.start,
                section=section.number,
            ):
                yield chunk
                index += 1
            on_section(measure.sound)
