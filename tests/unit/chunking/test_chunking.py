"""Chunks: spans of speech are split and merged."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from whisperbatch.chunking.merge import AudioBuffer, plan
from whisperbatch.chunking.split import cut_at_pauses, cut_out, isolate, shift, split_in_two
from whisperbatch.types import SAMPLING_RATE, WINDOW, Chunk, SpeechSpan, to_samples


def make_chunk(*pairs: tuple[float, float]) -> Chunk:
    """Return a chunk with speech at `pairs` of start and end (s).

    The value of each sample is its position in the recording.
    """
    spans = tuple(SpeechSpan(to_samples(start), to_samples(end)) for start, end in pairs)
    samples = np.arange(spans[0].start, spans[-1].end).astype(np.float32)
    return Chunk(0, 3, (SpeechSpan(spans[0].start, spans[-1].end),), spans, samples)


def speech_times(chunk: Chunk) -> list[tuple[float, float]]:
    """Return start and end of each speech span in seconds."""
    return [(span.start / 16000, span.end / 16000) for span in chunk.speech]


def test_a_chunk_is_split_at_a_long_pause_near_the_target() -> None:
    chunk = make_chunk((10, 14), (14.2, 18), (19, 24), (24.1, 28))
    parts = split_in_two(chunk, to_samples(19))
    assert parts
    assert [speech_times(part) for part in parts] == [
        [(10, 14), (14.2, 18)],
        [(19, 24), (24.1, 28)],
    ]
    parts = split_in_two(chunk, to_samples(14.1))
    assert parts
    assert speech_times(parts[0]) == [(10, 14)]


def test_without_a_pause_a_chunk_is_split_at_the_quietest_place() -> None:
    chunk = make_chunk((0, 20))
    chunk.samples[:] = 1
    chunk.samples[to_samples(10.5) : to_samples(10.6)] = 0
    parts = split_in_two(chunk, to_samples(10))
    assert parts
    assert 10.5 <= parts[0].end / 16000 <= 10.6
    assert parts[1].start == parts[0].end


def test_a_chunk_with_little_speech_is_not_split() -> None:
    assert split_in_two(make_chunk((0, 1.9)), 0) is None
    assert split_in_two(make_chunk((0, 0.9), (5, 6)), 0) is None
    assert split_in_two(make_chunk((0, 1), (5, 6)), 0)


@st.composite
def chunks(draw: st.DrawFn) -> Chunk:
    position = draw(st.floats(0, 100))
    pairs = []
    for _ in range(draw(st.integers(1, 6))):
        length = draw(st.floats(0.1, 4.9))
        pairs.append((position, position + length))
        position += length + draw(st.sampled_from([0.0, 0.05, 0.3]))
    return make_chunk(*pairs)


@given(chunks(), st.floats(-0.2, 1.2))
def test_all_speech_is_in_one_of_the_parts(chunk: Chunk, fraction: float) -> None:
    target = round(chunk.start + fraction * (chunk.end - chunk.start))
    parts = split_in_two(chunk, target)
    total = sum(span.length for span in chunk.speech)
    if parts is None:
        assert total < to_samples(2)
        return
    assert sum(span.length for part in parts for span in part.speech) == total
    assert parts[0].end <= parts[1].start
    for part in parts:
        assert sum(span.length for span in part.speech) >= to_samples(0.99)
        check_samples(part)


@given(chunks(), st.floats(0, 1), st.floats(0, 1))
def test_a_part_has_the_samples_of_its_range(
    chunk: Chunk, fraction_1: float, fraction_2: float
) -> None:
    length = chunk.end - chunk.start
    start = chunk.start + round(min(fraction_1, fraction_2) * (length - 1))
    end = max(start + 1, chunk.start + round(max(fraction_1, fraction_2) * length))
    part = cut_out(chunk, start, end)
    assert (part.start, part.end) == (start, end)
    check_samples(part)


def check_samples(part: Chunk) -> None:
    """Check the samples of a chunk with one piece from `make_chunk`."""
    np.testing.assert_array_equal(part.samples, np.arange(part.start, part.end, dtype=np.float32))


def test_a_chunk_with_a_shortened_pause_can_be_split() -> None:
    spans = (SpeechSpan(0, 48000), SpeechSpan(96000, 144000))
    samples = np.concatenate([np.arange(0, 48000), np.arange(96000, 144000)]).astype(np.float32)
    parts = split_in_two(Chunk(0, 0, spans, spans, samples), 72000)
    assert parts
    for part in parts:
        check_samples(part)


@pytest.mark.parametrize("start", [0.0, 0.2, 5.0])
def test_a_shifted_chunk_has_silence_around_it(start: float) -> None:
    chunk = make_chunk((start, start + 1))
    chunk.samples[:] = 1
    shifted = shift(chunk)
    assert shifted.speech == chunk.speech
    assert shifted.start == chunk.start - min(to_samples(start), to_samples(0.5))
    assert shifted.end == chunk.end + to_samples(0.5)
    assert len(shifted.samples) == shifted.end - shifted.start
    silence = chunk.start - shifted.start
    assert not shifted.samples[:silence].any()
    assert shifted.samples[silence : silence + chunk.length].all()
    assert not shifted.samples[silence + chunk.length :].any()


def test_a_shifted_chunk_fits_the_window() -> None:
    shifted = shift(make_chunk((100, 129.9)))
    assert shifted.length == WINDOW


def test_isolated_speech_is_a_part_between_the_parts_around_it() -> None:
    whole = make_chunk((0, 3), (4, 7), (8, 9))
    parts = isolate(whole, to_samples(4.1), to_samples(6.9))
    assert [part.speech for part in parts] == [(span,) for span in whole.speech]
    assert [(part.start, part.end) for part in parts] == [
        (0, to_samples(4)),
        (to_samples(4), to_samples(7)),
        (to_samples(7), to_samples(9)),
    ]
    assert np.array_equal(np.concatenate([part.samples for part in parts]), whole.samples)


def test_isolated_speech_at_an_end_of_the_chunk_makes_two_parts() -> None:
    whole = make_chunk((0, 3), (4, 7))
    assert len(isolate(whole, 0, to_samples(3))) == 2
    assert len(isolate(whole, to_samples(5), to_samples(7))) == 2
    assert len(isolate(whole, 0, to_samples(7))) == 1


def seconds(start: float, end: float) -> SpeechSpan:
    return SpeechSpan(to_samples(start), to_samples(end))


def test_a_chunk_is_cut_at_each_pause_of_a_stretch_and_around_the_stretch() -> None:
    chunk = make_chunk((0, 2), (3, 5), (6, 8), (9, 11), (12, 14), (15, 17))
    parts = cut_at_pauses(chunk, [seconds(6.5, 10)])
    assert [speech_times(part) for part in parts] == [
        [(0, 2), (3, 5)],
        [(6, 8)],
        [(9, 11)],
        [(12, 14), (15, 17)],
    ]
    for part in parts:
        check_samples(part)


def test_short_phrases_are_not_cut_off() -> None:
    chunk = make_chunk((0, 2), (3, 3.5), (4, 4.8), (5, 6), (7, 7.2))
    parts = cut_at_pauses(chunk, [seconds(3, 8)])
    assert [speech_times(part) for part in parts] == [
        [(0, 2)],
        [(3, 3.5), (4, 4.8)],
        [(5, 6), (7, 7.2)],
    ]


def test_a_chunk_without_pauses_in_the_stretches_is_not_cut() -> None:
    chunk = make_chunk((0, 9))
    assert cut_at_pauses(chunk, [seconds(2, 5)]) == (chunk,)
    chunk = make_chunk((0, 4), (5, 9))
    assert cut_at_pauses(chunk, []) == (chunk,)
    assert cut_at_pauses(chunk, [seconds(4.2, 4.8)]) == (chunk,)


@given(chunks(), st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), max_size=3))
def test_cut_at_pauses_keeps_all_speech(chunk: Chunk, fractions: list[tuple[float, float]]) -> None:
    length = chunk.end - chunk.start
    stretches = [
        SpeechSpan(chunk.start + round(min(pair) * length), chunk.start + round(max(pair) * length))
        for pair in fractions
    ]
    parts = cut_at_pauses(chunk, stretches)
    assert [span for part in parts for span in part.speech] == list(chunk.speech)
    if len(parts) > 1:
        for part in parts:
            assert sum(span.length for span in part.speech) >= to_samples(1)
            check_samples(part)


def test_plan_without_spans_is_empty() -> None:
    assert plan([], WINDOW) == []


def test_chunks_end_at_a_long_pause_before_they_are_full() -> None:
    # a greedy plan would put 28 s into the first chunk and end at a pause of 0.1 s
    lengths = (9, 9, 9, 9, 9)
    pauses = (0.1, 1.0, 0.1, 0.1)
    spans = []
    position = 0.0
    for length, pause in zip(lengths, (*pauses, 0), strict=True):
        spans.append(SpeechSpan(to_samples(position), to_samples(position + length)))
        position += length + pause
    assert plan(spans, WINDOW) == [2, 3]


def test_fewer_chunks_are_preferred_to_longer_pauses() -> None:
    spans = [
        SpeechSpan(i * 6 * SAMPLING_RATE, i * 6 * SAMPLING_RATE + 5 * SAMPLING_RATE)
        for i in range(5)
    ]
    assert plan(spans, WINDOW) == [5]


def test_buffer_returns_a_copy() -> None:
    buffer = AudioBuffer()
    block = np.arange(100, dtype=np.float32)
    buffer.append(block)
    copied = buffer.copy(SpeechSpan(10, 20))
    np.testing.assert_array_equal(copied, block[10:20])
    assert not np.shares_memory(copied, block)


def test_buffer_positions_count_from_the_start_of_the_stream() -> None:
    buffer = AudioBuffer()
    stream = np.arange(2000, dtype=np.float32)
    for first in range(0, 2000, 100):
        buffer.append(stream[first : first + 100])
        buffer.discard(first - 250)
    assert buffer.end == 2000
    copied = buffer.copy(SpeechSpan(1651, 1999))
    np.testing.assert_array_equal(copied, stream[1651:1999])
