"""Provisional speakers: a voice keeps its name while further voices begin to speak."""

from collections import Counter
from collections.abc import Sequence
from unittest.mock import Mock

import numpy as np
import pytest

from tests.unit.diarization.synthetic import Floats, embeddings, voices
from whisperbatch.diarization.builtin import OnlineSpeakers
from whisperbatch.diarization.embeddings import Memory, TrackSegment
from whisperbatch.diarization.protocol import SpeakerLimits
from whisperbatch.diarization.turns import time_of

PIECE = 90  # frames of speech for each piece
A, B, C = 0, 1, 2


def add(memory: Memory, vectors: Floats) -> int:
    """Add a window with one stretch for each embedding; return the number of the first."""
    first = len(memory.segments)
    for _ in vectors:
        start, piece = len(memory.segments) * PIECE, len(memory.centres)
        number = len(memory.segments)
        memory.segments.append(TrackSegment(start, start + PIECE, 0, 0, number, [piece]))
        memory.centres.append(start + PIECE // 2)
        memory.weights.append(1.0)
    memory.embeddings.append(vectors)
    return first


def names_of(
    who: Sequence[int], limits: SpeakerLimits | None = None, count: int = 3, in_window: int = 5
) -> list[str]:
    """Return the name of each piece, as it was when its window was read."""
    online, memory = OnlineSpeakers(limits or SpeakerLimits()), Memory()
    vectors = embeddings(voices(count), who)
    windows = (vectors[start : start + in_window] for start in range(0, len(who), in_window))
    turns = [turn for window in windows for turn in online.turns(memory, add(memory, window))]
    assert [(t.start, t.end) for t in turns] == [
        (time_of(s.start), time_of(s.end)) for s in memory.segments
    ]
    return [turn.speaker for turn in turns]


def usual(names: Sequence[str]) -> str:
    """Return the name that all but a tenth of the pieces have."""
    ((name, count),) = Counter(names).most_common(1)
    assert count >= 0.9 * len(names)
    return name


def test_a_voice_keeps_its_name_when_others_begin() -> None:
    who = [A] * 30 + [B] * 30 + [A] * 20 + [C] * 40 + [B] * 20 + [A] * 20 + [C] * 20
    names = names_of(who)
    parts = {
        "A": (names[:30], names[60:80], names[140:160]),
        "B": (names[45:60], names[120:140]),  # a new voice is found after up to 15 pieces
        "C": (names[100:120], names[160:]),
    }
    found = {voice: {usual(part) for part in each} for voice, each in parts.items()}
    assert all(len(each) == 1 for each in found.values())
    assert len(set.union(*found.values())) == 3


def test_the_first_voice_has_the_first_name() -> None:
    names = names_of([A] * 40 + [B] * 40)
    assert set(names[:40]) == {"SPEAKER_00"}
    assert usual(names[60:]) == "SPEAKER_01"


def test_a_new_voice_is_found_after_more_pieces_than_are_clustered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("whisperbatch.diarization.builtin.MOST", 40)
    names = names_of([A, B] * 200 + [C, A] * 50)
    assert len(set(names[:400])) == 2
    assert usual(names[100:400:2]) == usual(names[401::2])  # A
    assert usual(names[440::2]) not in names[:400]  # C


def test_one_voice_has_one_name() -> None:
    assert set(names_of([A] * 200)) == {"SPEAKER_00"}


def test_the_greatest_number_of_speakers_is_honoured_at_all_times() -> None:
    names = names_of([A, B, C] * 30, SpeakerLimits(1, 2))
    assert len(set(names)) == 2
    assert set(names_of([A, B, C] * 30, SpeakerLimits(1, 1))) == {"SPEAKER_00"}


def test_a_name_is_not_given_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two voices turn out to be one, and then another voice begins."""
    online, memory = OnlineSpeakers(SpeakerLimits()), Memory()
    three = voices(3)
    for found, names in (
        ([A, B], ["SPEAKER_00", "SPEAKER_01"]),
        ([B], ["SPEAKER_01"]),
        ([B, C], ["SPEAKER_01", "SPEAKER_02"]),
    ):
        clusters = Mock(return_value=three[found])
        monkeypatch.setattr("whisperbatch.diarization.builtin.find_voices", clusters)
        online.turns(memory, add(memory, embeddings(three, found * 20)))
        assert clusters.called
        assert list(online.embeddings) == names


def test_a_run_without_embeddings_has_the_speaker_before() -> None:
    online, memory = OnlineSpeakers(SpeakerLimits()), Memory()
    vectors = embeddings(voices(2), [A] * 20 + [B] * 20)
    online.turns(memory, add(memory, vectors))
    first = add(memory, embeddings(voices(2), [B], seed=2))
    memory.segments.append(TrackSegment(4000, 4010, 0, 0, 99))
    known, unknown = online.turns(memory, first)
    assert known.speaker == unknown.speaker == "SPEAKER_01"


@pytest.mark.parametrize("maximum", [1, None])
def test_without_any_embedding_there_is_one_name(maximum: int | None) -> None:
    """`num_speakers=1` computes no embeddings."""
    online, memory = OnlineSpeakers(SpeakerLimits(1, maximum)), Memory()
    memory.segments.append(TrackSegment(10, 20, 0, 0, 1))
    memory.embeddings.append(np.empty((0, 1), np.float32))
    (turn,) = online.turns(memory, 0)
    assert turn.speaker == "SPEAKER_00"
    assert online.embeddings == {}


def test_silence_has_no_speaker() -> None:
    online, memory = OnlineSpeakers(SpeakerLimits()), Memory()
    memory.embeddings.append(np.empty((0, 1), np.float32))
    assert online.turns(memory, 0) == ()


def test_embeddings_are_the_voices_so_far() -> None:
    online, memory = OnlineSpeakers(SpeakerLimits()), Memory()
    online.turns(memory, add(memory, embeddings(voices(2), [A] * 20 + [B] * 20)))
    found = online.embeddings
    assert list(found) == ["SPEAKER_00", "SPEAKER_01"]
    likeness = np.stack(list(found.values())) @ voices(2).T
    assert likeness.argmax(axis=1).tolist() == [A, B]
    assert np.linalg.norm(np.stack(list(found.values())), axis=1) == pytest.approx([1, 1])
