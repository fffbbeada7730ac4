"""Chunks hold all speech once, keep to their limit, and map their time to the recording's."""

import tracemalloc
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise, product

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import whisperbatch.chunking.merge as chunking_module
from whisperbatch.chunking.merge import (
    BREAK_COST,
    GOOD_PAUSE,
    LOOK_AHEAD,
    AudioBuffer,
    chunks,
    plan,
)
from whisperbatch.chunking.spans import SpanFinder
from whisperbatch.options import Options
from whisperbatch.types import WINDOW, Chunk, Samples, SpeechFrames, SpeechSpan, to_samples

HOP = 512
SECOND = 16_000

modest = settings(max_examples=80, deadline=None, derandomize=True)


@st.composite
def options(draw: st.DrawFn) -> Options:
    rng = draw(st.randoms(use_true_random=True))
    return Options(
        chunk_length=rng.choice((1.5, 3.0, 7.3, 30.0, 30.0)),
        max_silence=rng.choice((None, 0.0, 1761 / SECOND, 0.5, 2.0)),
        speech_pad=rng.choice((0.0, 0.1)),
    )


@st.composite
def probabilities(draw: st.DrawFn) -> npt.NDArray[np.float32]:
    """Up to some minutes of speech and pauses, short ones the most."""
    rng = draw(st.randoms(use_true_random=True))
    stretches = [
        np.full(
            rng.randint(1, rng.choice((12, 60, 60, 300))), rng.choice((0, 0, 1, 1, 0.4)), np.float32
        )
        for _ in range(rng.choice((0, 1, 4, 60)))
    ]
    return np.concatenate([np.zeros(0, np.float32), *stretches])


def counted(length: int) -> Samples:
    """Samples that differ one from the other: each is its own number over 2**24."""
    return (np.arange(length) / 2**24).astype(np.float32)


def in_blocks(
    speech: npt.NDArray[np.float32], cuts: list[int], missing: int = 0
) -> Iterator[SpeechFrames]:
    samples = counted(len(speech) * HOP - (missing if len(speech) else 0))
    bounds = sorted({0, len(speech), *(cut % (len(speech) + 1) for cut in cuts)})
    for first, last in pairwise(bounds):
        yield SpeechFrames(samples[first * HOP : last * HOP], speech[first:last])


def contents(found: list[Chunk]) -> list[tuple[object, ...]]:
    return [(c.recording, c.index, c.pieces, c.speech, c.samples.tobytes()) for c in found]


@modest
@given(probabilities(), options(), st.integers(0, HOP - 1))
def test_all_speech_is_in_one_chunk(
    speech: npt.NDArray[np.float32], given_options: Options, missing: int
) -> None:
    longest = min(given_options.max_speech_duration, given_options.chunk_length)
    finder = SpanFinder(replace(given_options, max_speech_duration=longest), HOP)
    spans: list[SpeechSpan] = []
    for block in in_blocks(speech, [], missing):
        spans += finder.push(block)
    spans += finder.finish(len(speech) * HOP - (missing if len(speech) else 0))

    found = list(chunks(in_blocks(speech, [], missing), given_options, HOP))
    assert [span for chunk in found for span in chunk.speech] == spans
    for chunk in found:
        held = [sample for piece in chunk.pieces for sample in (piece.start, piece.end)]
        assert held == sorted(held)
        for span in chunk.speech:
            assert any(p.start <= span.start and span.end <= p.end for p in chunk.pieces)
        assert chunk.start == chunk.speech[0].start
        assert chunk.end == chunk.speech[-1].end
    for chunk, following in pairwise(found):
        assert chunk.end <= following.start


@modest
@given(probabilities(), options(), st.integers(0, HOP - 1), st.sampled_from((0, 48_000)))
def test_samples_are_those_of_the_pieces(
    speech: npt.NDArray[np.float32], given_options: Options, missing: int, offset: int
) -> None:
    recording = counted(offset + len(speech) * HOP)
    blocks = (
        SpeechFrames(block.samples + np.float32(offset / 2**24), block.probabilities)
        for block in in_blocks(speech, [], missing)
    )
    found = chunks(blocks, given_options, HOP, recording=3, index=5, offset=offset)
    for number, chunk in enumerate(found):
        assert (chunk.recording, chunk.index) == (3, 5 + number)
        expected = np.concatenate([recording[p.start : p.end] for p in chunk.pieces])
        np.testing.assert_array_equal(chunk.samples, expected)
        assert 0 < chunk.length <= min(to_samples(given_options.chunk_length), WINDOW)
        assert chunk.start >= offset


@modest
@given(probabilities(), options(), st.lists(st.integers(0, 6000), max_size=20))
def test_blocks_do_not_matter(
    speech: npt.NDArray[np.float32], given_options: Options, cuts: list[int]
) -> None:
    whole = list(chunks(in_blocks(speech, []), given_options, HOP))
    parted = list(chunks(in_blocks(speech, cuts), given_options, HOP))
    assert contents(parted) == contents(whole)


@pytest.mark.parametrize("seed", range(4))
def test_chunks_are_chosen_by_no_more_than_the_look_ahead(seed: int) -> None:
    """Minutes of short phrases and pauses: in one block all is known, frame by frame it is not."""
    rng = np.random.default_rng(seed)
    phrases = rng.integers(10, 60, 300)
    pauses = rng.integers(8, 30, 300)
    lengths = np.stack([phrases, pauses], axis=1).ravel()
    speech = np.repeat(np.tile(np.array([1, 0], np.float32), 300), lengths)
    short = Options(chunk_length=6)
    whole = list(chunks(in_blocks(speech, []), short, HOP))
    parted = list(chunks(in_blocks(speech, list(range(len(speech)))), short, HOP))
    assert len(whole) > 60
    assert contents(parted) == contents(whole)


@modest
@given(probabilities(), options())
def test_only_pauses_longer_than_max_pause_are_shortened(
    speech: npt.NDArray[np.float32], given_options: Options
) -> None:
    longest = given_options.max_silence
    most = None if longest is None else to_samples(longest)
    for chunk in chunks(in_blocks(speech, []), given_options, HOP):
        for before, after in pairwise(chunk.speech):
            gap = after.start - before.end
            kept = chunk.chunk_time(after.start) - chunk.chunk_time(before.end)
            assert kept == (gap if most is None else min(gap, most))
        shortened = (
            0
            if most is None
            else sum(after.start - before.end > most for before, after in pairwise(chunk.speech))
        )
        assert len(chunk.pieces) == 1 + shortened


@st.composite
def made_chunks(draw: st.DrawFn) -> tuple[Samples, Chunk]:
    """A recording, and a chunk of any pieces of it, some of which touch."""
    lengths = draw(st.lists(st.tuples(st.integers(0, 40), st.integers(1, 40)), min_size=1))
    position = 0
    held = []
    for gap, length in lengths:
        held.append(SpeechSpan(position + gap, position + gap + length))
        position += gap + length
    recording = counted(position + draw(st.integers(0, 9)))
    samples = np.concatenate([recording[piece.start : piece.end] for piece in held])
    return recording, Chunk(0, 0, tuple(held), tuple(held), samples)


@modest
@given(made_chunks())
def test_time_map_is_exact_monotone_and_has_its_inverse(made: tuple[Samples, Chunk]) -> None:
    recording, chunk = made
    times = [chunk.recording_time(i) for i in range(chunk.length)]
    np.testing.assert_array_equal(recording[times], chunk.samples)
    assert all(one < other for one, other in pairwise([*times, chunk.recording_time(chunk.length)]))
    assert [chunk.chunk_time(time) for time in times] == list(range(chunk.length))
    assert chunk.recording_time(chunk.length) == chunk.end
    assert chunk.chunk_time(chunk.end) == chunk.length


@modest
@given(made_chunks())
def test_time_map_outside_the_chunk_is_its_nearest_end(made: tuple[Samples, Chunk]) -> None:
    recording, chunk = made
    assert chunk.recording_time(-1) == chunk.recording_time(-(10**9)) == chunk.start
    assert chunk.recording_time(chunk.length + 1) == chunk.recording_time(10**9) == chunk.end
    assert chunk.chunk_time(chunk.start - 1) == chunk.chunk_time(-(10**9)) == 0
    assert chunk.chunk_time(chunk.end + 1) == chunk.chunk_time(10**9) == chunk.length
    forth = [chunk.chunk_time(time) for time in range(len(recording))]
    assert forth == sorted(forth)


@modest
@given(made_chunks())
def test_a_gap_lies_at_the_joint(made: tuple[Samples, Chunk]) -> None:
    _, chunk = made
    joint = 0
    for piece, following in pairwise(chunk.pieces):
        joint += piece.length
        assert chunk.recording_time(joint) == following.start
        for time in range(piece.end, following.start + 1):
            assert chunk.chunk_time(time) == joint


def cost_of(
    spans: list[SpeechSpan], counts: list[int], limit: int, max_silence: int, *, more: bool
) -> float | None:
    """What a plan costs, or None if one of its chunks is too long."""
    cost = 0.0
    position = 0
    for count in counts:
        taken = spans[position : position + count]
        pauses = [min(b.start - a.end, max_silence) for a, b in pairwise(taken)]
        length = sum(span.length for span in taken) + sum(pauses)
        if length > limit:
            return None
        cost += length / limit if more and position + count == len(spans) else 1
        if position:
            pause = spans[position].start - spans[position - 1].end
            cost += BREAK_COST * max(0, 1 - pause / GOOD_PAUSE)
        position += count
    return cost


@st.composite
def few_spans(draw: st.DrawFn) -> list[SpeechSpan]:
    position = 0
    spans = []
    for _ in range(draw(st.integers(1, 9))):
        start = position + draw(st.integers(0, 2 * SECOND))
        position = start + draw(st.integers(1, 10 * SECOND))
        spans.append(SpeechSpan(start, position))
    return spans


@modest
@given(
    few_spans(),
    st.integers(10 * SECOND, 30 * SECOND),
    st.sampled_from((None, 0, SECOND // 4, SECOND)),
    st.booleans(),
)
def test_plan_is_the_best_of_all(
    spans: list[SpeechSpan], limit: int, max_silence: int | None, more: bool
) -> None:
    most = 10**9 if max_silence is None else max_silence
    costs = []
    for breaks in product((False, True), repeat=len(spans) - 1):
        bounds = [0, *(i for i, here in enumerate(breaks, 1) if here), len(spans)]
        cost = cost_of(spans, [b - a for a, b in pairwise(bounds)], limit, most, more=more)
        if cost is not None:
            costs.append(cost)
    counts = plan(spans, limit, max_silence, more=more)
    assert sum(counts) == len(spans)
    assert min(counts) > 0
    cost = cost_of(spans, counts, limit, most, more=more)
    assert cost == pytest.approx(min(costs))


def test_plan_of_nothing() -> None:
    assert plan([], WINDOW) == []


def test_chunks_part_at_the_long_pause_not_where_they_are_full() -> None:
    # greedy would put 28 s into the first chunk and part where there is 0.1 s of silence
    lengths = (9, 9, 9, 9, 9)
    pauses = (0.1, 1.0, 0.1, 0.1)
    spans = []
    position = 0.0
    for length, pause in zip(lengths, (*pauses, 0), strict=True):
        spans.append(SpeechSpan(to_samples(position), to_samples(position + length)))
        position += length + pause
    assert plan(spans, WINDOW) == [2, 3]


def test_fewer_chunks_before_better_pauses() -> None:
    spans = [SpeechSpan(i * 6 * SECOND, i * 6 * SECOND + 5 * SECOND) for i in range(5)]
    assert plan(spans, WINDOW) == [5]


def test_adjacent_chunks_of_one_long_speech_leave_nothing_out() -> None:
    speech = np.ones(4000, np.float32)  # 128 s
    found = list(chunks(in_blocks(speech, []), Options(), HOP))
    assert found[0].start == 0
    assert found[-1].end == 4000 * HOP
    assert all(one.end == other.start for one, other in pairwise(found))
    assert len(found) >= 5


def test_a_chunk_comes_once_what_follows_cannot_change_it() -> None:
    """After LOOK_AHEAD chunk lengths, the last margin, and no more."""
    speech = np.tile(np.repeat(np.array([1, 0], np.float32), (50, 20)), 200)
    read = 0

    def blocks() -> Iterator[SpeechFrames]:
        nonlocal read
        for block in in_blocks(speech, list(range(len(speech)))):
            read += len(block.samples)
            yield block

    first = next(chunks(blocks(), Options(chunk_length=10), HOP))
    assert 8 * SECOND <= first.length <= 10 * SECOND
    assert read <= LOOK_AHEAD * 10 * SECOND + 5 * SECOND


class Watched(AudioBuffer):
    """Tells how much is held at most."""

    most = 0

    def append(self, samples: Samples) -> None:
        super().append(samples)
        Watched.most = max(Watched.most, sum(len(block) for block in self._blocks))


@pytest.mark.parametrize("pause", [0, 30, 4000, 10**9])
@pytest.mark.parametrize("max_silence", [None, 0.5])
def test_memory_does_not_grow_with_the_recording(
    pause: int, max_silence: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An hour of 2 s blocks: speech, then `pause` frames of silence, and so on."""
    monkeypatch.setattr(chunking_module, "AudioBuffer", Watched)
    Watched.most = 0

    def endless() -> Iterator[SpeechFrames]:
        rng = np.random.default_rng(0)
        for number in range(1800):
            frames = np.arange(number * 64, number * 64 + 64)
            speech = (frames % (200 + pause) < 200).astype(np.float32)
            yield SpeechFrames(rng.random(64 * HOP, np.float32), speech)

    tracemalloc.start()
    try:
        seconds = sum(
            chunk.length for chunk in chunks(endless(), Options(max_silence=max_silence), HOP)
        )
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert seconds > 6 * SECOND
    # what a break is chosen by, the two spans that are not certain yet, and a block
    bound = (LOOK_AHEAD * 30 + 2 * 30 + 2) * SECOND
    assert Watched.most <= bound
    assert peak < 3 * 4 * bound  # bytes: once held, once copied, and one chunk


def test_taken_samples_are_a_copy() -> None:
    buffer = AudioBuffer()
    block = counted(100)
    buffer.append(block)
    taken = buffer.take(SpeechSpan(10, 20))
    np.testing.assert_array_equal(taken, block[10:20])
    assert not np.shares_memory(taken, block)


def test_buffer_is_addressed_by_recording_sample() -> None:
    buffer = AudioBuffer(start=1000)
    recording = counted(2000)
    for first in range(1000, 2000, 100):
        buffer.append(recording[first : first + 100])
        buffer.forget(first - 250)
    assert buffer.end == 2000
    taken = buffer.take(SpeechSpan(1651, 1999))
    np.testing.assert_array_equal(taken, recording[1651:1999])
