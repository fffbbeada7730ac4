"""Checks on stored rows: how often a rule flags right rows, and how often it misses faults."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final, TypeAlias

from benchmarks.constants.figures import Check, Figures
from benchmarks.constants.first_pass import FirstPass
from benchmarks.constants.inventory import Number, setting
from benchmarks.constants.truth import JudgedRow, judged
from whisperbatch.decoding.hallucinations import filter_hallucinations
from whisperbatch.options import Options
from whisperbatch.second_opinion.checks import proves_speech
from whisperbatch.types import to_samples

Rule: TypeAlias = Callable[[JudgedRow, Options], bool]


def is_uncovered(row: JudgedRow, _: Options) -> bool:
    """Whether the audit finds speech without words."""
    return bool(row.decoded.uncovered_speech)


def is_fast(row: JudgedRow, _: Options) -> bool:
    """Whether words are too fast."""
    return bool(row.decoded.too_fast_words)


def is_cut_off(row: JudgedRow, _: Options) -> bool:
    """Whether the row has as many tokens as its speech allows."""
    return row.decoded.audit.cut_off


def is_suspicious(row: JudgedRow, _: Options) -> bool:
    """Whether the row fails one of Whisper's own thresholds."""
    faults = row.decoded.audit
    return faults.repetitive or faults.improbable


def is_removed(row: JudgedRow, _: Options) -> bool:
    """Whether the filter removes text."""
    omissions = filter_hallucinations(row.decoded).omissions
    return any(omission.reason != "missed" for omission in omissions)


def is_rejected(row: JudgedRow, options: Options) -> bool:
    """Whether the second opinion would not take the row's text for speech."""
    return not proves_speech(row.decoded, options.second_opinion_threshold)


RULES: Final[dict[str, tuple[Rule, str]]] = {  # kind: rule, the fault that it is to find
    "uncovered": (is_uncovered, "lost"),
    "fast": (is_fast, "added"),
    "limit": (is_cut_off, "added"),
    "threshold": (is_suspicious, "wrong"),
    "removed": (is_removed, "invented"),
    "second opinion": (is_rejected, "invented"),
}

CHECKS: Final = (
    Check("options.coverage_threshold", "uncovered", (0.5, 2.0)),
    Check("decoding.words.VAD_ERROR", "uncovered", (0, to_samples(0.1))),
    Check("decoding.words.MAX_EXTENSION", "uncovered", (to_samples(0.25), to_samples(1.0))),
    Check("decoding.words.SLOW_WORD", "uncovered", (to_samples(0.25), to_samples(1.0))),
    Check("decoding.words.SLOW_LETTER", "uncovered", (to_samples(0.06), to_samples(0.24))),
    Check("decoding.audit.MAX_LETTERS_PER_SECOND", "fast", (50.0, 100.0)),
    Check("decoding.audit.MAX_CHARACTERS_PER_SECOND", "fast", (12.5, 50.0)),
    Check("decoding.audit.MAX_SUSTAINED_LETTERS", "fast", (12.5, 50.0)),
    Check("decoding.audit.MAX_SUSTAINED_CHARACTERS", "fast", (6.0, 25.0)),
    Check("decoding.audit.MIN_LETTERS", "fast", (6, 24)),
    Check("decoding.audit.MIN_CHARACTERS", "fast", (3, 12)),
    Check("decoding.audit.MAX_NOISE", "fast", (0.3, 1.2)),
    Check("decoding.audit.TOKENS_PER_SECOND", "limit", (20.0, 80.0)),
    Check("decoding.audit.SPARE_TOKENS", "limit", (6, 24)),
    Check("decoding.audit.MAX_SILENT_SPEECH", "threshold", (1.5, 6.0)),
    Check("options.log_prob_threshold", "threshold", (-1.4, -0.7)),
    Check("options.compression_ratio_threshold", "threshold", (2.0, 2.8)),
    Check("options.no_speech_threshold", "removed", (0.4, 0.8)),
    Check("decoding.hallucinations.MIN_COVERAGE", "removed", (0.15, 0.6)),
    Check("decoding.hallucinations.BOILERPLATE_LOGPROB", "removed", (-1.0, -0.4)),
    Check("decoding.hallucinations.BOILERPLATE_NO_SPEECH", "removed", (0.25, 0.75)),
    Check("decoding.repeats.MAX_PERIOD", "removed", (20, 80)),
    Check("options.second_opinion_threshold", "second opinion", (-1.0, -0.4)),
    Check("second_opinion.checks.MIN_WORDS", "second opinion", (2, 6)),
    Check("second_opinion.checks.CHARACTERS_PER_WORD", "second opinion", (1, 4)),
    Check("second_opinion.checks.MAX_COMPRESSION_RATIO", "second opinion", (2.0, 2.8)),
    Check("second_opinion.checks.MIN_WORDS_PER_SECOND", "second opinion", (0.3, 1.2)),
    Check("second_opinion.checks.MAX_LETTERS_PER_SECOND", "second opinion", (20.0, 60.0)),
)


def measure(check: Check, passes: Sequence[FirstPass], value: Number | None) -> Figures:
    """Return the figures of a value; None is the constant's own value.

    Words that depend on the value are placed again, so rows are judged with their shipped words.
    """
    rule, fault = RULES[check.kind]
    total = Figures()
    for first_pass in passes:
        rows = judged(first_pass)
        with setting(check.key, value) as options:
            for row, stored in zip(rows, first_pass.rows, strict=True):
                placed = replace(row, decoded=stored.decoded(first_pass.language, options))
                flagged = rule(placed, options)
                right, faulty = row.right, row.has(fault)
                total += Figures(right and flagged, right, faulty and not flagged, faulty)
    return total
