"""A fake diarizer without weights."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import numpy as np
import pytest

import whisperbatch.diarization.stage
from whisperbatch.diarization.protocol import Embedding, Progress, SpeakerLimits
from whisperbatch.errors import AudioError
from whisperbatch.types import SAMPLING_RATE, Diarization, Samples, Turn

CHANGE: Final = 3.0  # seconds
VOICES: Final = np.eye(2, dtype=np.float32)


class FakeDiarizer:
    """Two speakers: one in the first 3 s, and one afterwards. Before the end, both are one.

    The voice of a recording of less than 3 s is that of the first, otherwise that of the second.

    Args:
        names: of the speakers.

    Attributes:
        limits: of each recording so far.
    """

    fingerprint = "fake"
    same_voice = 0.5

    def __init__(self, names: Sequence[str] = ("SPEAKER_00", "SPEAKER_01")) -> None:
        self.names = names
        self.limits: list[SpeakerLimits] = []

    def __call__(
        self, blocks: Iterable[Samples], limits: SpeakerLimits
    ) -> Iterator[Progress | Diarization]:
        self.limits.append(limits)
        end = 0.0
        for block in blocks:
            start, end = end, end + len(block) / SAMPLING_RATE
            turn = Turn(start, end, self.names[0], 0.5)
            yield Progress(end, (turn,), {turn.speaker: VOICES[0]})
        turns = [Turn(0.0, min(end, CHANGE), self.names[0], 0.9)]
        if end > CHANGE and limits.maximum != 1:
            turns.append(Turn(CHANGE, end, self.names[1], 0.8))
        voices = {turn.speaker: VOICES[number] for number, turn in enumerate(turns)}
        yield Diarization(tuple(turns), embeddings=voices)

    def voice(self, samples: Samples) -> Embedding:
        seconds = len(samples) / SAMPLING_RATE
        if seconds < 1:
            raise AudioError(f"has {seconds:.1f} s of speech")
        first, second = VOICES
        return second if seconds >= CHANGE else first

    def similarity(self, one: Embedding, other: Embedding) -> float:
        return float(one @ other)

    def close(self) -> None:
        """Do nothing."""


def use_fake_diarizer(monkeypatch: pytest.MonkeyPatch) -> FakeDiarizer:
    """Let the library find speakers with a fake diarizer, and return it."""
    diarizer = FakeDiarizer()
    monkeypatch.setattr(whisperbatch.diarization.stage, "open_diarizer", lambda _: diarizer)
    return diarizer
