"""Sections: their boundaries, their memory, and their errors."""

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from tests.unit.fakes import noise
from whisperbatch.audio.clips import Clip
from whisperbatch.options import Options
from whisperbatch.sections import chunk_recording, stage
from whisperbatch.sections.stage import Section, sections
from whisperbatch.types import (
    SAMPLING_RATE,
    SEARCH,
    SECTION,
    WARM_UP,
    WHOLE,
    Samples,
    Span,
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
        for section in sections(clip, NoVad(), OPTIONS, span)
    ]


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


def test_little_audio_is_read_ahead_and_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    stored: list[int] = []
    read = stage.Tape._read

    def measured(self: stage.Tape) -> bool:
        result = read(self)
        stored.append(self._end - self._start)
        return result

    monkeypatch.setattr(stage.Tape, "_read", measured)
    position = 0

    def counted() -> Iterator[Samples]:
        nonlocal position
        for block in stream(2000):
            position += len(block)
            yield block

    done = 0
    for section in sections(Clip(0, None, 0, counted()), NoVad(), OPTIONS, WHOLE):
        for block in section.frames:
            done += len(block.samples)
            assert position - done <= SEARCH + 2 * 2 * SAMPLING_RATE + WARM_UP
    assert done == 2000 * SAMPLING_RATE
    assert max(stored) <= SEARCH + WARM_UP + 4 * SAMPLING_RATE


@pytest.mark.parametrize("seconds", [200, 310, 420, 640])
def test_an_error_comes_after_the_chunks_of_earlier_sections(seconds: int) -> None:
    def broken() -> Iterator[Samples]:
        yield from stream(seconds)
        raise OSError("unplugged")

    yielded: list[tuple[SpeechSpan, ...]] = []
    whole = [chunk.pieces for chunk in chunk_recording(stream(seconds), OPTIONS)]
    sections_of = [chunk.section for chunk in chunk_recording(stream(seconds), OPTIONS)]
    chunks = chunk_recording(broken(), OPTIONS)
    with pytest.raises(OSError, match="unplugged"):
        yielded.extend(chunk.pieces for chunk in chunks)
    assert yielded == whole[: len(yielded)]
    complete = sum(section < sections_of[-1] for section in sections_of)
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
