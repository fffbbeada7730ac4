"""The language stage: every row of a recording leaves it with its language.

    rows       c0 c1 c2 c3 c4 c5 ...    a recording whose language is not given or final
    scored     c0 c1 c2 c3 c4 c5 ...    a pool of threads; the engine encodes and scores rows
    decided    c0 c1 c2 c3 c4 c5 ...    one thread decides, in order

Only rows whose scores are needed are encoded here. They keep their encoder output, and their text
is decoded from it. The first rows, which vote for the language, wait for each other.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from whisperbatch.language.decisions import VOTERS, decision_for, needs_scores
from whisperbatch.language.windows import score_languages
from whisperbatch.options import Options
from whisperbatch.recording import Item, Row
from whisperbatch.scheduling import SharedModel


def with_language_scores(model: SharedModel, item: Item, options: Options) -> Item:
    """Return a row with its language scores and encoder output, if the stage needs them.

    Args:
        model: scores the row.
        item: an item of any kind; only rows are scored.
        options: which rows need scores.
    """
    if not isinstance(item, Row) or not needs_scores(item, options):
        return item
    [scored] = score_rows(model, [item])
    return scored


def score_rows(model: SharedModel, rows: Sequence[Row]) -> list[Row]:
    """Return rows with their language scores, in order. Their texts are decoded later."""
    for row in rows:
        row.encoding.keep = True
    scores = score_languages(model, rows)
    return [replace(row, language_scores=score) for row, score in zip(rows, scores, strict=True)]


def decide_languages(items: Iterable[Item], options: Options) -> Iterator[Item]:
    """Yield the items of a recording in order, each row with its language.

    Args:
        items: rows and the end of a recording; rows that need scores have them.
        options: the candidate languages and the threshold.
    """
    voters: list[Row] = []
    for item in items:
        if isinstance(item, Row):
            if item.language_scores:
                item.recording.language.scores[item.chunk.index] = item.language_scores
            if needs_scores(item, options) and item.chunk.index < VOTERS:
                voters.append(item)
                if len(voters) < VOTERS:
                    continue
        for row in voters:
            yield _decide(row, options)
        if item not in voters:
            yield _decide(item, options) if isinstance(item, Row) else item
        voters = []


def _decide(row: Row, options: Options) -> Row:
    decision = decision_for(row.recording, row.chunk.index, options)
    return replace(row, language=decision.language, decision=decision)
