import numpy as np

from whisperbatch.chunking.merge import AudioBuffer, plan
from whisperbatch.types import SAMPLING_RATE, WINDOW, SpeechSpan, to_samples


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
