"""Retries: rows that fail their audit are decoded again, and the better text wins.

A chunk is retried in rounds: each of its failed rows (the parts of a split chunk) gets its next
strategy. The rows of a round are decoded together.

    round 1    split of the chunk                    two parts
    round 2    beam for part 1, split of part 2      part 1, three parts of part 2

First, half of the parts of a strategy are decoded: those with the most speech that has no text or
repeated text. If these parts alone have too many wrong seconds, the strategy cannot help, and its
other parts are not decoded. On a GPU, where a further row costs little and a further call much, all
parts are decoded at once; the text is the same.

The work of all retries of a chunk has a limit, so that no option can make a program stop
for hours. The best text so far is used then, and the log says so.

The work of a request is an upper bound that is known before the request is decoded: the number of
its hypotheses (beams, or sampled hypotheses) times the maximum number of tokens, and the encoder.

The limit depends only on the chunk, so the text does not depend on the other rows of the batch. It
holds for every combination of options, so that a wrong option cannot stop a program for hours. With
ten beams, five sampled hypotheses and six temperatures, the most difficult material needed 60 % of
the limit (docs/explanation/accuracy.md).

New text for speech that had no text must be probable.

If a row has no words for a stretch of speech, the stretch may be a noise, a distant crowd, or a
cough. If a retry decodes the stretch alone, the model writes a short phrase even on noise.

The strategies; all except the last search without random numbers:

    own_script        only letters of the language's scripts, if the text has other letters
    beam              beam search, if greedy search produced loops or improbable text
    split             the chunk in two parts; each part may be split again
    shift             the same speech at another place in Whisper's window, if too short to split
    isolate           uncovered speech as a separate part, between the parts around the speech
    pieces            each phrase of uncovered or repeated speech as a separate part
    phrases           each phrase of the chunk as a separate part
    no_repeat_ngram   no n-gram twice, if the text repeats itself
    sample            sampling at the next temperature, if Whisper's own thresholds fail
"""

import logging
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from difflib import SequenceMatcher
from itertools import chain, islice
from typing import Final, Literal

from whisperbatch.chunking.split import cut_at_pauses, isolate, shift, split_in_two
from whisperbatch.decoding.audit import (
    Audit,
    DecodedRow,
    UncoveredSpeech,
    max_tokens_for,
    normalize_words,
)
from whisperbatch.decoding.prompts import Context
from whisperbatch.decoding.row_decoder import RowDecoder, RowRequest
from whisperbatch.options import MAX_NEW_TOKENS, Options, SearchOptions
from whisperbatch.protocols import FeatureExtractor
from whisperbatch.recording import Row
from whisperbatch.types import Chunk, SpeechSpan, to_seconds

log = logging.getLogger(__name__)

REQUEST_WORK: Final = 200  # tokens that take as long as a request's features and encoder
# The limit for all retries of a chunk, in tokens of all hypotheses:
WORK_PER_CHUNK: Final = 2000
WORK_PER_SECOND: Final = 7000
MAX_FREE_HYPOTHESES: Final = 10  # with more hypotheses, the first decoding has the limit of retries


class RetryBudget:
    """The work that is left for the retries of a chunk.

    Args:
        chunk: as it was before any retry.

    Attributes:
        spent: whether a retry was refused; all later retries are refused, too.
    """

    def __init__(self, chunk: Chunk) -> None:
        self._remaining = WORK_PER_CHUNK + WORK_PER_SECOND * to_seconds(chunk.length)
        self.spent = False

    def take(self, work: int) -> bool:
        """Return whether there is enough work left for a retry, and subtract its work."""
        self.spent = self.spent or work > self._remaining
        if not self.spent:
            self._remaining -= work
        return not self.spent


def request_work(chunk: Chunk, hypotheses: int, max_new_tokens: int | None) -> int:
    """Return the work of a request whose tokens have the limit of their speech.

    Args:
        chunk: its speech limits the number of tokens.
        hypotheses: number of beams or of sampled hypotheses.
        max_new_tokens: the option.
    """
    return REQUEST_WORK + hypotheses * min(max_tokens_for(chunk), max_new_tokens or MAX_NEW_TOKENS)


def first_limit(chunk: Chunk, hypotheses: int) -> int:
    """Return the maximum number of tokens of a row's first decoding, without `max_new_tokens`.

    All rows have Whisper's limit, so that they share an engine call. With very many hypotheses, the
    speech of a row limits its tokens as in a retry.
    """
    return max_tokens_for(chunk) if hypotheses > MAX_FREE_HYPOTHESES else MAX_NEW_TOKENS


def report_limit(decoded: DecodedRow) -> None:
    """Log that the retries of a chunk were stopped: as a warning once for each recording."""
    recording = decoded.row.recording
    with recording.changed:
        is_first = not recording.limited_chunks
        recording.limited_chunks += 1
    log.log(
        logging.WARNING if is_first else logging.INFO,
        "recording %d, %.2f s to %.2f s: no more retries, because they reached the limit of work "
        "for a chunk; the best text so far is used. Options that make every text fail, or ask for "
        "very many beams or samples, cause this",
        decoded.chunk.recording,
        to_seconds(decoded.chunk.start),
        to_seconds(decoded.chunk.end),
    )


MAX_SPLITS: Final = 3  # times that a chunk is split in two: from 30 s down to about 4 s

Strategy = Literal[
    "own_script",
    "beam",
    "split",
    "isolate",
    "pieces",
    "phrases",
    "shift",
    "no_repeat_ngram",
    "sample",
]
ISOLATIONS: Final[tuple[Strategy, ...]] = ("isolate", "pieces", "phrases")  # each has more parts
Step = tuple[Strategy, float]
"""A strategy and its temperature."""


@dataclass(eq=False)
class AuditedRow:
    """A decoded row with its audit and the strategies that have not been tried yet.

    Attributes:
        decoded: the row with its text.
        audit: its faults.
        context: its context.
        strategies: the strategies that have not been tried yet.
        splits: how often its chunk was split.
        shifted: whether its speech was moved to another place in Whisper's window.
        had_no_text: whether most of its speech had no text before the retries.
    """

    decoded: DecodedRow
    audit: Audit
    context: Context
    strategies: Iterator[Step]
    splits: int = 0
    shifted: bool = False
    had_no_text: bool = False


def changes_of_the_chunk(row: AuditedRow) -> Iterator[Strategy]:
    """Yield the strategies that divide or move the speech of a chunk."""
    can_split = row.splits < MAX_SPLITS
    if can_split and split_in_two(row.decoded.chunk, _split_target(row)):
        yield "split"
    elif row.audit.uncovered and not row.shifted:
        yield "shift"
    if row.splits > MAX_SPLITS:
        return
    most = 1
    for strategy in ISOLATIONS[0 if can_split else 1 :]:
        number = len(parts_of(row, strategy))
        if number > most:
            most = number
            yield strategy


def parts_of(row: AuditedRow, strategy: Strategy) -> tuple[Chunk, ...]:
    """Return the parts that a strategy divides the chunk into; none if it keeps the chunk."""
    match strategy:
        case "split":
            return split_in_two(row.decoded.chunk, _split_target(row)) or ()
        case "isolate":
            return _isolate(row)
        case "pieces":
            return cut_at_pauses(row.decoded.chunk, _faulty_stretches(row))
        case "phrases" if _faulty_stretches(row):
            chunk = row.decoded.chunk
            return cut_at_pauses(chunk, [SpeechSpan(chunk.start, chunk.end)])
        case _:
            return ()


def most_faulty_first(row: AuditedRow, parts: Sequence[Chunk]) -> list[int]:
    """Return the indices of the parts of a row: parts with most of its faulty speech first."""
    stretches = _faulty_stretches(row)

    def faulty(index: int) -> int:
        start, end = parts[index].start, parts[index].end
        return sum(stretch.within(start, end).length for stretch in stretches)

    return sorted(range(len(parts)), key=faulty, reverse=True)


def splits_after(row: AuditedRow, strategy: Strategy) -> int:
    """Return how often the chunk of a part was split. Phrases are not split again."""
    if strategy in ("pieces", "phrases"):
        return MAX_SPLITS + 1
    return row.splits + (strategy in ("split", "isolate"))


def _isolate(row: AuditedRow) -> tuple[Chunk, ...]:
    """Return the longest uncovered speech and the parts around it; none if no speech is uncovered.

    A split puts the speech at the start of a part. If the rest of this part is louder or clearer,
    the model may begin there again: a faint voice is decoded only when it is alone.
    """
    longest = _longest_uncovered(row)
    return isolate(row.decoded.chunk, longest.start, longest.end) if longest else ()


def _faulty_stretches(row: AuditedRow) -> list[SpeechSpan]:
    """Return the stretches of uncovered and of repeated speech.

    The model can skip several voices in a row. If an announcement is repeated, the model repeats
    its text too often or too rarely.
    """
    words = row.decoded.words
    loops = row.audit.repetitive or row.audit.too_fast
    repeats = row.decoded.repeats if loops else ()
    stretches = [SpeechSpan(gap.start, gap.end) for gap in row.audit.uncovered]
    return stretches + [SpeechSpan(words[r.start].start, words[r.end - 1].end) for r in repeats]


def _split_target(row: AuditedRow) -> int:
    """Return the recording sample near which to split a chunk.

    The target is the start of the longest uncovered speech, so that the lost words begin a row. If
    there is none, or if it takes more than half of the chunk, the target is the chunk's middle.
    """
    chunk = row.decoded.chunk
    longest = _longest_uncovered(row)
    if longest is None or longest.speech > (chunk.end - chunk.start) // 2:
        return (chunk.start + chunk.end) // 2
    return longest.start


def _longest_uncovered(row: AuditedRow) -> UncoveredSpeech | None:
    return max(row.audit.uncovered, key=lambda gap: gap.speech, default=None)


# Below the sum of Whisper's two thresholds: the no-speech probability minus the average
# log-probability is at most 1.1 with the defaults. On base, with difficult voices and crowds in
# five languages, 53 of 58 new texts up to this limit had a right word, and 5 of 62 texts above it.
MAX_DOUBT: Final = -0.5


MIN_UNCOVERED: Final = 0.5  # share of a part's speech; then nearly all of its text is new


def had_no_text(parts: Sequence[DecodedRow], row: AuditedRow) -> list[bool]:
    """Return, for each part, whether its speech had no text before the retries.

    The times of the words do not say this reliably: the alignment can stretch the first word of a
    sentence over noise before the sentence. So the words are compared, too. If the row has
    uncovered speech, a part whose words are all inserted between words of the row had no text.

    Args:
        parts: the row after a strategy: one part, or several parts in order.
        row: the row before the strategy.
    """
    return [
        row.had_no_text or (inserted and bool(row.audit.uncovered)) or _is_uncovered(part, row)
        for part, inserted in zip(parts, _find_inserted(parts, row.decoded), strict=True)
    ]


def _find_inserted(parts: Sequence[DecodedRow], decoded: DecodedRow) -> list[bool]:
    """Return, for each part, whether all its words are inserted between words of the row."""
    words = [_spoken_words(part) for part in parts]
    before = _spoken_words(decoded)
    matcher = SequenceMatcher(None, before, list(chain(*words)), autojunk=False)
    inserted = iter(
        opcode == "insert"
        for opcode, _, _, start, end in matcher.get_opcodes()
        for _ in range(start, end)
    )
    return [bool(flags) and all(flags) for flags in (list(islice(inserted, len(w))) for w in words)]


def without_doubtful_text(part: DecodedRow) -> DecodedRow:
    """Return a decoded part whose speech had no text before, without its text if it is doubtful."""
    doubtful = part.has_low_probability or part.doubt_beyond_thresholds > MAX_DOUBT
    if not part.words or not doubtful:
        return part
    return replace(part, hypothesis=replace(part.hypothesis, tokens=()), text="", timed_texts=())


def least_cost(part: DecodedRow) -> float:
    """Return the lowest cost that a decoded part can have: with its text, or without doubtful text.

    Whether the text of a part is new is known only when all parts of the row are decoded.
    """
    without = without_doubtful_text(part)
    cost = part.audit.cost
    return cost if without is part else min(cost, without.audit.cost)


def _spoken_words(decoded: DecodedRow) -> list[str]:
    """Return the normalised words, without words that have only punctuation ("...")."""
    return [word for word in normalize_words(decoded.words) if word]


def _is_uncovered(part: DecodedRow, row: AuditedRow) -> bool:
    speech = sum(span.length for span in part.chunk.speech)
    return _uncovered_within(row, part.chunk.start, part.chunk.end) >= MIN_UNCOVERED * speech


def _uncovered_within(row: AuditedRow, start: int, end: int) -> int:
    """Return the number of samples of uncovered speech of the row between `start` and `end`.

    Speech of a gap that extends beyond the range counts in proportion.
    """
    total = 0
    for gap in row.audit.uncovered:
        inside = min(gap.end, end) - max(gap.start, start)
        if inside > 0:
            total += gap.speech * inside // (gap.end - gap.start)
    return total


RETRY_BEAMS: Final = 5  # beams of a retry, if the run is greedy
RETRY_NGRAM: Final = 4  # tokens; on read speech 4 causes no errors, but 3 forbids real repetition
MIN_GAIN: Final = 0.25  # seconds that a retry must improve, so that chance does not decide


@dataclass(eq=False)
class _Try:
    """A strategy that is tried on a row.

    Attributes:
        row: the row that failed.
        step: the strategy.
        requests: the row, or its parts.
        at_once: whether all requests are decoded at once.
        decoded: the decoded requests, by their index.
        cost: lower bound of the wrong seconds; exact when all requests are decoded.
    """

    row: AuditedRow
    step: Step
    requests: list[RowRequest]
    at_once: bool = False
    decoded: dict[int, DecodedRow] = field(default_factory=dict)
    cost: float = 0.0

    def next_indices(self) -> list[int]:
        """Return the requests to decode next: the most faulty half, then the others.

        If the strategy can no longer help, there are none.
        """
        if not _is_better(self.cost, self.row):
            return []
        order = most_faulty_first(self.row, [request.row.chunk for request in self.requests])
        if self.decoded:
            return [index for index in order if index not in self.decoded]
        return order if self.at_once else order[: len(order) - len(order) // 2]

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
        retried: whether a strategy was tried.
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
        at_once: whether the parts of a strategy are decoded at once: see the top of the file.
    """

    def __init__(
        self,
        decode: RowDecoder,
        extractor: FeatureExtractor,
        options: Options,
        *,
        at_once: bool = False,
    ) -> None:
        self._decode_rows = decode
        self._at_once = at_once
        self._extractor = extractor
        self._options = options

    def __call__(
        self, decoded: DecodedRow, context: Context
    ) -> tuple[tuple[DecodedRow, ...], bool]:
        """Decode a row again that failed its audit, with each strategy until the text passes.

        Args:
            decoded: the row with its text.
            context: the context of the row.

        Returns:
            The row, or its parts if the row was split, and whether the row was decoded again.
        """
        chunk = _RetriedChunk([self._audit(decoded, context)], RetryBudget(decoded.chunk))
        while tries := self._start_round(chunk):
            self._decode(tries)
            self._end_round(chunk, tries)
        if chunk.budget.spent:
            report_limit(decoded)
        return tuple(row.decoded for row in chunk.rows), chunk.retried

    def _audit(
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
        row.strategies = self._strategies(row)
        return row

    def _start_round(self, chunk: _RetriedChunk) -> list[_Try]:
        """Return the next try of each row of the chunk that has a strategy left.

        A row whose chunk has spent its budget has no further strategy.
        """
        tries: list[_Try] = []
        for row in chunk.rows:
            if not _is_better(0.0, row):  # not even a text without faults
                continue
            step = next(row.strategies, None)
            if step is None:
                continue
            strategy, _ = step
            parts = parts_of(row, strategy)
            if chunk.budget.take(self._work(parts or (row.decoded.chunk,), step)):
                tries.append(_Try(row, step, self._requests(row, step, parts), self._at_once))
        chunk.retried = chunk.retried or bool(tries)
        return tries

    def _end_round(self, chunk: _RetriedChunk, tries: Sequence[_Try]) -> None:
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
        row, (strategy, _) = attempt.row, attempt.step
        splits = splits_after(row, strategy)
        shifted = row.shifted or strategy == "shift"
        parts = [attempt.decoded[index] for index in range(len(attempt.requests))]
        new_rows = []
        for request, part, is_new in zip(
            attempt.requests, parts, had_no_text(parts, row), strict=True
        ):
            decoded = without_doubtful_text(part) if is_new else part
            new_rows.append(
                self._audit(decoded, request.context, splits, shifted=shifted, had_no_text=is_new)
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
        """Return the work of a strategy on a chunk or on its parts."""
        strategy, temperature = step
        hypotheses = self._options.best_of if temperature else self._beams(strategy)
        max_new_tokens = self._options.max_new_tokens
        return sum(request_work(chunk, hypotheses, max_new_tokens) for chunk in chunks)

    def _strategies(self, row: AuditedRow) -> Iterator[Step]:
        """Yield the strategies for a row in order.

        The next strategy is requested only while no strategy has replaced the row.
        """
        faults = row.audit
        if faults.passed:
            return
        if faults.foreign:
            yield "own_script", 0.0
        suspicious = faults.repetitive or faults.improbable  # by Whisper's own thresholds
        if suspicious and self._options.beam_size == 1 and row.decoded.temperature == 0:
            yield "beam", 0.0
        for strategy in changes_of_the_chunk(row):
            yield strategy, 0.0
        if faults.repetitive:
            yield "no_repeat_ngram", 0.0
        if suspicious:
            for temperature in self._options.temperatures:
                if temperature > row.decoded.temperature:
                    yield "sample", temperature

    def _requests(self, row: AuditedRow, step: Step, parts: Sequence[Chunk]) -> list[RowRequest]:
        """Return the requests of a strategy: of each part, if the strategy divides the chunk."""
        (strategy, temperature), decoded, context = step, row.decoded, row.context
        search = self._search_for(strategy, decoded)
        chunks = [shift(decoded.chunk)] if strategy == "shift" else parts
        recording = decoded.row.recording
        rows = [Row.of(chunk, self._extractor, recording) for chunk in chunks] or [decoded.row]
        return [
            RowRequest(part, decoded.language, decoded.task, part_context, search, temperature)
            for part, part_context in zip(rows, context.of_parts(len(rows)), strict=True)
        ]

    def _beams(self, strategy: Strategy) -> int:
        beams = self._options.beam_size
        return max(beams, RETRY_BEAMS) if strategy in ("beam", "no_repeat_ngram") else beams

    def _search_for(self, strategy: Strategy, decoded: DecodedRow) -> SearchOptions:
        search = self._options.search
        if strategy == "own_script":
            foreign = self._decode_rows.foreign_tokens(decoded.text_language)
            search = replace(search, suppress_tokens=(*search.suppress_tokens, *foreign))
        if (beams := self._beams(strategy)) != search.beam_size:
            search = replace(search, beam_size=beams)
        if strategy == "no_repeat_ngram":
            size = min(search.no_repeat_ngram_size or RETRY_NGRAM, RETRY_NGRAM)
            search = replace(search, no_repeat_ngram_size=size)
        return search


def _is_better(cost: float, row: AuditedRow) -> bool:
    """Return whether a text with this cost is better than the text of a row, by MIN_GAIN."""
    return cost <= row.audit.cost - MIN_GAIN


def _log(attempt: _Try, *, better: bool) -> None:
    chunk, (strategy, temperature) = attempt.row.decoded.chunk, attempt.step
    log.info(
        "recording %d, %.2f s to %.2f s: decoded again (%s%s), %s%.2f s wrong instead of %.2f s; "
        "%s",
        chunk.recording,
        to_seconds(chunk.start),
        to_seconds(chunk.end),
        strategy,
        f", temperature {temperature:g}" if temperature else "",
        "" if attempt.complete else "at least ",
        attempt.cost,
        attempt.row.audit.cost,
        "new text kept" if better else "old text kept",
    )
