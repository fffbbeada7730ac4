"""Chunks contain all speech once, keep to their maximum length, and map times correctly."""

import tracemalloc
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise, product

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.examples import up_to
from whisperbatch.chunking import merge
from whisperbatch.chunking.merge import (
    BREAK_COST,
    LONG_PAUSE,
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

few_examples = settings(max_examples=up_to(80), deadline=None, derandomize=True)


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
    """Up to some minutes of speech and pauses, most of them short."""
    rng = draw(st.randoms(use_true_random=True))
    sections = [
        np.full(
            rng.randint(1, rng.choice((12, 60, 60, 300))), rng.choice((0, 0, 1, 1, 0.4)), np.float32
        )
        for _ in range(rng.choice((0, 1, 4, 60)))
    ]
    return np.concatenate([np.zeros(0, np.float32), *sections])


def counted(length: int) -> Samples:
    """Return samples that all differ: each is its own index over 2**24."""
    return (np.arange(length) / 2**24).astype(np.float32)


def in_blocks(
    speech: npt.NDArray[np.float32], cuts: list[int], missing: int = 0
) -> Iterator[SpeechFrames]:
    samples = counted(len(speech) * HOP - (missing if len(speech) else 0))
    bounds = sorted({0, len(speech), *(cut % (len(speech) + 1) for cut in cuts)})
    for first, last in pairwise(bounds):
        yield SpeechFrames(samples[first * HOP : last * HOP], speech[first:last])


def contents(chunk_list: list[Chunk]) -> list[tuple[object, ...]]:
    return [(c.recording, c.index, c.pieces, c.speech, c.samples.tobytes()) for c in chunk_list]


@few_examples
@given(probabilities(), options(), st.integers(0, HOP - 1))
def test_every_span_is_in_exactly_one_chunk(
    speech: npt.NDArray[np.float32], chunk_options: Options, missing: int
) -> None:
    max_speech = min(chunk_options.max_speech_duration, chunk_options.chunk_length)
    finder = SpanFinder(replace(chunk_options, max_speech_duration=max_speech), HOP)
    spans: list[SpeechSpan] = []
    for block in in_blocks(speech, [], missing):
        spans += finder.push(block)
    spans += finder.finish(len(speech) * HOP - (missing if len(speech) else 0))

    results = list(chunks(in_blocks(speech, [], missing), chunk_options, HOP))
    assert [span for chunk in results for span in chunk.speech] == spans
    for chunk in results:
        bounds = [sample for piece in chunk.pieces for sample in (piece.start, piece.end)]
        assert bounds == sorted(bounds)
        for span in chunk.speech:
            assert any(p.start <= span.start and span.end <= p.end for p in chunk.pieces)
        assert chunk.start == chunk.speech[0].start
        assert chunk.end == chunk.speech[-1].end
    for chunk, following in pairwise(results):
        assert chunk.end <= following.start


@few_examples
@given(probabilities(), options(), st.integers(0, HOP - 1), st.sampled_from((0, 48_000)))
def test_chunks_have_the_samples_of_their_pieces(
    speech: npt.NDArray[np.float32], chunk_options: Options, missing: int, offset: int
) -> None:
    recording = counted(offset + len(speech) * HOP)
    blocks = (
        SpeechFrames(block.samples + np.float32(offset / 2**24), block.probabilities)
        for block in in_blocks(speech, [], missing)
    )
    results = chunks(blocks, chunk_options, HOP, recording=3, index=5, offset=offset)
    for number, chunk in enumerate(results):
        assert (chunk.recording, chunk.index) == (3, 5 + number)
        expected = np.concatenate([recording[p.start : p.end] for p in chunk.pieces])
        np.testing.assert_array_equal(chunk.samples, expected)
        assert 0 < chunk.length <= min(to_samples(chunk_options.chunk_length), WINDOW)
        assert chunk.start >= offset


@few_examples
@given(probabilities(), options(), st.lists(st.integers(0, 6000), max_size=20))
def test_chunks_do_not_depend_on_the_blocks(
    speech: npt.NDArray[np.float32], chunk_options: Options, cuts: list[int]
) -> None:
    one_block = list(chunks(in_blocks(speech, []), chunk_options, HOP))
    many_blocks = list(chunks(in_blocks(speech, cuts), chunk_options, HOP))
    assert contents(many_blocks) == contents(one_block)


@pytest.mark.parametrize("seed", [0, *(pytest.param(n, marks=pytest.mark.slow) for n in (1, 2, 3))])
def test_only_the_look_ahead_affects_a_chunk(seed: int) -> None:
    """Minutes of short phrases and pauses, in one block or frame by frame."""
    rng = np.random.default_rng(seed)
    phrases = rng.integers(10, 60, 300)
    pauses = rng.integers(8, 30, 300)
    lengths = np.stack([phrases, pauses], axis=1).ravel()
    speech = np.repeat(np.tile(np.array([1, 0], np.float32), 300), lengths)
    short_chunks = Options(chunk_length=6)
    one_block = list(chunks(in_blocks(speech, []), short_chunks, HOP))
    many_blocks = list(chunks(in_blocks(speech, list(range(len(speech)))), short_chunks, HOP))
    assert len(one_block) > 60
    assert contents(many_blocks) == contents(one_block)


@few_examples
@given(probabilities(), options())
def test_only_pauses_longer_than_max_silence_are_shortened(
    speech: npt.NDArray[np.float32], chunk_options: Options
) -> None:
    max_silence = chunk_options.max_silence
    limit = 10**9 if max_silence is None else to_samples(max_silence)
    for chunk in chunks(in_blocks(speech, []), chunk_options, HOP):
        pauses = [after.start - before.end for before, after in pairwise(chunk.speech)]
        in_chunk = [
            chunk.chunk_time(after.start) - chunk.chunk_time(before.end)
            for before, after in pairwise(chunk.speech)
        ]
        assert in_chunk == [min(pause, limit) for pause in pauses]
        assert len(chunk.pieces) == 1 + sum(pause > limit for pause in pauses)


@st.composite
def recordings_with_chunk(draw: st.DrawFn) -> tuple[Samples, Chunk]:
    """A recording, and a chunk of some of its pieces, which may be adjacent."""
    lengths = draw(st.lists(st.tuples(st.integers(0, 40), st.integers(1, 40)), min_size=1))
    position = 0
    pieces = []
    for gap, length in lengths:
        pieces.append(SpeechSpan(position + gap, position + gap + length))
        position += gap + length
    recording = counted(position + draw(st.integers(0, 9)))
    samples = np.concatenate([recording[piece.start : piece.end] for piece in pieces])
    return recording, Chunk(0, 0, tuple(pieces), tuple(pieces), samples)


@few_examples
@given(recordings_with_chunk())
def test_time_map_is_exact_monotone_and_invertible(example: tuple[Samples, Chunk]) -> None:
    recording, chunk = example
    times = [chunk.recording_time(i) for i in range(chunk.length)]
    np.testing.assert_array_equal(recording[times], chunk.samples)
    with_end = [*times, chunk.recording_time(chunk.length)]
    assert with_end == sorted(set(with_end))
    assert [chunk.chunk_time(time) for time in times] == list(range(chunk.length))
    assert chunk.recording_time(chunk.length) == chunk.end
    assert chunk.chunk_time(chunk.end) == chunk.length


@few_examples
@given(recordings_with_chunk())
def test_times_outside_the_chunk_map_to_its_nearest_end(example: tuple[Samples, Chunk]) -> None:
    recording, chunk = example
    assert chunk.recording_time(-1) == chunk.recording_time(-(10**9)) == chunk.start
    assert chunk.recording_time(chunk.length + 1) == chunk.recording_time(10**9) == chunk.end
    assert chunk.chunk_time(chunk.start - 1) == chunk.chunk_time(-(10**9)) == 0
    assert chunk.chunk_time(chunk.end + 1) == chunk.chunk_time(10**9) == chunk.length
    chunk_times = [chunk.chunk_time(time) for time in range(len(recording))]
    assert chunk_times == sorted(chunk_times)


@few_examples
@given(recordings_with_chunk())
def test_a_cut_out_pause_maps_to_the_joint(example: tuple[Samples, Chunk]) -> None:
    _, chunk = example
    joint = 0
    for piece, following in pairwise(chunk.pieces):
        joint += piece.length
        assert chunk.recording_time(joint) == following.start
        for time in range(piece.end, following.start + 1):
            assert chunk.chunk_time(time) == joint


def cost_of(
    spans: list[SpeechSpan], counts: list[int], limit: int, max_silence: int, *, more: bool
) -> float | None:
    """Return the cost of a plan, or None if one of its chunks is too long."""
    cost = 0.0
    position = 0
    for count in counts:
        chunk_spans = spans[position : position + count]
        pauses = [min(b.start - a.end, max_silence) for a, b in pairwise(chunk_spans)]
        length = sum(span.length for span in chunk_spans) + sum(pauses)
        if length > limit:
            return None
        cost += length / limit if more and position + count == len(spans) else 1
        if position:
            pause = spans[position].start - spans[position - 1].end
            cost += BREAK_COST * max(0, 1 - pause / LONG_PAUSE)
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


@few_examples
@given(
    few_spans(),
    st.integers(10 * SECOND, 30 * SECOND),
    st.sampled_from((None, 0, SECOND // 4, SECOND)),
    st.booleans(),
)
def test_plan_has_the_lowest_cost_of_all_plans(
    spans: list[SpeechSpan], limit: int, max_silence: int | None, more: bool
) -> None:
    max_pause = 10**9 if max_silence is None else max_silence
    costs = []
    for breaks in product((False, True), repeat=len(spans) - 1):
        bounds = [0, *(i for i, is_break in enumerate(breaks, 1) if is_break), len(spans)]
        cost = cost_of(spans, [b - a for a, b in pairwise(bounds)], limit, max_pause, more=more)
        if cost is not None:
            costs.append(cost)
    counts = plan(spans, limit, max_silence, more=more)
    assert sum(counts) == len(spans)
    assert min(counts) > 0
    cost = cost_of(spans, counts, limit, max_pause, more=more)
    assert cost == pytest.approx(min(costs))


def test_chunks_of_unbroken_speech_are_adjacent() -> None:
    speech = np.ones(4000, np.float32)  # 128 s
    results = list(chunks(in_blocks(speech, []), Options(), HOP))
    assert results[0].start == 0
    assert results[-1].end == 4000 * HOP
    assert all(chunk.end == following.start for chunk, following in pairwise(results))
    assert len(results) >= 5


def test_a_chunk_is_yielded_when_later_speech_cannot_change_it() -> None:
    """After LOOK_AHEAD chunk lengths and the last margin."""
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


class MeasuredBuffer(AudioBuffer):
    """Records the maximum number of samples in the buffer."""

    max_samples = 0

    def append(self, samples: Samples) -> None:
        super().append(samples)
        samples_held = sum(len(block) for block in self._blocks)
        MeasuredBuffer.max_samples = max(MeasuredBuffer.max_samples, samples_held)


@pytest.mark.parametrize(
    ("pause", "max_silence"),
    [
        *((0, 0.5), (30, None), (4000, 0.5), (10**9, None)),
        *(
            pytest.param(*case, marks=pytest.mark.slow)
            for case in ((0, None), (30, 0.5), (4000, None), (10**9, 0.5))
        ),
    ],
)
def test_memory_does_not_grow_with_the_recording(
    pause: int, max_silence: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An hour of 2 s blocks that alternate between speech and `pause` frames of silence."""
    monkeypatch.setattr(merge, "AudioBuffer", MeasuredBuffer)
    MeasuredBuffer.max_samples = 0

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
    # the look-ahead, two spans that are not certain yet, and a block
    bound = (LOOK_AHEAD * 30 + 2 * 30 + 2) * SECOND
    assert MeasuredBuffer.max_samples <= bound
    assert peak < 3 * 4 * bound  # bytes: the buffer, a copy, and one chunk
