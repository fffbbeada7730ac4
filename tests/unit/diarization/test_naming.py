"""The names of known speakers: each speaker has one name, and each name one speaker."""

from collections.abc import Iterable, Iterator

import numpy as np

from whisperbatch.diarization.naming import Names, name_speakers
from whisperbatch.diarization.protocol import Embedding, Progress, SpeakerLimits
from whisperbatch.types import Diarization, Samples, Turn


class Comparing:
    """Compares voices by their only dimension: 1 less the difference."""

    fingerprint = "comparing"
    same_voice = 0.9

    def __call__(
        self, blocks: Iterable[Samples], limits: SpeakerLimits
    ) -> Iterator[Progress | Diarization]:
        raise NotImplementedError

    def voice(self, samples: Samples) -> Embedding:
        raise NotImplementedError

    def similarity(self, one: Embedding, other: Embedding) -> float:
        return 1 - abs(float(one[0] - other[0]))

    def close(self) -> None:
        pass


def voice(value: float) -> Embedding:
    return np.array([value], np.float32)


NAMES = Names(Comparing(), {"Ann": voice(0.5), "Ben": voice(0.45)})


def spoken(*speakers: str) -> tuple[Turn, ...]:
    return tuple(Turn(n, n + 1.0, speaker, 1.0) for n, speaker in enumerate(speakers))


def test_the_best_pairs_first_and_each_name_once() -> None:
    voices = {"SPEAKER_00": voice(0.41), "SPEAKER_01": voice(0.5), "SPEAKER_02": voice(0.9)}
    turns = spoken("SPEAKER_00", "SPEAKER_01", "SPEAKER_02", "SPEAKER_00")
    named = name_speakers(Diarization(turns, embeddings=voices, exclusive=turns[1:]), NAMES)
    assert named.exclusive == named.turns[1:]
    assert [turn.speaker for turn in named.turns] == ["Ben", "Ann", "SPEAKER_00", "Ben"]
    assert named.embeddings == {
        "Ben": voices["SPEAKER_00"],
        "Ann": voices["SPEAKER_01"],
        "SPEAKER_00": voices["SPEAKER_02"],
    }


def test_a_speaker_without_an_embedding_keeps_an_own_name() -> None:
    """Numbers count all speakers without a known name."""
    voices = {"SPEAKER_01": voice(0.0), "SPEAKER_02": voice(0.5)}
    turns = spoken("SPEAKER_00", "SPEAKER_01", "SPEAKER_02", "SPEAKER_03")
    named = name_speakers(Diarization(turns, embeddings=voices), NAMES)
    assert [turn.speaker for turn in named.turns] == [
        *("SPEAKER_00", "SPEAKER_01", "Ann", "SPEAKER_02")
    ]
    assert set(named.embeddings) == {"SPEAKER_01", "Ann"}


def test_an_embedding_without_turns_takes_no_name() -> None:
    voices = {"SPEAKER_00": voice(0.5), "SPEAKER_01": voice(0.48)}
    named = name_speakers(Diarization(spoken("SPEAKER_01"), embeddings=voices), NAMES)
    assert [turn.speaker for turn in named.turns] == ["Ann"]
    assert set(named.embeddings) == {"Ann"}
