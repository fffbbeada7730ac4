"""How fast people speak: letters per second and slow words, by language, in right rows.

Some constants of `decoding.audit` and `decoding.words` are limits of possible rates. The table
shows the distance between ordinary speech and these limits.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from benchmarks.constants.first_pass import FirstPass
from benchmarks.constants.truth import JudgedRow, judged
from whisperbatch.decoding.audit import MIN_LETTERS
from whisperbatch.decoding.words import count_letters, slow_duration
from whisperbatch.types import to_seconds

TITLE: Final = (
    "| language | right rows | letters/s: median | fastest row | fastest run of words | "
    "tokens/s: fastest row | words | longer than a slow word |"
)


@dataclass(slots=True)
class Rates:
    """The rates of the right rows of a language.

    Attributes:
        letters: letters per second of each row, from the first word to the last.
        tokens: tokens per second of each row.
        runs: letters per second of each run of words with MIN_LETTERS letters, by the alignment.
        words: number of correct words.
        slow: how many of them last longer than a slow word.
    """

    letters: list[float] = field(default_factory=list)
    tokens: list[float] = field(default_factory=list)
    runs: list[float] = field(default_factory=list)
    words: int = 0
    slow: int = 0

    def add(self, row: JudgedRow) -> None:
        """Add a right row."""
        words = row.decoded.words
        seconds = max(to_seconds(words[-1].end - words[0].start), 0.1)
        self.letters.append(sum(count_letters(word.text) for word in words) / seconds)
        self.tokens.append(len(row.decoded.hypothesis.tokens) / seconds)
        self.runs += runs(row)
        for word, correct in zip(words, row.correct, strict=True):
            if correct and word.aligned:
                self.words += 1
                self.slow += word.aligned[1] - word.aligned[0] > slow_duration(word)


def runs(row: JudgedRow) -> Iterator[float]:
    """Yield the letters per second of each shortest run of words with MIN_LETTERS letters."""
    words = row.decoded.words
    for first, word in enumerate(words):
        letters = 0
        for last in words[first:]:
            if last.span != word.span or not (word.aligned and last.aligned):
                break
            letters += count_letters(last.text)
            if letters >= MIN_LETTERS:
                yield letters / max(to_seconds(last.aligned[1] - word.aligned[0]), 0.001)
                break


def table(passes: Sequence[FirstPass]) -> Iterator[str]:
    """Yield the lines of a table with the rates of each language."""
    by_language: dict[str, Rates] = {}
    for first_pass in passes:
        rates = by_language.setdefault(first_pass.language, Rates())
        for row in judged(first_pass):
            if row.right:
                rates.add(row)
    yield TITLE
    yield "|---|---|---|---|---|---|---|---|"
    for language, rates in by_language.items():
        if rates.letters:
            yield (
                f"| {language} | {len(rates.letters)} | {np.median(rates.letters):.1f} "
                f"| {max(rates.letters):.1f} | {max(rates.runs, default=0.0):.1f} "
                f"| {max(rates.tokens):.1f} | {rates.words} "
                f"| {rates.slow} ({100 * rates.slow / max(rates.words, 1):.1f} %) |"
            )
