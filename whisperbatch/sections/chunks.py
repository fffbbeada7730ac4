"""The chunks of a recording, section by section."""

from collections.abc import Callable, Iterable, Iterator
from typing import TypeAlias

from whisperbatch.audio.clips import clips, min_clip
from whisperbatch.chunking.merge import chunks
from whisperbatch.options import Options
from whisperbatch.protocols import Vad
from whisperbatch.sections.sound import SoundMeasure
from whisperbatch.sections.stage import sections
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

    No chunk crosses the point between two sections. The chunks of a span are those that the whole
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
