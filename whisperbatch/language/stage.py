"""The language stage: every row leaves it with its language.

    rows          c0 c1 c2 c3 c4 c5 ...      a recording whose language is not given or final
    scored        [c0 c1 c2 c3] [c4 c5 ...]  the engine's workers encode and score batches
    decided       c0 c1 c2 c3 c4 c5 ...      one thread decides, in order

Only rows whose scores are needed are encoded here. They keep their encoder output, and their text
is decoded from it. The voters of a recording wait for each other before they are scored, and are
scored in the same batch. So no row waits for a decision after its batch was scored.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from whisperbatch.batching import BatchSizes
from whisperbatch.language.decisions import VOTERS, decision_for, needs_scores
from whisperbatch.language.windows import score_languages
from whisperbatch.options import LanguageOptions, Options
from whisperbatch.protocols import Engine
from whisperbatch.recording import RecordingState
from whisperbatch.rows import End, Flush, Item, Row, grouped, padded


def scoring_batches(items: Iterable[Item], options: Options, first: int) -> Iterator[list[Item]]:
    """Group items into batches to score, so that no batch to decode has to wait.

    A batch is complete as soon as a batch to decode is complete (`batching.batches` with the same
    sizes). The voters of a recording are in the same batch, which may therefore have up to
    `VOTERS` - 1 rows more. Items that need no scores wait only for rows before them.

    Args:
        items: rows and markers, of one or many recordings.
        options: the batch size, and which rows need scores.
        first: number of rows in the first batch to decode.
    """
    sizes = BatchSizes(options.batch_size, first)
    batch: list[Item] = []
    for group in voter_groups(items, options):
        batch += group
        complete = [sizes.completed_by(item) for item in group]
        if any(complete) or not any(needs_scores(item, options) for item in batch):
            yield batch
            batch = []
    if batch:
        yield batch


def voter_groups(items: Iterable[Item], options: LanguageOptions) -> Iterator[list[Item]]:
    """Yield the voters of each recording as one list, and each other item as a list of its own.

    The voters wait until their recording has `VOTERS` rows, or has ended. They therefore depend on
    the recording only, not on how batches are filled.
    """
    waiting: list[Row] = []
    for item in items:
        if isinstance(item, Flush):
            yield [item]
            continue
        is_voter = _is_voter(item, options)
        if isinstance(item, Row) and is_voter:
            waiting.append(item)
        voters = [row for row in waiting if row.recording is item.recording]
        if voters and (isinstance(item, End) or len(voters) == VOTERS):
            waiting = [row for row in waiting if row.recording is not item.recording]
            yield [*voters]
        if not is_voter:
            yield [item]


def with_language_scores(engine: Engine, items: Sequence[Item], options: Options) -> list[Item]:
    """Return the items, with language scores and encoder output of the rows that need scores.

    Args:
        engine: encodes and scores the rows, at most `batch_size` in a call.
        items: a batch.
        options: the batch size, and which rows need scores.
    """
    results = [*items]
    rows = [
        (position, item)
        for position, item in enumerate(items)
        if isinstance(item, Row) and needs_scores(item, options)
    ]
    for group in grouped([row.window for _, row in rows]):
        for start in range(0, len(group), options.batch_size):
            positions, batch = zip(
                *(rows[index] for index in group[start : start + options.batch_size]), strict=True
            )
            encoded = engine.encode(padded(batch, batch[0].window))
            scores = score_languages(engine, batch, encoded)
            outputs = engine.split(encoded)
            for position, row, score, output in zip(positions, batch, scores, outputs, strict=True):
                results[position] = replace(row, language_scores=score, encoded=output)
    return results


def decide_languages(
    batches: Iterable[Sequence[Item]],
    options: LanguageOptions,
    failed: Callable[[RecordingState, Exception], None],
) -> Iterator[Item]:
    """Yield the items in order, each row with its language. Rows of failed recordings are dropped.

    Args:
        batches: items; rows that need scores have them. The voters of a recording are in the same
            batch.
        options: the candidate languages and the threshold.
        failed: called with a recording and the exception if no language can be decided for one of
            its rows; the row is dropped. The function may raise the error.
    """
    for batch in batches:
        rows = [item for item in batch if isinstance(item, Row)]
        for row in rows:
            if row.language_scores:
                row.recording.language.scores[row.chunk.index] = row.language_scores
        for item in batch:
            if not isinstance(item, Row):
                yield item
            elif item.recording.error is None:
                try:
                    decision = decision_for(item.recording, item.chunk.index, options)
                except Exception as error:  # noqa: BLE001 - ends this recording only
                    failed(item.recording, error)
                    continue
                yield replace(item, language=decision.language, decision=decision)


def _is_voter(item: Item, options: LanguageOptions) -> bool:
    """Return whether an item is a row that makes the first decision for its recording."""
    votes = not options.multilingual and needs_scores(item, options)
    return votes and isinstance(item, Row) and item.chunk.index < VOTERS
