"""Language windows: their places, their speech, and their scores."""

from collections.abc import Iterable
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.fakes import FakeEngine, LoudVad, noise
from tests.unit.synthetic_speech import RampExtractor, chunk, shared_model
from whisperbatch.audio.random_access import ArrayRandomAccess
from whisperbatch.language.detection import (
    CANDIDATES_PER_WINDOW,
    candidates,
    find_windows,
    has_enough_speech,
    score_chunks,
    spread_windows,
    voiced_window,
)
from whisperbatch.options import Options
from whisperbatch.types import Chunk, Samples, speech_seconds

RATE = 16_000
BRIEF = Options(language_detection_length=2, speech_pad=0)


VAD = LoudVad({0.01: 1.0})


class CountedRandomAccess(ArrayRandomAccess):
    """Counts its reads."""

    reads = 0

    def read(self, start: float, length: float) -> tuple[float, Samples]:
        self.reads += 1
        return super().read(start, length)


def noise_in(duration: float, *ranges: tuple[float, float]) -> npt.NDArray[np.int16]:
    """Noise in the ranges (in seconds), and silence elsewhere."""
    samples = np.zeros(round(duration * RATE), np.int16)
    for start, end in ranges:
        samples[round(start * RATE) : round(end * RATE)] = noise(end - start) * 10_000
    return samples


def scaled(samples: npt.NDArray[np.int16]) -> Samples:
    return samples.astype(np.float32) / np.float32(32768)


def windows_of(recording: ArrayRandomAccess, options: Options = BRIEF) -> list[Chunk]:
    return find_windows(recording, VAD, options, lambda: False)


def times(chunks: Iterable[Chunk]) -> list[tuple[float, float]]:
    return [(chunk.start / RATE, chunk.end / RATE) for chunk in chunks]


def test_the_first_candidates_are_always_spread_over_the_recording() -> None:
    duration, options = 10_000.0, Options()
    all_starts = [start for start, _ in candidates(duration, options)]
    assert len(all_starts) == CANDIDATES_PER_WINDOW * options.language_detection_segments == 32
    for count in range(1, 33):
        starts = [*sorted(all_starts[:count]), duration]
        widest = max(after - before for before, after in pairwise(starts))
        assert widest <= duration / 2 ** (count.bit_length() - 1) + 10


@st.composite
def clips(draw: st.DrawFn) -> tuple[float, tuple[tuple[float, float | None], ...]]:
    """The duration of a recording in seconds, and its ranges."""
    drawn = draw(st.lists(st.floats(0, 1000), min_size=2, max_size=8, unique=True))
    times = [round(time, 2) for time in sorted(drawn)]
    pairs = [(a, b) for a, b in zip(times[::2], times[1::2], strict=False) if b - a > 0.5]
    ranges: tuple[tuple[float, float | None], ...] = tuple(pairs)
    to_the_end = draw(st.booleans())
    if pairs and to_the_end:
        ranges = (*pairs[:-1], (pairs[-1][0], None))
    return draw(st.floats(1, 1200)), ranges


@given(clips(), st.integers(1, 10), st.floats(2, 30))
def test_candidates_do_not_overlap_and_lie_in_the_ranges(
    clipped: tuple[float, tuple[tuple[float, float | None], ...]], segments: int, length: float
) -> None:
    duration, clip_timestamps = clipped
    options = Options(
        clip_timestamps=clip_timestamps,
        language_detection_segments=segments,
        language_detection_length=length,
    )
    stretches = sorted((start, start + long) for start, long in candidates(duration, options))
    assert len(stretches) <= CANDIDATES_PER_WINDOW * segments
    ranges = [
        (start, min(duration, duration if end is None else end))
        for start, end in clip_timestamps or ((0.0, None),)
        if start < duration
    ]
    for start, end in stretches:
        assert 0 < end - start <= length + 1e-6
        assert any(first <= start and end <= last + 1e-6 for first, last in ranges)
    for (_, end), (start, _) in pairwise(stretches):
        assert end <= start + 1e-6
    if len(stretches) < CANDIDATES_PER_WINDOW * segments:  # the candidates cover the ranges
        total = sum(last - first for first, last in ranges)
        assert sum(end - start for start, end in stretches) == pytest.approx(total)


def test_there_are_no_candidates_after_the_end() -> None:
    assert candidates(50.0, Options(clip_timestamps=((60, 70), (80, None)))) == []


def test_speech_anywhere_in_short_ranges_is_found() -> None:
    options = Options(clip_timestamps=((0, 12), (20, 32), (40, 41.5)), speech_pad=0)
    for start, end in ((21, 27), (28, 31), (40, 41.5)):
        windows = windows_of(ArrayRandomAccess(noise_in(60, (start, end)), RATE), options)
        assert sum(speech_seconds(window.speech) for window in windows) == pytest.approx(
            end - start, abs=0.1
        )


def test_windows_have_the_requested_number_and_are_spread_in_order() -> None:
    recording = CountedRandomAccess(noise_in(320, (0, 320)), RATE)
    starts = [start for start, _ in times(windows_of(recording))]
    assert starts == sorted(starts)
    assert [round(start / 40) for start in starts] == list(range(8))
    assert recording.reads == 8


def test_silent_candidates_are_skipped() -> None:
    windows = times(windows_of(ArrayRandomAccess(noise_in(320, (240, 320)), RATE)))
    assert len(windows) == 8
    assert all(start >= 240 for start, _ in windows)
    assert windows == sorted(windows)
    assert windows[-1][1] > 300


def test_all_windows_are_used_if_there_is_little_speech() -> None:
    recording = noise_in(60, (10.2, 11.6), (30, 30.5), (44.1, 45.9))
    windows = times(windows_of(ArrayRandomAccess(recording, RATE)))
    np.testing.assert_allclose(windows, [(10.2, 11.6), (44.1, 45.9)], atol=0.04)
    assert windows_of(ArrayRandomAccess(noise_in(60), RATE)) == []


def test_the_search_ends_when_stopped_returns_true() -> None:
    recording = CountedRandomAccess(noise_in(320, (0, 320)), RATE)
    windows = find_windows(recording, VAD, BRIEF, lambda: recording.reads >= 3)
    assert len(windows) == recording.reads == 3


def test_a_window_spans_its_first_to_its_last_speech() -> None:
    samples = noise_in(10, (2, 4), (5, 7))
    window = voiced_window(VAD, scaled(samples), 100.0, Options(speech_pad=0))
    assert window is not None
    np.testing.assert_allclose(times([window]), [(102, 107)], atol=0.04)
    assert speech_seconds(window.speech) == pytest.approx(4, abs=0.1)
    first = window.start - 100 * RATE
    np.testing.assert_array_equal(window.samples, scaled(samples)[first : first + window.length])


@pytest.mark.parametrize(("seconds", "enough"), [(0.9, False), (1.1, True)])
def test_a_second_of_speech_is_enough(seconds: float, enough: bool) -> None:
    samples = noise_in(10, (2, 2 + seconds))
    assert (voiced_window(VAD, scaled(samples), 0.0, Options(speech_pad=0)) is not None) == enough


def test_a_tenth_of_a_long_window_must_be_speech() -> None:
    window = chunk([(0, 2)])
    window.samples[:] = 0.1
    assert has_enough_speech(window, 19 * RATE)
    assert not has_enough_speech(window, 21 * RATE)


def test_faint_sound_is_not_speech() -> None:
    window = chunk([(0, 5)])
    for level, enough in ((1e-3, True), (1e-4, False), (0.0, False)):
        window.samples[:] = level
        assert has_enough_speech(window, window.length) == enough


def test_an_empty_candidate_gives_no_window() -> None:
    assert voiced_window(VAD, np.zeros(0, np.float32), 0.0, Options()) is None


@pytest.mark.parametrize("pad", [1.0, 5.0])
def test_margins_may_be_longer_than_the_window(pad: float) -> None:
    options = Options(speech_pad=pad, language_detection_length=2)
    samples = noise_in(2, (0.5, 1.9))
    window = voiced_window(VAD, scaled(samples), 0.0, options)
    assert window is not None
    assert times([window]) == [(0, 2)]


@pytest.mark.parametrize("count", [1, 3, 8])
def test_windows_of_a_recording_without_random_access_are_spread(count: int) -> None:
    options = Options(language_detection_segments=count)
    chunks = [chunk([(0, 1)], index) for index in range(100)]
    for voiced in chunks:
        voiced.samples[:] = 0.1
    silent = chunk([(0, 1)], 1000)
    silent.samples[:] = 0
    for total in range(101):
        windows = spread_windows([*[silent] * 3, *chunks[:total], silent], options)
        numbers = [window.index for window in windows]
        assert len(numbers) == min(total, count)
        assert numbers == sorted(set(numbers))
        if numbers:
            assert numbers[0] == 0
            widest = max(b - a for a, b in pairwise([*numbers, total]))
            assert widest <= 2 * -(-total // count)


def length_engine() -> FakeEngine:
    """Return an engine whose probability of English is the number of samples of the row."""
    return FakeEngine(detect=lambda row: {"en": round((row.end - row.start) * RATE)})


def test_windows_are_scored_in_batches_and_in_order() -> None:
    engine = length_engine()
    chunks = [chunk([(0, 1), (2, 3 + number / 10)]) for number in range(8 + 3)]
    scores = score_chunks(shared_model(engine), RampExtractor(), chunks)
    assert [score.probabilities["en"] for score in scores] == [c.length for c in chunks]
    assert [score.seconds for score in scores] == [c.speech_duration for c in chunks]
    assert engine.batch_sizes["encode"] == [8, 3]  # of at most `batch_size` rows
    assert 400 < engine.features.shape[2] < 1500  # the longest window has 4 s


def test_the_encoder_window_is_at_most_30_s() -> None:
    engine = length_engine()
    score_chunks(shared_model(engine), RampExtractor(), [chunk([(0, 30)])])
    assert engine.features.shape == (1, 80, 3000)


def test_without_windows_the_engine_is_not_called() -> None:
    engine = length_engine()
    assert score_chunks(shared_model(engine), RampExtractor(), []) == []
    assert engine.batch_sizes["encode"] == []
