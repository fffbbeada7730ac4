"""Where a recording is listened to, and what is made of it."""

from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.fakes import FakeEncoded, FakeEngine, noise
from tests.unit.world import RampExtractor, chunk
from whisperbatch.audio.random_access import ArrayRandomAccess
from whisperbatch.language.windows import (
    AT_ONCE,
    TRIES,
    find_windows,
    is_telling,
    places,
    score_chunks,
    thinned,
    voiced,
)
from whisperbatch.options import Options
from whisperbatch.protocols import Encoded
from whisperbatch.types import Chunk, Samples, SpeechFrames, spoken

RATE = 16_000
BRIEF = Options(language_detection_length=2, speech_pad=0)


class Loud:
    """A Vad that takes whatever is loud for speech."""

    hop = 512

    def __call__(self, blocks: Iterable[Samples]) -> Iterator[SpeechFrames]:
        for samples in blocks:
            padded = np.zeros(-(-len(samples) // 512) * 512, np.float32)
            padded[: len(samples)] = samples
            frames = padded.reshape(-1, 512)
            yield SpeechFrames(samples, (np.abs(frames).max(1) > 0.01).astype(np.float32))


class Counted(ArrayRandomAccess):
    """Counts what is read of it."""

    reads = 0

    def read(self, start: float, length: float) -> tuple[float, Samples]:
        self.reads += 1
        return super().read(start, length)


def sounding(duration: float, *ranges: tuple[float, float]) -> npt.NDArray[np.int16]:
    """Noise in the ranges, silence elsewhere."""
    samples = np.zeros(round(duration * RATE), np.int16)
    for start, end in ranges:
        samples[round(start * RATE) : round(end * RATE)] = noise(end - start) * 10_000
    return samples


def scaled(samples: npt.NDArray[np.int16]) -> Samples:
    return samples.astype(np.float32) / np.float32(32768)


def found(recording: ArrayRandomAccess, options: Options = BRIEF) -> list[Chunk]:
    return find_windows(recording, Loud(), options, lambda: False)


def ends(chunks: Iterable[Chunk]) -> list[tuple[float, float]]:
    return [(one.start / RATE, one.end / RATE) for one in chunks]


def test_any_first_places_are_spread_over_the_recording() -> None:
    duration, options = 10_000.0, Options()
    all_of_them = [start for start, _ in places(duration, options)]
    assert len(all_of_them) == TRIES * options.language_detection_segments == 32
    for count in range(1, 33):
        starts = [*sorted(all_of_them[:count]), duration]
        widest = max(after - before for before, after in pairwise(starts))
        assert widest <= duration / 2 ** (count.bit_length() - 1) + 10


@st.composite
def clips(draw: st.DrawFn) -> tuple[float, tuple[tuple[float, float | None], ...]]:
    """How long a recording is, and the ranges of it that are asked for."""
    drawn = draw(st.lists(st.floats(0, 1000), min_size=2, max_size=8, unique=True))
    times = [round(time, 2) for time in sorted(drawn)]
    pairs = [(a, b) for a, b in zip(times[::2], times[1::2], strict=False) if b - a > 0.5]
    asked: tuple[tuple[float, float | None], ...] = tuple(pairs)
    to_the_end = draw(st.booleans())
    if pairs and to_the_end:
        asked = (*pairs[:-1], (pairs[-1][0], None))
    return draw(st.floats(1, 1200)), asked


@given(clips(), st.integers(1, 10), st.floats(2, 30))
def test_places_are_apart_and_within_what_is_asked_for(
    clipped: tuple[float, tuple[tuple[float, float | None], ...]], segments: int, length: float
) -> None:
    duration, asked = clipped
    options = Options(
        clip_timestamps=asked,
        language_detection_segments=segments,
        language_detection_length=length,
    )
    looked_at = sorted((start, start + long) for start, long in places(duration, options))
    assert len(looked_at) <= TRIES * segments
    ranges = [
        (start, min(duration, duration if end is None else end))
        for start, end in asked or ((0.0, None),)
        if start < duration
    ]
    for start, end in looked_at:
        assert 0 < end - start <= length + 1e-6
        assert any(first <= start and end <= last + 1e-6 for first, last in ranges)
    for (_, end), (start, _) in pairwise(looked_at):
        assert end <= start + 1e-6
    if len(looked_at) < TRIES * segments:  # all of it is looked at
        total = sum(last - first for first, last in ranges)
        assert sum(end - start for start, end in looked_at) == pytest.approx(total)


def test_nothing_is_looked_at_beyond_the_end() -> None:
    assert places(50.0, Options(clip_timestamps=((60, 70), (80, None)))) == []


def test_speech_anywhere_in_short_ranges_is_found() -> None:
    options = Options(clip_timestamps=((0, 12), (20, 32), (40, 41.5)), speech_pad=0)
    for start, end in ((21, 27), (28, 31), (40, 41.5)):
        heard = found(ArrayRandomAccess(sounding(60, (start, end)), RATE), options)
        assert sum(spoken(one.speech) for one in heard) == pytest.approx(end - start, abs=0.1)


def test_windows_are_as_many_as_wanted_in_order_and_spread() -> None:
    recording = Counted(sounding(320, (0, 320)), RATE)
    starts = [start for start, _ in ends(found(recording))]
    assert starts == sorted(starts)
    assert [round(start / 40) for start in starts] == list(range(8))
    assert recording.reads == 8


def test_silent_places_are_passed_over() -> None:
    windows = ends(found(ArrayRandomAccess(sounding(320, (240, 320)), RATE)))
    assert len(windows) == 8
    assert all(start >= 240 for start, _ in windows)
    assert windows == sorted(windows)
    assert windows[-1][1] > 300


def test_where_speech_is_scarce_all_that_is_found_is_taken() -> None:
    recording = sounding(60, (10.2, 11.6), (30, 30.5), (44.1, 45.9))
    windows = ends(found(ArrayRandomAccess(recording, RATE)))
    np.testing.assert_allclose(windows, [(10.2, 11.6), (44.1, 45.9)], atol=0.04)
    assert found(ArrayRandomAccess(sounding(60), RATE)) == []


def test_the_search_ends_when_it_is_told_to() -> None:
    recording = Counted(sounding(320, (0, 320)), RATE)
    windows = find_windows(recording, Loud(), BRIEF, lambda: recording.reads >= 3)
    assert len(windows) == recording.reads == 3


def test_a_window_runs_from_its_first_speech_to_its_last() -> None:
    samples = sounding(10, (2, 4), (5, 7))
    window = voiced(Loud(), scaled(samples), 100.0, Options(speech_pad=0))
    assert window is not None
    np.testing.assert_allclose(ends([window]), [(102, 107)], atol=0.04)
    assert spoken(window.speech) == pytest.approx(4, abs=0.1)
    first = window.start - 100 * RATE
    np.testing.assert_array_equal(window.samples, scaled(samples)[first : first + window.length])


@pytest.mark.parametrize(("seconds", "enough"), [(0.9, False), (1.1, True)])
def test_a_second_of_speech_is_enough_to_tell(seconds: float, enough: bool) -> None:
    samples = sounding(10, (2, 2 + seconds))
    assert (voiced(Loud(), scaled(samples), 0.0, Options(speech_pad=0)) is not None) == enough


def test_a_tenth_of_a_long_window_must_be_speech() -> None:
    brief = chunk([(0, 2)])
    brief.samples[:] = 0.1
    assert is_telling(brief, 19 * RATE)
    assert not is_telling(brief, 21 * RATE)


def test_what_is_too_faint_is_no_speech() -> None:
    window = chunk([(0, 5)])
    for level, telling in ((1e-3, True), (1e-4, False), (0.0, False)):
        window.samples[:] = level
        assert is_telling(window, window.length) == telling


def test_nothing_is_no_window() -> None:
    assert voiced(Loud(), np.zeros(0, np.float32), 0.0, Options()) is None


@pytest.mark.parametrize("pad", [1.0, 5.0])
def test_margins_of_any_length_leave_room(pad: float) -> None:
    options = Options(speech_pad=pad, language_detection_length=2)
    samples = sounding(2, (0.5, 1.9))
    window = voiced(Loud(), scaled(samples), 0.0, options)
    assert window is not None
    assert ends([window]) == [(0, 2)]


@pytest.mark.parametrize("wanted", [1, 3, 8])
def test_windows_of_a_recording_that_is_read_through_are_spread_over_it(wanted: int) -> None:
    options = Options(language_detection_segments=wanted)
    chunks = [chunk([(0, 1)], index) for index in range(100)]
    for one in chunks:
        one.samples[:] = 0.1
    silent = chunk([(0, 1)], 1000)
    silent.samples[:] = 0
    for count in range(101):
        kept = thinned([*[silent] * 3, *chunks[:count], silent], options)
        numbers = [one.index for one in kept]
        assert len(numbers) == min(count, wanted)
        assert numbers == sorted(set(numbers))
        if numbers:
            assert numbers[0] == 0
            widest = max(b - a for a, b in pairwise([*numbers, count]))
            assert widest <= 2 * -(-count // wanted)


class Attentive(FakeEngine):
    """Remembers the shapes of what it listens to, and hears the level of each row."""

    def __init__(self) -> None:
        super().__init__()
        self.shapes: list[tuple[int, ...]] = []

    def encode(self, features: npt.NDArray[np.float32]) -> FakeEncoded:
        self.shapes.append(features.shape)
        return FakeEncoded(len(features), tuple(features[:, 0, 1].tolist()))

    def detect_language(self, encoded: Encoded) -> list[dict[str, Any]]:
        assert isinstance(encoded, FakeEncoded)
        return [{"en": level} for level in encoded.levels]


def test_windows_are_heard_together_and_in_order() -> None:
    engine = Attentive()
    chunks = [chunk([(0, 1), (2, 3 + number / 10)]) for number in range(AT_ONCE + 3)]
    heard = score_chunks(engine, RampExtractor(), chunks)
    assert [one.probabilities["en"] for one in heard] == [one.length for one in chunks]
    assert [one.seconds for one in heard] == [spoken(one.speech) for one in chunks]
    assert [shape[0] for shape in engine.shapes] == [AT_ONCE, 3]
    (frames,) = {shape[2] for shape in engine.shapes}
    assert 400 < frames < 1500  # the longest is of 4 s
    assert frames % 2 == 0  # as engines want it


def test_the_longest_window_is_whispers() -> None:
    engine = Attentive()
    score_chunks(engine, RampExtractor(), [chunk([(0, 30)])])
    assert engine.shapes == [(1, 80, 3000)]


def test_without_windows_nobody_listens() -> None:
    engine = Attentive()
    assert score_chunks(engine, RampExtractor(), []) == []
    assert engine.shapes == []
