"""Windows: each frame of a recording belongs to one region, whatever the sizes of the blocks."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.diarization.synthetic import Floats, window
from whisperbatch.diarization.segmentation import (
    BATCH,
    CLASSES,
    FIRST_SAMPLE,
    FRAME,
    FRAMES,
    HOP,
    MIN_PART,
    NEIGHBOURS,
    PAUSE,
    SPEAKERS,
    STEP,
    WINDOW_SAMPLES,
    Run,
    Window,
    find_pauses,
    find_runs,
    find_windows,
)
from whisperbatch.types import Samples

lengths = st.one_of(
    st.integers(0, 900),
    st.integers(WINDOW_SAMPLES - 600, WINDOW_SAMPLES + 600),
    st.integers(WINDOW_SAMPLES + STEP - 600, WINDOW_SAMPLES + STEP + 600),
    st.integers(0, 8 * WINDOW_SAMPLES),
)
sizes = st.lists(st.integers(0, 70_000), min_size=1, max_size=6).filter(any)


class Network:
    """Finds a class for each frame, from the place of the frame in the recording."""

    def __init__(self) -> None:
        self.calls: list[int] = []

    def __call__(self, samples: Samples, /) -> Floats:
        every = np.lib.stride_tricks.sliding_window_view(samples, WINDOW_SAMPLES)[::STEP]
        self.calls.append(len(every))
        at = np.minimum(np.arange(FRAMES) * FRAME + FIRST_SAMPLE, WINDOW_SAMPLES - 1)
        classes = (every[:, at].astype(np.int64) // (40 * FRAME)) % len(CLASSES)
        return np.eye(len(CLASSES), dtype=np.float32)[classes]


def recording(length: int) -> Samples:
    """Return samples that count from 1, exactly."""
    return np.arange(1, length + 1, dtype=np.float32)


def blocks_of(samples: Samples, sizes: Sequence[int]) -> Iterator[Samples]:
    """Yield blocks of these sizes, again and again."""
    start = number = 0
    while start < len(samples):
        size = sizes[number % len(sizes)]
        yield samples[start : start + size]
        start, number = start + size, number + 1


def joined(groups: Iterable[list[Window]]) -> list[Window]:
    return [each for group in groups for each in group]


def found(samples: Samples, sizes: Sequence[int]) -> list[Window]:
    return joined(find_windows(blocks_of(samples, sizes), Network()))


@settings(max_examples=60)
@given(lengths, sizes)
def test_each_frame_belongs_to_one_region(length: int, sizes: list[int]) -> None:
    end = 0
    for each in found(recording(length), sizes):
        first, last = each.region
        assert 0 <= first <= last <= FRAMES
        assert each.start + first == end
        end = each.start + last
    complete = max(length - FIRST_SAMPLE, 0) // FRAME
    # a window of 10 s has 589 frames, although there is room for two more
    assert complete - 2 <= end <= complete


@settings(max_examples=60)
@given(lengths, sizes)
def test_a_window_is_the_audio_of_its_place(length: int, sizes: list[int]) -> None:
    samples = recording(length)
    for number, each in enumerate(found(samples, sizes)):
        assert each.start == number * HOP
        here = samples[each.start * FRAME : each.start * FRAME + WINDOW_SAMPLES]
        np.testing.assert_array_equal(each.samples, np.pad(here, (0, WINDOW_SAMPLES - len(here))))
        assert not each.activity[max(len(here) - FIRST_SAMPLE, 0) // FRAME :].any()


@settings(max_examples=30)
@given(st.integers(0, 5 * WINDOW_SAMPLES), sizes)
def test_windows_do_not_depend_on_the_blocks(length: int, sizes: list[int]) -> None:
    one, other = found(recording(length), sizes), found(recording(length), [length or 1])
    assert [(w.start, w.region) for w in one] == [(w.start, w.region) for w in other]
    for a, b in zip(one, other, strict=True):
        np.testing.assert_array_equal(a.activity, b.activity)
        np.testing.assert_array_equal(a.samples, b.samples)


def test_the_network_is_not_called_with_all_windows_at_once() -> None:
    """Memory does not grow with the recording."""
    network = Network()
    steps = find_windows(blocks_of(recording(40 * WINDOW_SAMPLES), [16_000]), network)
    next(steps)
    needed = 1 + NEIGHBOURS  # the first window, and those that contain frames of it
    assert network.calls == [BATCH] * -(-needed // BATCH)
    list(steps)
    assert max(network.calls) == BATCH


def test_no_audio_has_no_windows() -> None:
    assert found(recording(0), [1]) == []


@settings(max_examples=60)
@given(st.lists(st.integers(0, 6), min_size=1, max_size=30), st.integers(1, 40))
def test_runs_are_the_frames_with_the_same_tracks(classes: list[int], length: int) -> None:
    activity = CLASSES[np.resize(np.repeat(classes, length), FRAMES)]
    alone = np.zeros(activity.shape, np.float32)
    every = Window(0, activity, alone, (0, FRAMES), np.zeros(WINDOW_SAMPLES, np.float32))
    again = np.zeros_like(activity)
    for run in find_runs(every):
        assert run.start < run.end
        assert 1 <= len(run.tracks) <= 2
        assert not again[run.start : run.end].any()
        again[run.start : run.end, list(run.tracks)] = True
    np.testing.assert_array_equal(again, activity)


def test_a_run_ends_where_the_tracks_change() -> None:
    every = window((10, 50, [0]), (40, 80, [2]), (90, 100, [1]))
    assert find_runs(every) == [
        *(Run(10, 40, (0,)), Run(40, 50, (0, 2)), Run(50, 80, (2,)), Run(90, 100, (1,)))
    ]


@pytest.mark.parametrize("frames", [0, FRAMES])
def test_silence_and_lasting_speech(frames: int) -> None:
    assert find_runs(window((0, frames, [1]))) == ([Run(0, FRAMES, (1,))] if frames else [])


class Hesitant:
    """Finds a class in all frames of a window, with a probability. Other classes share the rest."""

    def __init__(self, classes: Sequence[tuple[int, float]]) -> None:
        self._rows = iter([likely(best, probability) for best, probability in classes])

    def __call__(self, samples: Samples, /) -> Floats:
        count = (len(samples) - WINDOW_SAMPLES) // STEP + 1
        return np.stack([np.tile(np.log(next(self._rows)), (FRAMES, 1)) for _ in range(count)])


def likely(best: int, probability: float) -> Floats:
    """Return the probabilities of the classes."""
    row = np.full(len(CLASSES), (1 - probability) / (len(CLASSES) - 1), np.float32)
    row[best] = probability
    return row


def test_all_windows_of_a_frame_say_how_many_speak() -> None:
    """The window of a frame says who speaks."""
    network = Hesitant([(1, 0.9), (0, 0.6), (6, 0.99)])
    first, second, third = joined(find_windows([recording(WINDOW_SAMPLES + 2 * STEP)], network))
    # two windows see one speaker, although the second window alone sees none
    assert (first.activity[: 2 * HOP] == CLASSES[1]).all()
    assert (second.activity[:HOP].sum(axis=1) == 1).all()
    # the third window sees two speakers, and is more certain
    assert (first.activity[2 * HOP :].sum(axis=1) == 2).all()
    assert (second.activity[HOP:].sum(axis=1) == 2).all()
    assert (third.activity[: FRAMES - 3] == CLASSES[6]).all()


@settings(max_examples=40)
@given(
    st.lists(st.tuples(st.integers(0, 6), st.floats(0.15, 0.99)), min_size=1, max_size=9),
    st.integers(0, STEP - 1),
)
def test_the_number_of_speakers_has_the_highest_mean_probability(
    classes: list[tuple[int, float]], missing: int
) -> None:
    samples = recording(WINDOW_SAMPLES + (len(classes) - 1) * STEP - missing)
    every = joined(find_windows([samples], Hesitant([*classes, *classes])))
    rows = np.stack([likely(*each) for each in classes])
    means = np.zeros((len(classes) * HOP + FRAMES, 3))
    complete = (len(samples) - FIRST_SAMPLE) // FRAME
    for number in range(len(every)):
        for count in range(3):
            probability = rows[number, CLASSES.sum(axis=1) == count].sum()
            means[number * HOP : min(number * HOP + FRAMES, complete), count] += probability
    for each in every:
        here = means[each.start : each.start + FRAMES]
        low, high = each.region
        ordered = np.sort(here, axis=1)
        clear = (ordered[:, 2] - ordered[:, 1] > 1e-5)[low:high]
        expected = here.argmax(axis=1)[low:high]
        assert (each.activity.sum(axis=1)[low:high] == expected)[clear].all()


def spoken(*sounds: tuple[int, int, float], noise: float = 0.0) -> Window:
    """A window in which one track is active throughout, with noise of some levels in some frames.

    Args:
        sounds: (first frame, frame after the last, level in dBFS).
        noise: amplitude of the noise in all frames.
    """
    rng = np.random.default_rng(0)
    samples = noise * rng.standard_normal(WINDOW_SAMPLES).astype(np.float32)
    for first, last, level in sounds:
        part = slice(FIRST_SAMPLE + first * FRAME, FIRST_SAMPLE + last * FRAME)
        values = rng.standard_normal(len(samples[part])).astype(np.float32)
        samples[part] += np.float32(10 ** (level / 20)) * values
    activity = np.zeros((FRAMES, SPEAKERS), np.bool_)
    activity[:, 0] = True
    alone = np.zeros((FRAMES, SPEAKERS), np.float32)
    return Window(0, activity, alone, (0, FRAMES), samples.astype(np.float32))


def test_a_pause_divides_a_run() -> None:
    window = spoken((0, 200, -20), (220, FRAMES, -25))
    assert find_pauses(window) == [210]
    assert find_runs(window) == [Run(0, 210, (0,)), Run(210, FRAMES, (0,), follows_pause=True)]


def test_overlapping_speech_is_not_divided() -> None:
    window = spoken((0, 200, -20), (220, FRAMES, -25))
    window.activity[:, 1] = True
    assert [(run.start, run.end) for run in find_runs(window)] == [(0, FRAMES)]


@pytest.mark.parametrize(
    ("sounds", "noise", "why"),
    [
        (((0, FRAMES, -20.0),), 0.0, "no pause"),
        (((0, 200, -20.0), (200 + PAUSE - 1, FRAMES, -20.0)), 0.0, "a consonant"),
        (((0, 200, -20.0), (200, 230, -40.0), (230, FRAMES, -20.0)), 0.0, "soft speech"),
        (((0, 200, -20.0), (230, FRAMES, -20.0)), 0.05, "noise in the pause"),
        (((0, MIN_PART // 2, -20.0), (MIN_PART, FRAMES, -20.0)), 0.0, "a short part"),
        ((), 0.0, "silence"),
    ],
)
def test_runs_that_are_not_divided(
    sounds: tuple[tuple[int, int, float], ...], noise: float, why: str
) -> None:
    assert [(run.start, run.end) for run in find_runs(spoken(*sounds, noise=noise))] == [
        (0, FRAMES)
    ], why


def test_the_silence_after_the_recording_is_no_noise() -> None:
    """Zeros after the end would make the noise of the recording look loud."""
    whole = spoken((0, 200, -20), (220, 400, -20), noise=0.002)
    samples = whole.samples.copy()
    samples[FIRST_SAMPLE + 400 * FRAME :] = 0
    whole.activity[400:] = False
    ended = replace(whole, samples=samples, frames=400)
    assert find_pauses(ended)[:1] == [210]
