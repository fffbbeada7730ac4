"""How well the turns of each speaker cover each word.

    turns   A   [==============]                 [=====]
            B             [===========]
    words       [w0] [w1]  [w2] [w3]     [w4]
    best         A    A     A    B        B      w2: a tie in time; w4: the nearest turn

All times are whole samples, so that equal overlaps compare as equal.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from whisperbatch.types import Turn, to_samples

Integers: TypeAlias = npt.NDArray[np.int64]

MIN_WORD: Final = to_samples(0.02)  # one encoder position: words may have no duration
NEAR: Final = 0.5  # confidence of a word right beside a turn, as a share of the turn's confidence
HALF_DISTANCE: Final = to_samples(0.5)  # the confidence halves with each such distance to the turn
UNIT: Final = 1_000_000  # confidences are whole millionths, so that equal ones compare as equal
FAR: Final = 2**62  # more samples than any time


@dataclass(frozen=True, slots=True)
class Evidence:
    """Who says each word, and how sure this is.

    Attributes:
        best: number of the speaker of each word; shape (n_words,).
        confidences: of each word and speaker, from 0 to 1; shape (n_words, n_speakers).
        shares: share of each word that the turns of each speaker cover; shape as `confidences`.
        durations: of each word, in samples, at least MIN_WORD; shape (n_words,).
    """

    best: list[int]
    confidences: list[list[float]]
    shares: list[list[float]]
    durations: list[int]


class SpeakerTracks:
    """The turns of each speaker, in order and without overlap.

    Args:
        turns: in any order. Turns without duration are ignored. Where turns of one speaker
            overlap, the earlier turn counts.
    """

    def __init__(self, turns: Sequence[Turn]) -> None:
        ordered = sorted(turns, key=lambda turn: (turn.start, turn.end))
        ordered = [turn for turn in ordered if has_duration(turn)]
        self.names: tuple[str, ...] = tuple(dict.fromkeys(turn.speaker for turn in ordered))
        by_name: dict[str, list[Turn]] = {name: [] for name in self.names}
        for turn in ordered:
            by_name[turn.speaker].append(turn)
        self._tracks = [_Track(by_name[name]) for name in self.names]
        self._all = _Track(ordered)

    def evidence(self, spans: Sequence[tuple[float, float]]) -> Evidence:
        """Return who says each word.

        A word belongs to the speaker whose turns cover most of it; if two cover as much, to the
        one with the higher confidence, then to the one whose turn begins first. If no turn covers
        the word, it belongs to the speaker of the nearest turn.

        The confidence is the covered share of the word, times the confidence of the turn. The part
        of the word that no turn covers counts half, and less with the distance to the turn.

        Args:
            spans: start and end of each word in seconds, in any order.
        """
        starts, ends = _word_times(spans)
        durations = ends - starts
        measured = [track.measure(starts, ends) for track in self._tracks]
        overlaps, ratings, distances, first_starts = (
            np.stack(columns, axis=1) for columns in zip(*measured, strict=True)
        )
        unclaimed = (durations - self._all.measure(starts, ends)[0]) / durations
        lengths = durations[:, np.newaxis]
        near = ratings / np.where(overlaps > 0, overlaps, 1) / UNIT
        near *= NEAR * 0.5 ** (distances / HALF_DISTANCE) * unclaimed[:, np.newaxis]
        covered = np.where(overlaps > 0, ratings / lengths / UNIT, 0.0)
        return Evidence(
            _first_by((overlaps, -distances, ratings, -first_starts)).tolist(),
            np.clip(near + covered, 0.0, 1.0).round(4).tolist(),
            (overlaps / lengths).tolist(),
            durations.tolist(),
        )


def has_duration(turn: Turn) -> bool:
    """Return whether a turn has at least one sample."""
    return to_samples(turn.start) < to_samples(turn.end)


class _Track:
    """Turns in order; where they overlap, the later turn is cut or left out.

    Args:
        turns: in order of their starts.
    """

    def __init__(self, turns: Iterable[Turn]) -> None:
        rows: list[tuple[int, int, int]] = []
        for turn in turns:
            start, end = to_samples(turn.start), to_samples(turn.end)
            start = max(start, rows[-1][1]) if rows else start
            if start < end:
                rows.append((start, end, round(min(max(turn.confidence, 0.0), 1.0) * UNIT)))
        columns = np.array(rows, np.int64).reshape(-1, 3).T
        self._starts, self._ends, self._confidences = columns
        lengths = self._ends - self._starts
        self._covered_before = _sums_before(lengths)
        self._weight_before = _sums_before(lengths * self._confidences)

    def measure(
        self, starts: Integers, ends: Integers
    ) -> tuple[Integers, Integers, Integers, Integers]:
        """Return four numbers for each word, given the first and last sample of each word.

        Returns:
            The samples of the word that turns cover; these samples times the confidences of their
            turns, or the confidence of the nearest turn if there are none; the distance to the
            nearest turn; and the start of the first turn that covers the word, or of the nearest.
        """
        covered, weight = self._up_to(ends)
        covered_before, weight_before = self._up_to(starts)
        overlaps, weights = covered - covered_before, weight - weight_before
        last = len(self._starts) - 1
        following = np.searchsorted(self._ends, starts, side="right")
        before, after = np.maximum(following - 1, 0), np.minimum(following, last)
        to_before = np.where(following > 0, starts - self._ends[before], FAR)
        to_after = np.where(following <= last, self._starts[after] - ends, FAR)
        is_covered = overlaps > 0
        nearest = np.where(~is_covered & (to_before <= to_after), before, after)
        return (
            overlaps,
            np.where(is_covered, weights, self._confidences[nearest]),
            np.where(is_covered, 0, np.minimum(to_before, to_after)),
            self._starts[nearest],
        )

    def _up_to(self, times: Integers) -> tuple[Integers, Integers]:
        """Return the samples that turns cover before each time, and their weighted number."""
        turn = np.searchsorted(self._starts, times, side="right") - 1
        known: Integers = np.maximum(turn, 0)  # before the first turn, `inside` is 0
        inside: Integers = np.maximum(np.minimum(times, self._ends[known]) - self._starts[known], 0)
        return (
            self._covered_before[known] + inside,
            self._weight_before[known] + inside * self._confidences[known],
        )


def _word_times(spans: Sequence[tuple[float, float]]) -> tuple[Integers, Integers]:
    """Return the starts and ends in samples; words that are too short are widened on both sides."""
    times = np.array(
        [(to_samples(start), to_samples(max(start, end))) for start, end in spans], np.int64
    ).reshape(-1, 2)
    missing = np.maximum(MIN_WORD - (times[:, 1] - times[:, 0]), 0)
    starts = times[:, 0] - missing // 2
    return starts, np.maximum(times[:, 1], starts + MIN_WORD)


def _sums_before(values: Integers) -> Integers:
    """Return for each value the sum of the values before it."""
    return np.cumsum(values) - values


def _first_by(keys: Sequence[npt.NDArray[Any]]) -> Integers:
    """Return the column of each row with the highest first key; among equals, of the next key."""
    candidates = np.ones(keys[0].shape, np.bool_)
    for key in keys:
        masked = np.where(candidates, key, -FAR)
        candidates &= masked == masked.max(axis=1, keepdims=True)
    columns: Integers = candidates.argmax(axis=1)
    return columns
