"""Sections: their boundaries, their memory, and their errors."""

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.examples import up_to
from tests.unit.fakes import noise
from whisperbatch.audio.clips import Clip
from whisperbatch.options import Options
from whisperbatch.sections import chunk_recording
from whisperbatch.sections.division import Section, Sections, find_boundary
from whisperbatch.types import (
    SAMPLING_RATE,
    SEARCH,
    SECTION,
    WARM_UP,
    WHOLE,
    Samples,
    Span,
    SpeechFrames,
    SpeechSpan,
    first_section,
    to_samples,
)
from whisperbatch.vad import NoVad

OPTIONS = Options(vad=False)


def stream(seconds: float, start: int = 0) -> Iterator[Samples]:
    """Equal seconds of noise from a sample on, in blocks of at most 1 s."""
    second = noise(1.0)
    end = round(seconds * SAMPLING_RATE)
    for position in range(start, end, SAMPLING_RATE):
        block = np.roll(second, -(position % SAMPLING_RATE))
        yield block[: end - position]


def found(
    seconds: float, first: int = 0, last: int | None = None, span: Span = WHOLE
) -> list[tuple[int, int, int]]:
    """Return number, start and end of each section of a clip, in samples."""
    position = max(first, span.start)
    end = seconds if last is None else last / SAMPLING_RATE
    clip = Clip(first, last, position, stream(end, position))
    return [
        (section.number, section.start, section.start + length_of(section))
        for section in sections_of(clip, span)
    ]


def sections_of(clip: Clip, span: Span = WHOLE) -> Iterator[Section]:
    divided = Sections(clip, NoVad(), OPTIONS, span)
    return filter(None, map(divided.read, divided.numbers()))


def length_of(section: Section) -> int:
    return sum(len(block.samples) for block in section.frames)


@pytest.mark.parametrize("seconds", [1, 299, 300, 301, 330])
def test_a_recording_without_a_complete_search_window_is_one_section(seconds: int) -> None:
    assert found(seconds) == [(0, 0, seconds * SAMPLING_RATE)]


@pytest.mark.parametrize(
    ("first", "last", "numbers"),
    [
        (0, None, [0, 1, 2, 3]),
        (1, None, [0, 2, 3]),
        (299, 931, [0, 2, 3]),
        (299, 930, [0, 2]),
        (300, None, [1, 2, 3]),
        (601, None, [2]),
        (20, 320, [0]),
    ],
)
def test_a_clip_is_not_divided_in_its_first_five_minutes(
    first: int, last: int | None, numbers: list[int]
) -> None:
    end = None if last is None else last * SAMPLING_RATE
    result = found(1000, first * SAMPLING_RATE, end)
    assert [number for number, *_ in result] == numbers
    assert result[0][1] == first * SAMPLING_RATE
    assert result[-1][2] == (1000 * SAMPLING_RATE if end is None else end)
    assert all(before[2] == after[1] for before, after in pairwise(result))
    for number, start, _ in result[1:]:
        assert number * SECTION <= start < number * SECTION + SEARCH


@pytest.mark.parametrize("first", [0, 1, 2, 3, 4])
def test_a_span_has_the_sections_that_begin_in_it(first: int) -> None:
    expected = found(1000)
    for last in (first + 1, first + 2, None):
        span = Span(first, last)
        assert found(1000, span=span) == [section for section in expected if span.has(section[0])]


def test_little_audio_is_read_ahead() -> None:
    position = 0

    def counted() -> Iterator[Samples]:
        nonlocal position
        for block in stream(2000):
            position += len(block)
            yield block

    done = 0
    for section in sections_of(Clip(0, None, 0, counted())):
        for block in section.frames:
            done += len(block.samples)
            assert position - done <= SEARCH + 2 * 2 * SAMPLING_RATE + WARM_UP
    assert done == 2000 * SAMPLING_RATE


@pytest.mark.parametrize("seconds", [200, 310, 420, 640])
def test_an_error_comes_after_the_chunks_of_earlier_sections(seconds: int) -> None:
    def broken() -> Iterator[Samples]:
        yield from stream(seconds)
        raise OSError("unplugged")

    yielded: list[tuple[SpeechSpan, ...]] = []
    whole = [chunk.pieces for chunk in chunk_recording(stream(seconds), OPTIONS)]
    numbers = [chunk.section for chunk in chunk_recording(stream(seconds), OPTIONS)]
    chunks = chunk_recording(broken(), OPTIONS)
    with pytest.raises(OSError, match="unplugged"):
        yielded.extend(chunk.pieces for chunk in chunks)
    assert yielded == whole[: len(yielded)]
    complete = sum(number < numbers[-1] for number in numbers)
    assert len(yielded) >= complete


def test_an_error_before_the_point_of_a_span_is_raised() -> None:
    def broken() -> Iterator[Samples]:
        yield from stream(310)
        raise OSError("unplugged")

    with pytest.raises(OSError, match="unplugged"):
        list(chunk_recording(broken(), OPTIONS, span=Span(1)))


def test_the_first_section_is_that_of_the_first_range() -> None:
    cases: dict[float, Any] = {0.0: 0, 299.9: 0, 300.0: 1, 700.0: 2}
    for start, number in cases.items():
        assert first_section(((start, None),)) == number
    assert first_section(()) == 0


def test_the_lengths_are_multiples_of_a_frame() -> None:
    """Otherwise, the frames of two sections would not be frames of one grid."""
    assert to_samples(300) == SECTION
    for length in (SECTION, SEARCH, WARM_UP):
        assert length % NoVad.hop == 0


def test_silence_has_sections_without_chunks() -> None:
    silence = (np.zeros(SAMPLING_RATE, np.float32) for _ in range(400))
    assert list(chunk_recording(silence, Options())) == []


HOP = 512
OFFSET = 0.35  # of VAD frames with speech

Part = tuple[int, float, float]
"""Number of VAD frames, probability of speech, amplitude."""


def window(*parts: Part) -> SpeechFrames:
    rng = np.random.default_rng(0)
    noise = np.tile(rng.standard_normal(HOP), sum(count for count, *_ in parts))
    levels = np.repeat([level for *_, level in parts], [count * HOP for count, *_ in parts])
    probabilities = np.concatenate([np.full(count, p, np.float32) for count, p, _ in parts])
    return SpeechFrames((levels * noise).astype(np.float32), probabilities)


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ([(50, 0.9, 0.1), (10, 0.1, 0.001), (50, 0.9, 0.1)], 55),  # the middle of a pause
        ([(20, 0.9, 0.1), (6, 0.1, 1e-4), (20, 0.9, 0.1), (20, 0.1, 0.01), (9, 0.9, 0.1)], 56),
        ([(31, 0.1, 0.01), (20, 0.9, 0.1), (90, 0.1, 1e-3)], 96),  # the quietest long pause
        ([(60, 0.1, 0.05), (60, 0.1, 0.001), (60, 0.1, 0.05)], 90),  # a whisper is no pause
        ([(100, 0.9, 0.1), (2, 0.9, 0.01), (100, 0.9, 0.1)], 101),  # no pause
        ([(100, 0.9, 0.1), (2, 0.6, 0.1), (100, 0.9, 0.1)], 101),
        ([(200, 1.0, 0.0)], 100),  # digital silence without a VAD
        ([(200, 0.0, 0.0)], 100),
    ],
)
def test_a_boundary_is_in_a_pause_or_where_it_is_quietest(parts: list[Part], expected: int) -> None:
    assert abs(find_boundary(window(*parts), HOP, OFFSET) - expected) <= 1


@settings(max_examples=up_to(200), deadline=None, derandomize=True)
@given(
    st.lists(
        st.tuples(
            st.integers(1, 60),
            st.sampled_from((0.0, 0.2, 0.34, 0.35, 0.9, 1.0)),
            st.sampled_from((0.0, 1e-3, 0.1)),
        ),
        min_size=1,
        max_size=12,
    )
)
def test_no_boundary_is_within_speech_if_there_is_a_pause(parts: list[Part]) -> None:
    frames = window(*parts, (1, 0.9, 0.1))
    boundary = find_boundary(frames, HOP, OFFSET)
    probabilities: npt.NDArray[np.float32] = frames.probabilities
    assert 0 <= boundary < len(probabilities)
    if (probabilities < OFFSET).any():
        assert probabilities[boundary] < OFFSET
    else:
        assert boundary > 0
