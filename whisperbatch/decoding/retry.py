"""Chunks that fail their audit are decoded again, another way; the better covered text wins.

Every remedy but the last is deterministic, and tried on all failed parts of a batch together:

    own       only letters that the language is written in, where the text has others
    wider     beam search where greedy search looped or guessed
    recut     in two at another place, and each of the two may be cut again
    moved     the same speech elsewhere in the window, where it is too short to be cut
    varied    no n-gram twice, where text repeats itself
    sampled   at the next temperature, where Whisper's own thresholds fail
"""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from whisperbatch.chunking.split import halves, moved
from whisperbatch.decoding.audit import Audit, audit
from whisperbatch.decoding.decoded_row import DecodedRow
from whisperbatch.decoding.prompts import Context
from whisperbatch.decoding.row_decoder import DecodeRequest, RowDecoder
from whisperbatch.options import Options
from whisperbatch.protocols import FeatureExtractor
from whisperbatch.rows import Row
from whisperbatch.types import Chunk, to_seconds

log = logging.getLogger(__name__)

DEPTH: Final = 3  # times that a chunk is cut in two: 30 s come down to about 4 s
WIDE: Final = 5  # beams, where the run is greedy
NGRAM: Final = 4  # tokens; on read speech 4 costs nothing, 3 forbids what people do say
GAIN: Final = 0.25  # seconds that a retry must mend, so that chance decides nothing

Remedy = Literal["own", "wider", "recut", "moved", "varied", "sampled"]
Step = tuple[Remedy, float]  # and the temperature


@dataclass(eq=False)
class _Case:
    """A part under repair."""

    part: DecodedRow
    audit: Audit
    context: Context
    remedies: Iterator[Step]
    depth: int = 0  # times cut
    moved: bool = False


class Retry:
    """Repairs the parts of a batch.

    Args:
        decode: makes parts of rows.
        extractor: makes features of chunks that are cut anew.
        options: of the run.
    """

    def __init__(self, decode: RowDecoder, extractor: FeatureExtractor, options: Options) -> None:
        self._decode = decode
        self._extractor = extractor
        self._options = options

    def __call__(
        self, parts: Sequence[DecodedRow], contexts: Sequence[Context]
    ) -> list[tuple[tuple[DecodedRow, ...], bool]]:
        """What each part has become, and whether it was decoded again; in order."""
        chunks = [
            [self._case(part, context)] for part, context in zip(parts, contexts, strict=True)
        ]
        retried = [False] * len(parts)
        while tries := self._due(chunks):
            for number, _, _ in tries:
                retried[number] = True
            results = self._try([(case, step) for _, case, step in tries])
            for (number, case, step), made in zip(tries, results, strict=True):
                _choose(chunks[number], case, step, made)
        return [
            (tuple(case.part for case in cases), again)
            for cases, again in zip(chunks, retried, strict=True)
        ]

    def _case(
        self, part: DecodedRow, context: Context, depth: int = 0, *, moved: bool = False
    ) -> _Case:
        case = _Case(part, audit(part, self._options), context, iter(()), depth, moved)
        case.remedies = self._remedies(case)
        return case

    def _due(self, chunks: Sequence[Sequence[_Case]]) -> list[tuple[int, _Case, Step]]:
        """The next remedy of every part that still has one, with the number of its chunk."""
        found = [
            (number, case, next(case.remedies, None))
            for number, cases in enumerate(chunks)
            for case in cases
        ]
        return [(number, case, step) for number, case, step in found if step]

    def _remedies(self, case: _Case) -> Iterator[Step]:
        """What to try, in turn; the next one is asked for while the part still stands."""
        found = case.audit
        if found.passed:
            return
        if found.foreign:
            yield "own", 0.0
        suspect = found.repeats or found.improbable  # by Whisper's own thresholds
        if suspect and self._options.beam_size == 1 and case.part.temperature == 0:
            yield "wider", 0.0
        if case.depth < DEPTH and halves(case.part.chunk, _target(case)):
            yield "recut", 0.0
        elif found.holes and not case.moved:
            yield "moved", 0.0
        if found.repeats:
            yield "varied", 0.0
        if suspect:
            for temperature in self._options.temperatures:
                if temperature > case.part.temperature:
                    yield "sampled", temperature

    def _try(self, tries: Sequence[tuple[_Case, Step]]) -> list[list[_Case]]:
        """The cases that each remedy makes, those of one kind decoded together."""
        results: list[list[_Case]] = [[] for _ in tries]
        kinds: dict[tuple[Options, float], list[tuple[int, DecodeRequest]]] = {}
        for number, (case, (remedy, temperature)) in enumerate(tries):
            kind = self._settings(remedy, case.part), temperature
            jobs = self._jobs(case, remedy)
            kinds.setdefault(kind, []).extend((number, job) for job in jobs)
        for (options, temperature), numbered in kinds.items():
            jobs = [job for _, job in numbered]
            parts = self._decode.again(jobs, options, temperature)
            for (number, job), part in zip(numbered, parts, strict=True):
                case, (remedy, _) = tries[number]
                depth = case.depth + (remedy == "recut")
                moved = case.moved or remedy == "moved"
                results[number].append(self._case(part, job.context, depth, moved=moved))
        return results

    def _jobs(self, case: _Case, remedy: Remedy) -> list[DecodeRequest]:
        part, context = case.part, case.context
        if remedy == "recut" and (cut := halves(part.chunk, _target(case))):
            # the second does not begin the recording, so it has no prefix
            contexts = (context, replace(context, prefix=()))
            return [
                DecodeRequest(self._row(half), part.language, part.task, own)
                for half, own in zip(cut, contexts, strict=True)
            ]
        if remedy == "moved":
            return [DecodeRequest(self._row(moved(part.chunk)), part.language, part.task, context)]
        return [DecodeRequest(part.row, part.language, part.task, context)]

    def _row(self, chunk: Chunk) -> Row:
        return Row.of(chunk, self._extractor)

    def _settings(self, remedy: Remedy, part: DecodedRow) -> Options:
        options = self._options
        if remedy == "own":
            others = self._decode.foreign_tokens(part.written)
            options = replace(options, suppress_tokens=(*options.suppress_tokens, *others))
        if remedy in ("wider", "varied"):
            options = replace(options, beam_size=max(options.beam_size, WIDE))
        if remedy == "varied":
            size = min(options.no_repeat_ngram_size or NGRAM, NGRAM)
            options = replace(options, no_repeat_ngram_size=size)
        return options


def _target(case: _Case) -> int:
    """Where to cut: at the largest hole, so that what was lost begins a row; or midway."""
    chunk = case.part.chunk
    hole = max(case.audit.holes, key=lambda hole: hole.speech, default=None)
    if hole is None or hole.speech > (chunk.end - chunk.start) // 2:
        return (chunk.start + chunk.end) // 2
    return hole.start


def _choose(cases: list[_Case], case: _Case, step: Step, made: list[_Case]) -> None:
    """Put what a remedy made in the case's place, if it is better."""
    before, after = case.audit.cost, sum(one.audit.cost for one in made)
    better = after <= before - GAIN
    remedy, temperature = step
    log.info(
        "recording %d, %.2f s to %.2f s: decoded again (%s%s): %.2f s wrong, was %.2f s%s",
        case.part.chunk.recording,
        to_seconds(case.part.chunk.start),
        to_seconds(case.part.chunk.end),
        remedy,
        f" at {temperature:g}" if temperature else "",
        after,
        before,
        "" if better else ": kept as it was",
    )
    if better:
        place = cases.index(case)
        cases[place : place + 1] = made
