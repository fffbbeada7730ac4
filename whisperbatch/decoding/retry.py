"""Retries: rows that fail their audit are decoded again with a remedy, and the better text wins.

All remedies except the last are deterministic. A remedy is tried on all failed rows of a batch
together:

    own_script        only letters of the language's scripts, if the text has other letters
    beam              beam search, if greedy search produced loops or improbable text
    split             the chunk in two parts; each part may be split again
    isolate           uncovered speech as a separate part, between the parts around the speech
    shift             the same speech at another place in Whisper's window, if too short to split
    no_repeat_ngram   no n-gram twice, if the text repeats itself
    sample            sampling at the next temperature, if Whisper's own thresholds fail

The work of all retries of a chunk has a limit (work.py), so that no option can make a program stop
for hours. The best text so far is used then, and the log says so.
"""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from whisperbatch.chunking.split import isolate, shift, split_in_two
from whisperbatch.decoding.audit import Audit, audit
from whisperbatch.decoding.decoded_row import DecodedRow
from whisperbatch.decoding.prompts import Context
from whisperbatch.decoding.row_decoder import RowDecoder, RowRequest
from whisperbatch.decoding.work import RetryBudget, request_work
from whisperbatch.options import Options, SearchOptions
from whisperbatch.protocols import FeatureExtractor
from whisperbatch.rows import Row
from whisperbatch.types import Chunk, to_seconds

log = logging.getLogger(__name__)

MAX_SPLITS: Final = 3  # times that a chunk is split in two: from 30 s down to about 4 s
RETRY_BEAMS: Final = 5  # beams of a retry, if the run is greedy
RETRY_NGRAM: Final = 4  # tokens; on read speech 4 causes no errors, but 3 forbids real repetition
MIN_GAIN: Final = 0.25  # seconds that a retry must improve, so that chance does not decide

Remedy = Literal["own_script", "beam", "split", "isolate", "shift", "no_repeat_ngram", "sample"]
Step = tuple[Remedy, float]
"""A remedy and its temperature."""


@dataclass(eq=False)
class _AuditedRow:
    """A decoded row with its audit and the remedies that have not been tried yet."""

    decoded: DecodedRow
    audit: Audit
    context: Context
    remedies: Iterator[Step]
    splits: int = 0  # times that its chunk was split
    shifted: bool = False


class Retry:
    """Decodes the failed rows of a batch again.

    Args:
        row_decoder: decodes rows.
        extractor: computes the features of split and shifted chunks.
        options: options of the run.
    """

    def __init__(
        self, row_decoder: RowDecoder, extractor: FeatureExtractor, options: Options
    ) -> None:
        self._row_decoder = row_decoder
        self._extractor = extractor
        self._options = options

    def __call__(
        self, decoded_rows: Sequence[DecodedRow], contexts: Sequence[Context]
    ) -> list[tuple[tuple[DecodedRow, ...], bool]]:
        """Audit decoded rows and retry those that fail.

        Args:
            decoded_rows: the rows of a batch.
            contexts: the context of each row.

        Returns:
            For each row, in order: the row, or its parts if the row was split, and whether the row
            was decoded again.
        """
        chunks = [
            [self._audited(decoded, context)]
            for decoded, context in zip(decoded_rows, contexts, strict=True)
        ]
        retried = [False] * len(decoded_rows)
        budgets = [RetryBudget(decoded.chunk) for decoded in decoded_rows]
        while tries := self._next_tries(chunks, budgets):
            for number, _, _ in tries:
                retried[number] = True
            results = self._try([(row, step) for _, row, step in tries])
            for (number, row, step), new_rows in zip(tries, results, strict=True):
                _replace_if_better(chunks[number], row, step, new_rows)
        for decoded, budget in zip(decoded_rows, budgets, strict=True):
            if budget.spent:
                _report_limit(decoded)
        return [
            (tuple(row.decoded for row in rows), again)
            for rows, again in zip(chunks, retried, strict=True)
        ]

    def _audited(
        self, decoded: DecodedRow, context: Context, splits: int = 0, *, shifted: bool = False
    ) -> _AuditedRow:
        row = _AuditedRow(
            decoded, audit(decoded, self._options), context, iter(()), splits, shifted
        )
        row.remedies = self._remedies(row)
        return row

    def _next_tries(
        self, chunks: Sequence[Sequence[_AuditedRow]], budgets: Sequence[RetryBudget]
    ) -> list[tuple[int, _AuditedRow, Step]]:
        """Return the next remedy of every row that has one, with the number of the chunk.

        A row whose chunk has spent its budget has no further remedy.
        """
        tries = [
            (number, row, next(row.remedies, None))
            for number, rows in enumerate(chunks)
            for row in rows
        ]
        return [
            (number, row, step)
            for number, row, step in tries
            if step and budgets[number].take(self._work(row, step))
        ]

    def _work(self, row: _AuditedRow, step: Step) -> int:
        """Return the work of a remedy; each part of a split can have the work of the whole row."""
        remedy, temperature = step
        hypotheses = self._options.best_of if temperature else self._beams(remedy)
        work = request_work(row.decoded.chunk, hypotheses, self._options.max_new_tokens)
        return work * {"split": 2, "isolate": 3}.get(remedy, 1)

    def _remedies(self, row: _AuditedRow) -> Iterator[Step]:
        """Yield the remedies for a row in order.

        The next remedy is requested only while no remedy has replaced the row.
        """
        faults = row.audit
        if faults.passed:
            return
        if faults.foreign:
            yield "own_script", 0.0
        suspicious = faults.repetitive or faults.improbable  # by Whisper's own thresholds
        if suspicious and self._options.beam_size == 1 and row.decoded.temperature == 0:
            yield "beam", 0.0
        for remedy in _changes_of_the_chunk(row):
            yield remedy, 0.0
        if faults.repetitive:
            yield "no_repeat_ngram", 0.0
        if suspicious:
            for temperature in self._options.temperatures:
                if temperature > row.decoded.temperature:
                    yield "sample", temperature

    def _try(self, tries: Sequence[tuple[_AuditedRow, Step]]) -> list[list[_AuditedRow]]:
        """Return the new rows of each try; tries with the same settings are decoded together."""
        results: list[list[_AuditedRow]] = [[] for _ in tries]
        groups: dict[tuple[SearchOptions, float], list[tuple[int, RowRequest]]] = {}
        for number, (row, (remedy, temperature)) in enumerate(tries):
            settings = self._search_for(remedy, row.decoded), temperature
            requests = self._requests(row, remedy)
            groups.setdefault(settings, []).extend((number, request) for request in requests)
        for (search, temperature), numbered in groups.items():
            requests = [request for _, request in numbered]
            decoded_rows = self._row_decoder.redecode(requests, search, temperature)
            for (number, request), decoded in zip(numbered, decoded_rows, strict=True):
                row, (remedy, _) = tries[number]
                splits = row.splits + (remedy in ("split", "isolate"))
                shifted = row.shifted or remedy == "shift"
                results[number].append(
                    self._audited(decoded, request.context, splits, shifted=shifted)
                )
        return results

    def _requests(self, row: _AuditedRow, remedy: Remedy) -> list[RowRequest]:
        decoded, context = row.decoded, row.context
        language, task = decoded.language, decoded.task
        if parts := _parts(row, remedy):
            # only the first part can begin the recording and have a prefix
            contexts = (context, *[replace(context, prefix=())] * (len(parts) - 1))
            return [
                RowRequest(self._row(part, decoded), language, task, part_context)
                for part, part_context in zip(parts, contexts, strict=True)
            ]
        if remedy == "shift":
            shifted = self._row(shift(decoded.chunk), decoded)
            return [RowRequest(shifted, language, task, context)]
        return [RowRequest(decoded.row, language, task, context)]

    def _row(self, chunk: Chunk, decoded: DecodedRow) -> Row:
        return Row.of(chunk, self._extractor, decoded.row.recording)

    def _beams(self, remedy: Remedy) -> int:
        beams = self._options.beam_size
        return max(beams, RETRY_BEAMS) if remedy in ("beam", "no_repeat_ngram") else beams

    def _search_for(self, remedy: Remedy, decoded: DecodedRow) -> SearchOptions:
        search = self._options.search
        if remedy == "own_script":
            foreign = self._row_decoder.foreign_tokens(decoded.text_language)
            search = replace(search, suppress_tokens=(*search.suppress_tokens, *foreign))
        if (beams := self._beams(remedy)) != search.beam_size:
            search = replace(search, beam_size=beams)
        if remedy == "no_repeat_ngram":
            size = min(search.no_repeat_ngram_size or RETRY_NGRAM, RETRY_NGRAM)
            search = replace(search, no_repeat_ngram_size=size)
        return search


def _report_limit(decoded: DecodedRow) -> None:
    """Log that the retries of a chunk were stopped: as a warning once for each recording."""
    recording = decoded.row.recording
    log.log(
        logging.INFO if recording.limited_chunks else logging.WARNING,
        "recording %d, %.2f s to %.2f s: no more retries, because they reached the limit of work "
        "for a chunk; the best text so far is used. Options that make every text fail, or ask for "
        "very many beams or samples, cause this",
        decoded.chunk.recording,
        to_seconds(decoded.chunk.start),
        to_seconds(decoded.chunk.end),
    )
    recording.limited_chunks += 1


def _changes_of_the_chunk(row: _AuditedRow) -> Iterator[Remedy]:
    """Yield the remedies that divide or move the speech of a chunk."""
    can_split = row.splits < MAX_SPLITS
    if can_split and split_in_two(row.decoded.chunk, _split_target(row)):
        yield "split"
    elif row.audit.uncovered and not row.shifted:
        yield "shift"
    if can_split and len(_isolated(row)) > 1:
        yield "isolate"


def _parts(row: _AuditedRow, remedy: Remedy) -> tuple[Chunk, ...]:
    """Return the parts that a remedy divides the chunk into; none if the remedy keeps the chunk."""
    if remedy == "split":
        return split_in_two(row.decoded.chunk, _split_target(row)) or ()
    return _isolated(row) if remedy == "isolate" else ()


def _isolated(row: _AuditedRow) -> tuple[Chunk, ...]:
    """Return the longest uncovered speech and the parts around it; none if no speech is uncovered.

    A split puts the speech at the start of a part. If the rest of this part is louder or clearer,
    the model may begin there again: a faint voice is decoded only when it is alone.
    """
    longest = max(row.audit.uncovered, key=lambda gap: gap.speech, default=None)
    return isolate(row.decoded.chunk, longest.start, longest.end) if longest else ()


def _split_target(row: _AuditedRow) -> int:
    """Return the recording sample near which to split a chunk.

    The target is the start of the longest uncovered speech, so that the lost words begin a row. If
    there is none, or if it takes more than half of the chunk, the target is the chunk's middle.
    """
    chunk = row.decoded.chunk
    longest = max(row.audit.uncovered, key=lambda gap: gap.speech, default=None)
    if longest is None or longest.speech > (chunk.end - chunk.start) // 2:
        return (chunk.start + chunk.end) // 2
    return longest.start


def _replace_if_better(
    rows: list[_AuditedRow], row: _AuditedRow, step: Step, new_rows: list[_AuditedRow]
) -> None:
    """Replace a row in `rows` by the new rows of a remedy, if they cost less by MIN_GAIN."""
    before, after = row.audit.cost, sum(new_row.audit.cost for new_row in new_rows)
    better = after <= before - MIN_GAIN
    remedy, temperature = step
    log.info(
        "recording %d, %.2f s to %.2f s: decoded again (%s%s), %.2f s wrong instead of %.2f s; %s",
        row.decoded.chunk.recording,
        to_seconds(row.decoded.chunk.start),
        to_seconds(row.decoded.chunk.end),
        remedy,
        f", temperature {temperature:g}" if temperature else "",
        after,
        before,
        "new text kept" if better else "old text kept",
    )
    if better:
        index = rows.index(row)
        rows[index : index + 1] = new_rows
