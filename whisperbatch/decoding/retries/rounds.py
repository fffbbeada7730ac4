"""Retries: rows that fail their audit are decoded again with a remedy, and the better text wins.

A chunk is retried in rounds: each of its failed rows (the parts of a split chunk) gets its next
remedy. The rows of a round are decoded together.

    round 1    split of the chunk                    two parts
    round 2    beam for part 1, split of part 2      part 1, three parts of part 2

First, half of the parts of a remedy are decoded: those with the most speech that has no text or
repeated text. If these parts alone have too many wrong seconds, the remedy cannot help, and its
other parts are not decoded.

The work of all retries of a chunk has a limit (work.py), so that no option can make a program stop
for hours. The best text so far is used then, and the log says so.
"""

import logging
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from whisperbatch.chunking.split import shift
from whisperbatch.decoding.audit import DecodedRow
from whisperbatch.decoding.prompts import Context
from whisperbatch.decoding.retries.evidence import had_no_text, least_cost, without_doubtful_text
from whisperbatch.decoding.retries.remedies import (
    AuditedRow,
    Remedy,
    Step,
    changes_of_the_chunk,
    most_faulty_first,
    parts_of,
    splits_after,
)
from whisperbatch.decoding.retries.work import RetryBudget, report_limit, request_work
from whisperbatch.decoding.row_decoder import RowDecoder, RowRequest
from whisperbatch.options import Options, SearchOptions
from whisperbatch.protocols import FeatureExtractor
from whisperbatch.rows import Row
from whisperbatch.types import Chunk, to_seconds

log = logging.getLogger(__name__)

RETRY_BEAMS: Final = 5  # beams of a retry, if the run is greedy
RETRY_NGRAM: Final = 4  # tokens; on read speech 4 causes no errors, but 3 forbids real repetition
MIN_GAIN: Final = 0.25  # seconds that a retry must improve, so that chance does not decide


@dataclass(eq=False)
class _Try:
    """A remedy that is tried on a row.

    Attributes:
        row: the row that failed.
        step: the remedy.
        requests: the row, or its parts.
        decoded: the decoded requests, by their index.
        cost: lower bound of the wrong seconds; exact when all requests are decoded.
    """

    row: AuditedRow
    step: Step
    requests: list[RowRequest]
    decoded: dict[int, DecodedRow] = field(default_factory=dict)
    cost: float = 0.0

    def next_indices(self) -> list[int]:
        """Return the requests to decode next: the most faulty half, then the others.

        If the remedy can no longer help, there are none.
        """
        if not _is_better(self.cost, self.row):
            return []
        order = most_faulty_first(self.row, [request.row.chunk for request in self.requests])
        if self.decoded:
            return [index for index in order if index not in self.decoded]
        return order[: len(order) - len(order) // 2]

    @property
    def complete(self) -> bool:
        """Whether all requests are decoded."""
        return len(self.decoded) == len(self.requests)


@dataclass(eq=False)
class _RetriedChunk:
    """A chunk while it is retried.

    Attributes:
        rows: its row, or its parts.
        budget: the work that is left.
        retried: whether a remedy was tried.
    """

    rows: list[AuditedRow]
    budget: RetryBudget
    retried: bool = False


class Retry:
    """Decodes failed rows again.

    Args:
        decode: decodes rows.
        extractor: computes the features of split and shifted chunks.
        options: options of the run.
    """

    def __init__(self, decode: RowDecoder, extractor: FeatureExtractor, options: Options) -> None:
        self._decode_rows = decode
        self._extractor = extractor
        self._options = options

    def __call__(
        self, decoded: DecodedRow, context: Context
    ) -> tuple[tuple[DecodedRow, ...], bool]:
        """Audit a decoded row and retry the row if it fails.

        Args:
            decoded: the row with its text.
            context: the context of the row.

        Returns:
            The row, or its parts if the row was split, and whether the row was decoded again.
        """
        chunk = _RetriedChunk([self._audited(decoded, context)], RetryBudget(decoded.chunk))
        while tries := self._start_round(chunk):
            self._decode(tries)
            self._end_round(chunk, tries)
        if chunk.budget.spent:
            report_limit(decoded)
        return tuple(row.decoded for row in chunk.rows), chunk.retried

    def _audited(
        self,
        decoded: DecodedRow,
        context: Context,
        splits: int = 0,
        *,
        shifted: bool = False,
        had_no_text: bool = False,
    ) -> AuditedRow:
        faults = decoded.audit
        row = AuditedRow(decoded, faults, context, iter(()), splits, shifted, had_no_text)
        row.remedies = self._remedies(row)
        return row

    def _start_round(self, chunk: _RetriedChunk) -> list[_Try]:
        """Return the next try of each row of the chunk that has a remedy left.

        A row whose chunk has spent its budget has no further remedy.
        """
        tries: list[_Try] = []
        for row in chunk.rows:
            if not _is_better(0.0, row):  # not even a text without faults
                continue
            step = next(row.remedies, None)
            if step is None:
                continue
            remedy, _ = step
            parts = parts_of(row, remedy)
            if chunk.budget.take(self._work(parts or (row.decoded.chunk,), step)):
                tries.append(_Try(row, step, self._requests(row, step, parts)))
        chunk.retried = chunk.retried or bool(tries)
        return tries

    def _end_round(self, chunk: _RetriedChunk, tries: Sequence[_Try]) -> None:
        """Replace the rows whose new text is better."""
        for attempt in tries:
            new_rows: list[AuditedRow] = []
            if attempt.complete:
                new_rows = self._new_rows(attempt)
                attempt.cost = math.fsum(row.audit.cost for row in new_rows)
            better = _is_better(attempt.cost, attempt.row)  # never if parts are not decoded
            _log(attempt, better=better)
            if better:
                index = chunk.rows.index(attempt.row)
                chunk.rows[index : index + 1] = new_rows

    def _new_rows(self, attempt: _Try) -> list[AuditedRow]:
        """Return the audited parts of a try whose requests are all decoded."""
        row, (remedy, _) = attempt.row, attempt.step
        splits = splits_after(row, remedy)
        shifted = row.shifted or remedy == "shift"
        parts = [attempt.decoded[index] for index in range(len(attempt.requests))]
        new_rows = []
        for request, part, is_new in zip(
            attempt.requests, parts, had_no_text(parts, row), strict=True
        ):
            decoded = without_doubtful_text(part) if is_new else part
            new_rows.append(
                self._audited(decoded, request.context, splits, shifted=shifted, had_no_text=is_new)
            )
        return new_rows

    def _decode(self, tries: Sequence[_Try]) -> None:
        """Decode the requests of a round, in at most two steps: see `_Try.next_indices`."""
        while parts := [(each, indices) for each in tries if (indices := each.next_indices())]:
            results = iter(
                self._decode_rows(
                    [attempt.requests[index] for attempt, indices in parts for index in indices]
                )
            )
            for attempt, indices in parts:
                decoded = {index: next(results) for index in indices}
                attempt.decoded |= decoded
                if not attempt.complete:
                    attempt.cost = math.fsum(map(least_cost, decoded.values()))

    def _work(self, chunks: Sequence[Chunk], step: Step) -> int:
        """Return the work of a remedy on a chunk or on its parts."""
        remedy, temperature = step
        hypotheses = self._options.best_of if temperature else self._beams(remedy)
        max_new_tokens = self._options.max_new_tokens
        return sum(request_work(chunk, hypotheses, max_new_tokens) for chunk in chunks)

    def _remedies(self, row: AuditedRow) -> Iterator[Step]:
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
        for remedy in changes_of_the_chunk(row):
            yield remedy, 0.0
        if faults.repetitive:
            yield "no_repeat_ngram", 0.0
        if suspicious:
            for temperature in self._options.temperatures:
                if temperature > row.decoded.temperature:
                    yield "sample", temperature

    def _requests(self, row: AuditedRow, step: Step, parts: Sequence[Chunk]) -> list[RowRequest]:
        """Return the requests of a remedy: of each part, if the remedy divides the chunk."""
        (remedy, temperature), decoded, context = step, row.decoded, row.context
        search = self._search_for(remedy, decoded)
        chunks = [shift(decoded.chunk)] if remedy == "shift" else parts
        rows = [self._row(chunk, decoded) for chunk in chunks] or [decoded.row]
        # only the first part can begin the recording and have a prefix
        contexts = (context, *[replace(context, prefix=())] * (len(rows) - 1))
        return [
            RowRequest(part, decoded.language, decoded.task, part_context, search, temperature)
            for part, part_context in zip(rows, contexts, strict=True)
        ]

    def _row(self, chunk: Chunk, decoded: DecodedRow) -> Row:
        return Row.of(chunk, self._extractor, decoded.row.recording)

    def _beams(self, remedy: Remedy) -> int:
        beams = self._options.beam_size
        return max(beams, RETRY_BEAMS) if remedy in ("beam", "no_repeat_ngram") else beams

    def _search_for(self, remedy: Remedy, decoded: DecodedRow) -> SearchOptions:
        search = self._options.search
        if remedy == "own_script":
            foreign = self._decode_rows.foreign_tokens(decoded.text_language)
            search = replace(search, suppress_tokens=(*search.suppress_tokens, *foreign))
        if (beams := self._beams(remedy)) != search.beam_size:
            search = replace(search, beam_size=beams)
        if remedy == "no_repeat_ngram":
            size = min(search.no_repeat_ngram_size or RETRY_NGRAM, RETRY_NGRAM)
            search = replace(search, no_repeat_ngram_size=size)
        return search


def _is_better(cost: float, row: AuditedRow) -> bool:
    """Return whether a text with this cost is better than the text of a row, by MIN_GAIN."""
    return cost <= row.audit.cost - MIN_GAIN


def _log(attempt: _Try, *, better: bool) -> None:
    chunk, (remedy, temperature) = attempt.row.decoded.chunk, attempt.step
    log.info(
        "recording %d, %.2f s to %.2f s: decoded again (%s%s), %s%.2f s wrong instead of %.2f s; "
        "%s",
        chunk.recording,
        to_seconds(chunk.start),
        to_seconds(chunk.end),
        remedy,
        f", temperature {temperature:g}" if temperature else "",
        "" if attempt.complete else "at least ",
        attempt.cost,
        attempt.row.audit.cost,
        "new text kept" if better else "old text kept",
    )
