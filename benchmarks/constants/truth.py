"""Rows compared with the truth of their recording: which rows are right, and what others lack.

The words of all rows are aligned with the words of the truth. The words of an utterance are spread
over its time, so that a word of the truth without a counterpart belongs to the row that contains
its time.
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final

import jiwer

from benchmarks import scoring
from benchmarks.constants.first_pass import FirstPass
from whisperbatch.decoding.audit import DecodedRow
from whisperbatch.types import to_seconds

MAX_ERRORS: Final = 0.25  # of a right row's words
MIN_RUN: Final = 3  # consecutive words that are lost or added, or more: a fault
WRONG: Final = 0.75  # share of errors from which a whole row is wrong
FAULTS: Final = ("lost", "added", "wrong", "invented")


@dataclass(frozen=True, slots=True, eq=False)
class JudgedRow:
    """A row with its faults.

    Attributes:
        recording: name of the recording.
        language: language of the recording.
        decoded: the row.
        words: number of words of the truth in the row.
        errors: number of word errors.
        lost: longest run of words of the truth without a counterpart.
        added: longest run of words without a counterpart in the truth.
        correct: for each word of the row, whether the truth has the word at this place.
    """

    recording: str
    language: str
    decoded: DecodedRow
    words: int
    errors: int
    lost: int
    added: int
    correct: tuple[bool, ...]

    @property
    def right(self) -> bool:
        """Whether the row has nearly all its words, and no others."""
        return (
            self.words > 0
            and self.errors <= MAX_ERRORS * self.words
            and self.lost <= 1
            and self.added <= 1
        )

    def has(self, fault: str) -> bool:
        """Whether the row has one of FAULTS."""
        return {
            "lost": self.lost >= MIN_RUN,
            "added": self.added >= MIN_RUN,
            "wrong": self.words > 0 and self.errors >= WRONG * self.words,
            "invented": not self.words and bool(self.decoded.words),
        }[fault]


@cache
def judged(first_pass: FirstPass) -> tuple[JudgedRow, ...]:
    """Return the rows of a recording with their faults, by the shipped constants."""
    language = first_pass.language
    rows = [row.decoded(language) for row in first_pass.rows]
    texts = [scoring.words(row.text, language) for row in rows]
    truth = [
        timed
        for utterance in first_pass.utterances
        for timed in scoring.spread(
            utterance.start,
            utterance.end,
            " ".join(scoring.words(utterance.text, language)),
            language,
        )
    ]
    places = [_place(rows, (timed.start + timed.end) / 2) for timed in truth] if rows else []
    faults = _faults([timed.text for timed in truth], places, texts)
    correct = _correct_words([timed.text for timed in truth], rows, language)
    return tuple(
        JudgedRow(first_pass.name, language, row, *row_faults, flags)
        for row, row_faults, flags in zip(rows, faults, correct, strict=True)
    )


def _place(rows: Sequence[DecodedRow], seconds: float) -> int:
    """Return the index of the row that contains a time, or of the nearest row."""
    after = bisect_right([to_seconds(row.chunk.start) for row in rows], seconds)
    candidates = range(max(after - 1, 0), min(after + 1, len(rows)))
    return min(candidates, key=lambda index: _distance(rows[index], seconds))


def _distance(row: DecodedRow, seconds: float) -> float:
    start, end = to_seconds(row.chunk.start), to_seconds(row.chunk.end)
    return max(start - seconds, seconds - end, 0.0)


def _faults(
    truth: Sequence[str], places: Sequence[int], texts: Sequence[Sequence[str]]
) -> list[tuple[int, int, int, int]]:
    """Return words, errors, lost and added of each row; see JudgedRow."""
    owners = [index for index, text in enumerate(texts) for _ in text]
    spoken, errors = [0] * len(texts), [0] * len(texts)
    lost: list[list[int]] = [[] for _ in texts]
    added: list[list[int]] = [[] for _ in texts]
    for kind, truth_range, text_range in alignment(truth, [w for text in texts for w in text]):
        if kind in ("equal", "substitute"):
            for position in text_range:
                spoken[owners[position]] += 1
                errors[owners[position]] += kind == "substitute"
        elif kind == "delete":
            _add_run([places[position] for position in truth_range], lost, errors)
            for position in truth_range:
                spoken[places[position]] += 1
        else:
            _add_run([owners[position] for position in text_range], added, errors)
    longest = ((max(runs, default=0) for runs in groups) for groups in (lost, added))
    return list(zip(spoken, errors, *longest, strict=True))


def _add_run(rows: Sequence[int], runs: list[list[int]], errors: list[int]) -> None:
    for row in dict.fromkeys(rows):
        runs[row].append(rows.count(row))
        errors[row] += rows.count(row)


def _correct_words(
    truth: Sequence[str], rows: Sequence[DecodedRow], language: str
) -> list[tuple[bool, ...]]:
    """Return for each word of each row whether all of it is in the truth at its place."""
    parts = [[scoring.words(word.text, language) for word in row.words] for row in rows]
    flat = [part for row in parts for word in row for part in word]
    matched: set[int] = set()
    for kind, _, text_range in alignment(truth, flat):
        if kind == "equal":
            matched.update(text_range)
    flags, position = [], 0
    for row in parts:
        row_flags = []
        for word in row:
            indices = range(position, position + len(word))
            row_flags.append(bool(word) and all(index in matched for index in indices))
            position += len(word)
        flags.append(tuple(row_flags))
    return flags


def alignment(truth: Sequence[str], text: Sequence[str]) -> list[tuple[str, range, range]]:
    """Return the runs of equal, substituted, deleted and inserted words, as index ranges."""
    if not truth or not text:  # jiwer cannot align with an empty text
        kinds = [("delete", range(len(truth)), range(0)), ("insert", range(0), range(len(text)))]
        return [run for run in kinds if run[1] or run[2]]
    [runs] = jiwer.process_words(" ".join(truth), " ".join(text)).alignments
    return [
        (
            run.type,
            range(run.ref_start_idx, run.ref_end_idx),
            range(run.hyp_start_idx, run.hyp_end_idx),
        )
        for run in runs
    ]
