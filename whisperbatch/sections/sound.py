"""How much sound and speech a section has, measured while its VAD frames pass."""

from collections.abc import Iterator
from typing import Final

import numpy as np

from whisperbatch.sections.stage import Section
from whisperbatch.types import SectionSound, SpeechFrames

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
