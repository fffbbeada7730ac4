"""Checks on the language scores of stored rows: the language of rows and of recordings.

sequence    rows with the wrong language (code-switching): first where the language never
            changes, then where it changes after every `TURN` rows
decision    the wrong language: first in recordings of 120 s, then in the rows of long
            recordings, made of all recordings in a language

The scores are those of Whisper's encoder for each row.
"""

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Final, TypeAlias

from benchmarks.constants.figures import Check, Figures
from benchmarks.constants.first_pass import FirstPass
from benchmarks.constants.inventory import OPTIONS, Number, setting
from whisperbatch.language.code_switching import best_sequence
from whisperbatch.language.detection import decision_for
from whisperbatch.recording import RecordingState
from whisperbatch.types import LanguageScores

TURN: Final = 2  # rows in one language
THRESHOLD: Final = OPTIONS.language_detection_threshold

ScoredRow: TypeAlias = tuple[str, LanguageScores]  # the row's language, and its scores

CHECKS: Final = (
    Check("language.code_switching.CHANGE_PENALTY", "sequence", (0.75, 3.0)),
    Check("language.code_switching.FULL_SPEECH", "sequence", (2.0, 8.0)),
    Check("language.code_switching.MIN_PROBABILITY", "sequence", (1e-4, 1e-2)),
    Check("language.detection.VOTERS", "decision", (2, 8)),
    Check("language.detection.FIRST_REVISION", "decision", (4, 16)),
    Check("language.detection.LAST_REVISION", "decision", (32, 128)),
    Check("language.detection.NEAR_TIE", "decision", (0.6, 1.0)),
)


def measure(check: Check, passes: Sequence[FirstPass], value: Number | None) -> Figures:
    """Return the figures of a value; None is the constant's own value."""
    kind = {"sequence": sequence_errors, "decision": decision_errors}[check.kind]
    with setting(check.key, value):
        return kind([scored for first_pass in passes if (scored := scored_rows(first_pass))])


def scored_rows(first_pass: FirstPass) -> list[ScoredRow]:
    """Return the rows of a recording that have language scores and speech."""
    if not first_pass.utterances:
        return []
    return [(first_pass.language, row.scores) for row in first_pass.rows if row.scores]


def sequence_errors(recordings: Sequence[Sequence[ScoredRow]]) -> Figures:
    """Return how many rows get the wrong language, without changes and with changes."""
    total = Figures()
    for rows in recordings:
        total += Figures(harmed=wrong_rows(rows), speech=len(rows))
    switching = list(in_turns(recordings))
    return total + Figures(passed=wrong_rows(switching), faults=len(switching))


def in_turns(recordings: Sequence[Sequence[ScoredRow]]) -> Iterator[ScoredRow]:
    """Yield `TURN` rows of each language in turn."""
    by_language = sorted(recordings, key=lambda rows: rows[0][0])
    queues = [
        [row for rows in group for row in rows]
        for _, group in groupby(by_language, key=lambda rows: rows[0][0])
    ]
    while len(queues) > 1:
        for queue in queues:
            yield from queue[:TURN]
            del queue[:TURN]
        queues = [queue for queue in queues if queue]


def wrong_rows(rows: Sequence[ScoredRow]) -> int:
    """Return how many rows the most probable sequence gives another language."""
    scores = [score for _, score in rows]
    codes = list(dict.fromkeys(code for score in scores for code in most_probable(score)))
    labels = best_sequence(scores, codes, THRESHOLD)
    return sum(label != language for label, (language, _) in zip(labels, rows, strict=True))


def most_probable(score: LanguageScores) -> list[str]:
    """Return the two most probable languages of a row."""
    return sorted(score.probabilities, key=lambda code: -score.probabilities[code])[:2]


def decision_errors(recordings: Sequence[Sequence[ScoredRow]]) -> Figures:
    """Return how many recordings, and how many rows of long recordings, get a wrong language."""
    total = Figures()
    languages: dict[str, list[ScoredRow]] = {}
    for rows in recordings:
        languages.setdefault(rows[0][0], []).extend(rows)
        total += Figures(harmed=decided(rows)[0] != rows[0][0], speech=1)
    for language, rows in languages.items():
        wrong = sum(decision != language for decision in decided(rows))
        total += Figures(passed=wrong, faults=len(rows))
    return total


def decided(rows: Sequence[ScoredRow]) -> list[str]:
    """Return the recording's language as of each row."""
    state = RecordingState(0)
    state.language.scores.update({index: score for index, (_, score) in enumerate(rows)})
    return [decision_for(state, index, OPTIONS).language for index in range(len(rows))]
