"""Segmentation: who speaks when within a window of 10 s, as the segmentation network says.

    window 0  [=====|=====|=====]             a window has 589 frames of 16.875 ms
    window 1        [=====|=====|=====]       a window begins 197 frames after the last
    window 2              [=====|=====|=====]
    region    |     0     |  1  |     2     | each frame belongs to one window only
    count     |  0  | 0,1 |0,1,2| 1,2 |  2  | all windows with a frame say how many speak

The network numbers the speakers of a window in any order: speaker 0 of a window may be speaker 1 of
the next. A track is one of the (at most three) speakers of one window. The number of active
speakers does not depend on their order, so it is the most probable number in the mean of all
windows that contain the frame (Bredin 2023, "pyannote.audio 2.1 speaker diarization pipeline", with
ten windows for each frame). The network was trained as in Plaquet and Bredin 2023, "Powerset
multi-class cross entropy loss for neural speaker diarization" (https://arxiv.org/abs/2310.13025): a
class is a set of at most two speakers.
"""

from collections import deque
from collections.abc import Generator, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt

from whisperbatch.prefetch import map_ahead
from whisperbatch.types import Samples

FRAME: Final = 270  # samples: 16.875 ms
FRAMES: Final = 589  # of a window
CENTRE: Final = 495  # sample in the middle of frame 0: the convolutions see 991 samples
FIRST_SAMPLE: Final = CENTRE - FRAME // 2  # of frame 0
WINDOW_SAMPLES: Final = 160_000  # samples: 10 s
HOP: Final = 197  # frames from a window to the next: 3.3 s, so that three windows cover each frame
STEP: Final = HOP * FRAME  # samples from a window to the next
NEIGHBOURS: Final = (FRAMES - 1) // HOP  # windows on each side that contain frames of a window
MARGIN: Final = (FRAMES - HOP) // 2  # frames before the region of a window
CLASSES: Final = np.array(  # the speakers of each class of the network
    [[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 0], [1, 0, 1], [0, 1, 1]], bool
)
SPEAKERS: Final = CLASSES.shape[1]  # of a window
COUNTS: Final = CLASSES.sum(axis=1)  # number of active speakers of each class
PAUSE: Final = 7  # frames of a pause, 0.12 s: shorter quiet sounds are consonants
MIN_PART: Final = 12  # frames, 0.2 s, of each part of a run that a pause divides
QUIET: Final = 35.0  # dB: a pause is so much softer than the loud speech of its window,
NOISE: Final = 0.1  # or, in noise, at most this share of the way from the noise to that speech,
MIN_DROP: Final = 25.0  # dB, and always softer by this: the sounds of a word differ by less
LOUD: Final = 90  # percentile of the levels of speech
SOFT: Final = 3  # percentile of the levels of all frames: noise
MIN_SPEECH: Final = 20  # frames of speech from which the level of the speech is known
BATCH: Final = 4  # windows in a call of the network; more are no faster, and turns come later

MIN_POWER: Final = 1e-10  # mean square of a silent frame: -100 dB

Activity = npt.NDArray[np.bool_]
"""Who is active in each frame of a window: shape (`FRAMES`, `SPEAKERS`)."""


class Segmenter(Protocol):
    """Finds the local speakers of windows."""

    def __call__(self, samples: Samples, /) -> npt.NDArray[np.float32]:
        """Return log-probabilities, shape (windows, 589, 7), of consecutive windows.

        Args:
            samples: of all windows, shape (`WINDOW_SAMPLES` + `STEP` * (windows - 1),).
        """
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Window:
    """A window of a recording and its tracks.

    Attributes:
        start: first frame, counted in the recording.
        activity: who is active, shape (`FRAMES`, `SPEAKERS`).
        alone: log-probability that only this track is active, shape (`FRAMES`, `SPEAKERS`).
        region: first frame, and frame after the last, that belong to this window; counted in the
            window.
        samples: audio of the window, shape (160000,); zeros after the end of the recording.
        frames: number of frames before the end of the recording.
    """

    start: int
    activity: Activity
    alone: npt.NDArray[np.float32]
    region: tuple[int, int]
    samples: Samples
    frames: int = FRAMES


@dataclass(frozen=True, slots=True)
class Run:
    """Consecutive frames of a window in which the same tracks are active.

    Where one track is active, a run ends in the middle of a pause: the network often takes two
    similar voices for one track, and voices change at pauses.

    Attributes:
        start: first frame, counted in the window.
        end: the frame after the last.
        tracks: the active tracks: one, or two that overlap.
        follows_pause: whether the run before has the same track, and a pause is between them.
    """

    start: int
    end: int
    tracks: tuple[int, ...]
    follows_pause: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class _Batch:
    """The samples of consecutive windows.

    Attributes:
        first: frame of the recording.
        samples: of all windows; zeros after the end of the recording.
        length: number of the samples that belong to the recording, or more if it goes on.
    """

    first: int
    samples: Samples
    length: int


@dataclass(frozen=True, slots=True, eq=False)
class _Scored:
    """The network's result for a window.

    Attributes:
        start: first frame, counted in the recording.
        samples: audio of the window, shape (160000,).
        frames: number of frames before the end of the recording.
        is_last: whether the recording ends in the window.
        scores: log-probabilities of the classes, shape (589, 7).
        counts: probabilities of 0, 1 and 2 active speakers in each frame, shape (589, 3); 0 after
            the end of the recording.
    """

    start: int
    samples: Samples
    frames: int
    is_last: bool
    scores: npt.NDArray[np.float32]
    counts: npt.NDArray[np.float32]


def find_windows(
    blocks: Iterable[Samples], network: Segmenter, workers: int = 1
) -> Generator[list[Window], None, None]:
    """Yield the windows of a recording in order, several at a time. The last is padded with zeros.

    A window is yielded when the network has seen all windows that contain frames of it.

    Args:
        blocks: consecutive, of any length.
        network: finds the tracks.
        workers: calls of the network that are computed at a time.

    Yields:
        The windows that a call of the network completes: one to `BATCH`, or, after the last call,
        at most `NEIGHBOURS` more.
    """
    near: deque[_Scored] = deque(maxlen=2 * NEIGHBOURS + 1)
    waiting = 0  # windows at the end of `near` that were not yielded yet
    score = partial(_score, network)
    with closing(map_ahead(score, _cut_batches(blocks), workers=workers)) as batches:
        for batch in batches:
            ready = []
            for scored in batch:
                near.append(scored)
                waiting += 1
                if waiting > NEIGHBOURS:
                    ready.append(_build_window(near[-waiting], near))
                    waiting -= 1
            if ready:
                yield ready
    if waiting:
        yield [_build_window(near[number], near) for number in range(-waiting, 0)]


def _score(network: Segmenter, batch: _Batch) -> list[_Scored]:
    result = []
    for number, scores in enumerate(network(batch.samples)):
        start = number * STEP
        rest = batch.length - start  # samples of the recording from the window's start
        frames = min(max((rest - FIRST_SAMPLE) // FRAME, 0), FRAMES)
        result.append(
            _Scored(
                batch.first + number * HOP,
                batch.samples[start : start + WINDOW_SAMPLES],
                frames,
                rest <= WINDOW_SAMPLES,
                scores,
                _count(scores, frames),
            )
        )
    return result


def _count(scores: npt.NDArray[np.float32], frames: int) -> npt.NDArray[np.float32]:
    """Return the counts of a window: see `_Scored`."""
    probabilities = np.exp(scores[:frames])
    result = np.zeros((FRAMES, COUNTS.max() + 1), np.float32)
    for count in range(result.shape[1]):
        result[:frames, count] = probabilities[:, count == COUNTS].sum(axis=1)
    return result


def _build_window(window: _Scored, near: Iterable[_Scored]) -> Window:
    """Return a window, given all windows that contain frames of it, itself included."""
    counts = np.zeros_like(window.counts)
    for other in near:
        later = other.start - window.start  # frames
        if 0 <= later < FRAMES:
            counts[later:] += other.counts[: FRAMES - later]
        elif -FRAMES < later < 0:
            counts[:later] += other.counts[-later:]
    possible = counts.argmax(axis=1)[:, None] == COUNTS
    activity = CLASSES[np.where(possible, window.scores, -np.inf).argmax(axis=1)]
    activity[window.frames :] = False
    low = MARGIN if window.start else 0
    high = window.frames if window.is_last else MARGIN + HOP
    alone = window.scores[:, COUNTS == 1]
    return Window(window.start, activity, alone, (low, high), window.samples, window.frames)


def _cut_batches(blocks: Iterable[Samples]) -> Generator[_Batch, None, None]:
    """Yield the samples of consecutive windows, of one to `BATCH` windows at a time."""
    size = WINDOW_SAMPLES + (BATCH - 1) * STEP  # of a full batch
    held = np.empty(0, np.float32)
    start = 0
    parts: list[Samples] = []
    length = 0  # of `held` and `parts`
    for block in blocks:
        parts.append(block)
        length += len(block)
        if length <= size:
            continue
        held, parts = np.concatenate((held, *parts)), []
        while len(held) > size:
            yield _Batch(start, held[:size], len(held))
            held = held[BATCH * STEP :]
            start += BATCH * HOP
        length = len(held)
    held = np.concatenate((held, *parts))
    complete = max(-(-(len(held) - WINDOW_SAMPLES) // STEP), 0)  # windows before the last
    covered = (complete - 1) * STEP + (MARGIN + HOP) * FRAME if start or complete else 0
    count = complete + (len(held) > covered)
    if count:
        needed = WINDOW_SAMPLES + (count - 1) * STEP
        samples = np.pad(held[:needed], (0, max(needed - len(held), 0)))
        yield _Batch(start, samples, len(held))


def find_runs(window: Window) -> list[Run]:
    """Return the runs of a window in order, without silence."""
    codes = window.activity @ (1 << np.arange(SPEAKERS))
    edges = np.flatnonzero(np.diff(codes)) + 1
    bounds = [0, *edges.tolist(), len(codes)]
    quiet = find_pauses(window)
    found: list[Run] = []
    for start, end in pairwise(bounds):
        if not codes[start]:
            continue
        tracks = tuple(np.flatnonzero(window.activity[start]).tolist())
        inside = quiet if len(tracks) == 1 else []
        cuts = [cut for cut in inside if start + MIN_PART <= cut <= end - MIN_PART]
        for first, last in pairwise([start, *cuts, end]):
            found.append(Run(first, last, tracks, follows_pause=first > start))
    return found


def true_runs(values: npt.NDArray[np.bool_]) -> Iterator[tuple[int, int]]:
    """Yield (first, after the last) of each run of True in an array of shape (n,)."""
    edges = np.flatnonzero(np.diff(np.concatenate(([False], values, [False]))))
    yield from zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True)


def find_pauses(window: Window) -> list[int]:
    """Return the frames in the middle of the pauses of a window, in order.

    The network joins speech over short pauses. In a pause, the level is far below that of loud
    speech. Where noise is nearly as loud as speech, no pause is found.
    """
    speech = window.activity.any(axis=1)
    if np.count_nonzero(speech) < MIN_SPEECH:
        return []
    levels = _measure_levels(window)
    loud = float(np.percentile(levels[speech], LOUD))
    noise = float(np.percentile(levels[: window.frames], SOFT))
    limit = max(loud - QUIET, noise + NOISE * (loud - noise))
    soft = levels < min(limit, loud - MIN_DROP)
    return [(start + end) // 2 for start, end in true_runs(soft) if end - start >= PAUSE]


def _measure_levels(window: Window) -> npt.NDArray[np.float64]:
    """Return the level of each frame of a window in dBFS, shape (`FRAMES`,)."""
    samples = window.samples[FIRST_SAMPLE : FIRST_SAMPLE + FRAMES * FRAME]
    powers = np.square(samples, dtype=np.float64).reshape(FRAMES, FRAME).mean(axis=1)
    levels: npt.NDArray[np.float64] = 10 * np.log10(np.maximum(powers, MIN_POWER))
    return levels
