"""The built-in diarizer with networks whose answers are known, and provisional speakers."""

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from unittest.mock import Mock

import numpy as np
import pytest

from tests.unit.diarization.synthetic import Floats, embeddings, voices
from whisperbatch.diarization.builtin import BuiltInDiarizer, OnlineSpeakers
from whisperbatch.diarization.embeddings import Memory, Piece, TrackSegment
from whisperbatch.diarization.protocol import MAX_LAG, Progress, SpeakerLimits
from whisperbatch.diarization.segmentation import (
    CLASSES,
    FIRST_SAMPLE,
    FRAME,
    FRAMES,
    STEP,
    WINDOW_SAMPLES,
    Window,
)
from whisperbatch.diarization.turns import time_of
from whisperbatch.types import SAMPLING_RATE, Diarization, Samples

VOICES = np.random.default_rng(0).standard_normal((4, 64)).astype(np.float32)


def recording(*stretches: tuple[int, float]) -> Samples:
    """Return samples with the speakers of each stretch: 0 for none, 3 for speakers 1 and 2."""
    parts = [np.full(round(seconds * SAMPLING_RATE), who) for who, seconds in stretches]
    return np.concatenate(parts).astype(np.float32)


def segmentation(samples: Samples, /) -> Floats:
    """Find the speaker of each frame in its middle sample; tracks change places in each window."""
    rows = []
    for row in np.lib.stride_tricks.sliding_window_view(samples, WINDOW_SAMPLES)[::STEP]:
        at = np.minimum(np.arange(FRAMES) * FRAME + FIRST_SAMPLE + FRAME // 2, WINDOW_SAMPLES - 1)
        who = row[at].astype(int)
        swap = int(row.sum()) % 2
        codes = np.array([0, 2 - swap, 1 + swap, 4])  # class 4 is tracks 0 and 1
        rows.append(np.log(np.eye(len(CLASSES))[codes[who]] + 1e-6))
    return np.stack(rows).astype(np.float32)


def fbank(samples: Samples) -> Floats:
    """Return the speaker in each frame, and noise that depends on the place."""
    frames = samples[: len(samples) - 240 : 160][:, None]
    return np.concatenate((np.repeat(frames, 4, axis=1), np.cumsum(frames, axis=0)), axis=1)


def embedding(features: Sequence[Floats], /) -> Floats:
    """Fail: `FakeEmbedding` knows the speakers."""
    raise NotImplementedError


class FakeDiarizer(BuiltInDiarizer):
    """Computes embeddings from the samples: the voice of the speaker, and noise."""

    def __init__(self, workers: int = 1) -> None:
        super().__init__(segmentation, embedding, fbank, "fake", workers)

    def _embed(self, ready, pieces):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN202
        return [self._voices(*each) for each in zip(ready, pieces, strict=True)]

    def _voices(self, window: Window, pieces: Sequence[Piece]) -> Floats:
        noise = np.random.default_rng(window.start)
        vectors: Floats = np.empty((len(pieces), VOICES.shape[1]), np.float32)
        for row, piece in zip(vectors, pieces, strict=True):
            who = np.bincount(window.samples[piece.start : piece.end].astype(int)).argmax()
            row[:] = VOICES[who] + 0.7 * noise.standard_normal(VOICES.shape[1])
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        return vectors


def result(
    samples: Samples, limits: SpeakerLimits | None = None, block: int = 16_000
) -> Diarization:
    blocks = (samples[start : start + block] for start in range(0, len(samples), block))
    *_, last = FakeDiarizer()(blocks, limits or SpeakerLimits())
    assert isinstance(last, Diarization)
    return last


TALK = ((0, 1.0), (1, 8.0), (2, 6.0), (0, 2.0), (1, 5.0), (3, 1.0), (2, 9.0), (0, 0.5))


def test_turns_have_the_right_speakers_and_times() -> None:
    turns = result(recording(*TALK)).turns
    found = [(turn.speaker, turn.start, turn.end) for turn in turns]
    expected = [
        *(("SPEAKER_00", 1.0, 9.0), ("SPEAKER_01", 9.0, 15.0)),
        *(("SPEAKER_00", 17.0, 23.0), ("SPEAKER_01", 22.0, 32.0)),
    ]
    assert [name for name, *_ in found] == [name for name, *_ in expected]
    for (_, *times), (_, *right) in zip(found, expected, strict=True):
        assert times == pytest.approx(right, abs=0.05)
    assert all(0 <= turn.confidence <= 1 for turn in turns)


def test_exclusive_turns_have_one_speaker_at_a_time() -> None:
    """Two people speak from 22 to 23 s; the tracks are equally probable, and the first counts."""
    exclusive = result(recording(*TALK)).exclusive
    assert all(one.end <= other.start for one, other in pairwise(exclusive))
    (first,) = (turn for turn in exclusive if turn.start <= 22.5 < turn.end)
    (last,) = (turn for turn in exclusive if turn.start <= 30 < turn.end)
    assert {first.speaker, last.speaker} <= {"SPEAKER_00", "SPEAKER_01"}
    speech = sum(turn.end - turn.start for turn in exclusive)
    assert speech == pytest.approx(8 + 6 + 5 + 1 + 9, abs=0.2)


@pytest.mark.parametrize("block", [1, 777, 16_000, 10_000_000])
def test_turns_do_not_depend_on_the_blocks(block: int) -> None:
    samples = recording(*TALK)[: 12 * SAMPLING_RATE] if block == 1 else recording(*TALK)
    assert result(samples, block=block).turns == result(samples).turns


@pytest.mark.parametrize("seconds", [0.0, 0.01, 0.5, 9.99, 10.0, 10.01, 15.0, 25.0])
def test_silence_has_no_speakers(seconds: float) -> None:
    assert result(recording((0, seconds))).turns == ()


@pytest.mark.parametrize("seconds", [1.0, 9.9, 10.0, 10.1, 14.9, 15.1, 40.0])
def test_one_voice_is_one_turn_to_the_end(seconds: float) -> None:
    (turn,) = result(recording((1, seconds))).turns
    assert (turn.start, turn.end) == pytest.approx((0.0, seconds), abs=0.06)
    assert turn.end <= seconds


@pytest.mark.parametrize(
    ("limits", "count"),
    [(SpeakerLimits(1, 1), 1), (SpeakerLimits(1, 2), 2), (SpeakerLimits(3, None), 3)],
)
def test_limits_bound_the_number_of_speakers(limits: SpeakerLimits, count: int) -> None:
    assert len(result(recording(*TALK), limits).speakers) == count


def test_progress_covers_the_recording_in_order() -> None:
    def blocks() -> Iterator[Samples]:
        yield recording(*TALK)

    *steps, last = FakeDiarizer()(blocks(), SpeakerLimits())
    ends = [step.end for step in steps if isinstance(step, Progress)]
    assert len(ends) == len(steps) > 3
    assert ends == sorted(ends)
    assert isinstance(last, Diarization)
    assert last.embeddings.keys() == set(last.speakers)


def test_pieces_of_several_windows_share_a_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each embedding still belongs to its piece: it is the largest rise of the features."""
    calls: list[int] = []
    added: list[tuple[Window, Sequence[Piece], Floats]] = []

    def rise(features: Sequence[Floats], /) -> Floats:
        calls.append(len(features))
        rises = [np.ptp(each[:, 0]) for each in features]
        return np.stack([np.ones(len(rises)), rises], axis=1)

    def add(_: Memory, window: Window, __: object, pieces: list[Piece], found: Floats) -> None:
        added.append((window, pieces, found))

    monkeypatch.setattr(Memory, "add", add)
    monkeypatch.setattr("whisperbatch.diarization.builtin.OnlineSpeakers", Mock())
    samples = recording((1, 60.0)) + np.random.default_rng(0).uniform(0, 0.3, 960_000)
    diarizer = BuiltInDiarizer(segmentation, rise, fbank, "fake")
    list(diarizer([samples.astype(np.float32)], SpeakerLimits()))
    assert max(calls) > max(len(pieces) for _, pieces, _ in added) > 1
    for window, pieces, found in added:
        assert len(found) == len(pieces)
        for piece, vector in zip(pieces, found, strict=True):
            start = -(-piece.start // 160) * 160
            own = window.samples[start : piece.end : 160]
            assert vector[1] / vector[0] == pytest.approx(np.ptp(own), abs=0.02)


@pytest.mark.parametrize("order", [[1, 2], [2, 1]])
def test_the_order_of_the_speakers_is_the_order_of_their_first_speech(
    monkeypatch: pytest.MonkeyPatch, order: list[int]
) -> None:
    """Whatever the order of their clusters is."""
    lengths = np.linalg.norm(VOICES, axis=1, keepdims=True)
    clusters = Mock(return_value=(VOICES / lengths)[order])
    monkeypatch.setattr("whisperbatch.diarization.builtin.find_voices", clusters)
    found = result(recording((0, 1.0), (2, 8.0), (1, 6.0), (0, 1.0), (2, 9.0)))
    assert list(found.speakers) == ["SPEAKER_00", "SPEAKER_01"]
    assert [turn.speaker for turn in found.turns] == ["SPEAKER_00", "SPEAKER_01", "SPEAKER_00"]
    for name, who in (("SPEAKER_00", 2), ("SPEAKER_01", 1)):
        assert (VOICES / lengths @ found.embeddings[name]).argmax() == who


def test_turns_do_not_depend_on_the_workers() -> None:
    """Several calls of the networks at a time: the same items, and the audio is read ahead."""
    samples = recording(*[(1 + number % 2, 4.0 + number % 3) for number in range(40)])
    taken = []

    def blocks() -> Iterator[Samples]:
        for start in range(0, len(samples), SAMPLING_RATE):
            taken.append(start)
            yield samples[start : start + SAMPLING_RATE]

    def items(workers: int) -> list[tuple[float, Progress | Diarization]]:
        taken.clear()
        found = [
            (item.end if isinstance(item, Progress) else np.inf, item)
            for item in FakeDiarizer(workers)(blocks(), SpeakerLimits())
        ]
        assert len(taken) == -(-len(samples) // SAMPLING_RATE)
        return found

    alone, together = items(1), items(3)
    assert [end for end, _ in alone] == [end for end, _ in together]
    for (_, one), (_, other) in zip(alone, together, strict=True):
        assert one.turns == other.turns
    assert len(alone[-1][1].turns) > 10


def test_audio_that_is_read_ahead_is_bounded() -> None:
    """The diarizer says how far it reads ahead, so that the listener does not stop it."""
    heard = [0.0]

    def blocks() -> Iterator[Samples]:
        for _ in range(400):
            heard[0] += 1.0
            yield np.ones(SAMPLING_RATE, np.float32)

    diarizer = FakeDiarizer(4)
    assert FakeDiarizer().reads_ahead == 0
    lag = 0.0
    for item in diarizer(blocks(), SpeakerLimits()):
        time.sleep(0.01)  # the threads read as far ahead as they may
        if isinstance(item, Progress):
            lag = max(lag, heard[0] - item.end)
    assert MAX_LAG < lag < MAX_LAG + diarizer.reads_ahead


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
