"""The items of a diarizer, their errors, and the names of known speakers."""

import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import pytest

from whisperbatch.diarization.naming import Names, name_speakers
from whisperbatch.diarization.protocol import Embedding, Progress, SpeakerLimits, items_of
from whisperbatch.errors import AudioError, ClosedError, EngineError, InternalError, OptionError
from whisperbatch.types import Diarization, Samples, Turn

ANN, BEN = Turn(0.0, 2.0, "Ann", 1.0), Turn(2.0, 3.0, "Ben", 1.0)


class Mine:
    """A diarizer of the caller. It yields the given items, and raises the given exceptions."""

    fingerprint = "mine"

    def __init__(self, *items: Any) -> None:
        self.items = items

    def __call__(self, blocks: Iterable[Samples], limits: SpeakerLimits) -> Iterator[Any]:
        if limits.minimum > 9:
            raise OptionError("min_speakers: at most 9")
        return self._items(blocks)

    def _items(self, blocks: Iterable[Samples]) -> Iterator[Any]:
        list(blocks)
        for item in self.items:
            if isinstance(item, BaseException):
                raise item
            yield item


def found(*items: Any) -> list[Progress | Diarization]:
    blocks = [np.zeros(16_000, np.float32)]
    return list(items_of(Mine(*items), blocks, SpeakerLimits(), "talk.wav"))


def test_turns_are_in_order() -> None:
    progress, result = found(
        Progress(3.0, (BEN, ANN)), Diarization((BEN, ANN), exclusive=(BEN, ANN))
    )
    assert isinstance(progress, Progress)
    assert isinstance(result, Diarization)
    assert progress.turns == result.turns == result.exclusive == (ANN, BEN)
    assert result.speakers == ("Ann", "Ben")


@pytest.mark.parametrize(
    ("items", "message"),
    [
        ((), "ended without a Diarization"),
        ((Progress(1.0, ()),), "ended without a Diarization"),
        ((Diarization(()), Progress(1.0, ())), "yielded an item after its Diarization"),
        (("Ann",), "yielded 'Ann', which is neither a Progress nor a Diarization"),
        ((Diarization(("Ann",)),), "gave 'Ann', which is no Turn"),  # type: ignore[arg-type]
        ((Progress(1.0, (Turn(0, 1, None, 1.0),)),), ".*which is no Turn"),  # type: ignore[arg-type]
        ((Diarization((Turn(0, 1, "", 1.0),)),), ".*which is no Turn"),
        ((Diarization((Turn(math.nan, 1, "Ann", 1.0),)),), "gave a turn from nan to 1 s"),
        ((Diarization((Turn(0, math.inf, "Ann", 1.0),)),), "gave a turn from 0 to inf s"),
        ((Diarization((), exclusive=(Turn(2, 1, "Ann", 1.0),)),), "gave a turn from 2 to 1 s"),
        ((Diarization((ANN,), exclusive=(ANN, BEN)),), "gave exclusive turns of 'Ben'"),
        ((Diarization((ANN, Turn(2, 2, "Ben", 1.0)), exclusive=(BEN,)),), ".*who has no turns"),
        ((Diarization((Turn(-1, 1, "Ann", 1.0),)),), "gave a turn from -1 to 1 s"),
        ((ValueError("boom"),), r"failed \(ValueError: boom\)"),
        ((KeyError(),), r"failed \(KeyError\)"),
    ],
)
def test_mistakes_of_the_callers_diarizer(items: tuple[Any, ...], message: str) -> None:
    with pytest.raises(EngineError, match=f"talk.wav: the diarizer 'mine' {message}") as caught:
        found(*items)
    assert caught.value.source == "talk.wav"


def test_a_diarizer_that_returns_nothing() -> None:
    class Nothing(Mine):
        _items: Callable[..., Any] = lambda *_: None

    with pytest.raises(EngineError, match="the diarizer 'mine' failed"):
        list(items_of(Nothing(), [], SpeakerLimits(), "talk.wav"))


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (EngineError("a network failed"), "talk.wav: a network failed"),
        (AudioError("talk.wav has no speech"), "talk.wav has no speech"),
        (InternalError("a bug"), "talk.wav: a bug"),
    ],
)
def test_errors_of_whisperbatch_keep_their_type(error: EngineError, message: str) -> None:
    with pytest.raises(type(error)) as caught:
        found(error)
    assert caught.value is error
    assert str(error) == message
    assert error.source == "talk.wav"


def test_the_error_of_another_recording_stays() -> None:
    """A reader names its own recording."""
    error = AudioError("is damaged", source="other.wav")
    with pytest.raises(AudioError) as caught:
        found(error)
    assert (str(caught.value), caught.value.source) == ("other.wav: is damaged", "other.wav")


@pytest.mark.parametrize("error", [ClosedError("closed"), MemoryError(), KeyboardInterrupt()])
def test_other_errors_are_unchanged(error: BaseException) -> None:
    with pytest.raises(type(error)) as caught:
        found(error)
    assert caught.value is error
    assert getattr(error, "source", None) is None


def test_a_bug_of_a_diarizer_of_whisperbatch_stays_a_bug(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Mine, "__module__", "whisperbatch.diarization.builtin")
    with pytest.raises(ValueError, match="boom"):
        found(ValueError("boom"))


def test_limits_are_refused_by_the_call_itself() -> None:
    with pytest.raises(OptionError, match=r"talk\.wav: min_speakers: at most 9"):
        items_of(Mine(), [], SpeakerLimits(10), "talk.wav")


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
