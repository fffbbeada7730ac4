import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from whisperbatch.chunking.split import halves, moved, stretch
from whisperbatch.types import WINDOW, Chunk, SpeechSpan, to_samples


def made(*pairs: tuple[float, float]) -> Chunk:
    """Its samples tell their place in the recording."""
    spans = tuple(SpeechSpan(to_samples(start), to_samples(end)) for start, end in pairs)
    samples = np.arange(spans[0].start, spans[-1].end).astype(np.float32)
    return Chunk(0, 3, (SpeechSpan(spans[0].start, spans[-1].end),), spans, samples)


def seconds(chunk: Chunk) -> list[tuple[float, float]]:
    return [(span.start / 16000, span.end / 16000) for span in chunk.speech]


def test_a_chunk_is_cut_at_the_longest_pause_near_the_target() -> None:
    chunk = made((10, 14), (14.2, 18), (19, 24), (24.1, 28))
    cut = halves(chunk, to_samples(19))
    assert cut
    assert [seconds(part) for part in cut] == [[(10, 14), (14.2, 18)], [(19, 24), (24.1, 28)]]
    near = halves(chunk, to_samples(14.1))
    assert near
    assert seconds(near[0]) == [(10, 14)]


def test_without_a_pause_it_is_cut_where_it_is_quietest() -> None:
    chunk = made((0, 20))
    chunk.samples[:] = 1
    chunk.samples[to_samples(10.5) : to_samples(10.6)] = 0
    cut = halves(chunk, to_samples(10))
    assert cut
    assert 10.5 <= cut[0].end / 16000 <= 10.6
    assert cut[1].start == cut[0].end


def test_little_speech_is_not_cut() -> None:
    assert halves(made((0, 1.9)), 0) is None
    assert halves(made((0, 0.9), (5, 6)), 0) is None
    assert halves(made((0, 1), (5, 6)), 0)


@st.composite
def chunks(draw: st.DrawFn) -> Chunk:
    position = draw(st.floats(0, 100))
    pairs = []
    for _ in range(draw(st.integers(1, 6))):
        length = draw(st.floats(0.1, 4.9))
        pairs.append((position, position + length))
        position += length + draw(st.sampled_from([0.0, 0.05, 0.3]))
    return made(*pairs)


@given(chunks(), st.floats(-0.2, 1.2))
def test_all_speech_is_in_one_of_the_two(chunk: Chunk, where: float) -> None:
    target = round(chunk.start + where * (chunk.end - chunk.start))
    cut = halves(chunk, target)
    total = sum(span.length for span in chunk.speech)
    if cut is None:
        assert total < to_samples(2)
        return
    assert sum(span.length for part in cut for span in part.speech) == total
    assert cut[0].end <= cut[1].start
    for part in cut:
        assert sum(span.length for span in part.speech) >= to_samples(0.99)
        check_samples(part)


@given(chunks(), st.floats(0, 1), st.floats(0, 1))
def test_a_stretch_holds_its_own_samples(chunk: Chunk, first: float, last: float) -> None:
    length = chunk.end - chunk.start
    start = chunk.start + round(min(first, last) * (length - 1))
    end = max(start + 1, chunk.start + round(max(first, last) * length))
    part = stretch(chunk, start, end)
    assert (part.start, part.end) == (start, end)
    check_samples(part)


def check_samples(part: Chunk) -> None:
    np.testing.assert_array_equal(part.samples, np.arange(part.start, part.end, dtype=np.float32))


def test_a_chunk_with_a_pause_cut_out_is_cut_too() -> None:
    spans = (SpeechSpan(0, 48000), SpeechSpan(96000, 144000))
    samples = np.concatenate([np.arange(0, 48000), np.arange(96000, 144000)]).astype(np.float32)
    cut = halves(Chunk(0, 0, spans, spans, samples), 72000)
    assert cut
    for part in cut:
        check_samples(part)


@pytest.mark.parametrize("start", [0.0, 0.2, 5.0])
def test_a_moved_chunk_has_silence_around_it(start: float) -> None:
    chunk = made((start, start + 1))
    chunk.samples[:] = 1
    found = moved(chunk)
    assert found.speech == chunk.speech
    assert found.start == chunk.start - min(to_samples(start), to_samples(0.5))
    assert found.end == chunk.end + to_samples(0.5)
    assert len(found.samples) == found.end - found.start
    silence = chunk.start - found.start
    assert not found.samples[:silence].any()
    assert found.samples[silence : silence + chunk.length].all()
    assert not found.samples[silence + chunk.length :].any()


def test_a_moved_chunk_fits_the_window() -> None:
    found = moved(made((100, 129.9)))
    assert found.length == WINDOW
