"""All stages, connected in order.

    stage                                                       thread
    sources -> open_audio -> clips -> Vad -> chunks             one for each recording being read
            -> features                                         a pool
            -> language scores and code-switching, if enabled   the engine's workers
            -> batches -> BatchDecoder                          the engine's workers
            -> segments, sorted by recording                    the caller's

Every arrow is a generator and every buffer is bounded: memory does not grow with the recording.
"""

import logging
import os
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from itertools import chain, takewhile
from typing import Final

from whisperbatch.audio.clips import clips
from whisperbatch.audio.reader import AudioReader
from whisperbatch.batching import attach_voters, batches, in_order, in_sequence
from whisperbatch.chunking.merge import chunks
from whisperbatch.decoding.batch_decoder import BatchDecoder, RowResult
from whisperbatch.decoding.engine_options import options_for
from whisperbatch.errors import EngineError, WhisperBatchError
from whisperbatch.features import feature_extractor
from whisperbatch.language.code_switching import CodeSwitching, with_language_scores
from whisperbatch.language.decisions import LanguageDecisions
from whisperbatch.language.detect import NO_SPEECH, UNREADABLE, detection, english_only
from whisperbatch.language.voting import Decision, decide, enough_to_decide
from whisperbatch.language.windows import (
    find_windows,
    score_chunks,
    spread_windows,
    window_options,
)
from whisperbatch.options import Options
from whisperbatch.prefetch import interleave, map_ordered
from whisperbatch.protocols import Engine, Vad
from whisperbatch.rows import FLUSH, End, Flush, Item, Row, RunStats
from whisperbatch.types import Chunk, LanguageDetection, Samples, Segment, to_seconds
from whisperbatch.vad import open_vad

log = logging.getLogger(__name__)

Opener = Callable[[], AudioReader]

FEATURE_WORKERS: Final = min(os.cpu_count() or 1, 4)
VOTERS: Final = 4  # first chunks of a recording, which vote for its language
READERS: Final = 4  # recordings read at a time, if recordings need not keep their order
READ_AHEAD: Final = 2  # chunks read ahead from each recording


def chunk_recording(
    blocks: Iterable[Samples], options: Options, vad: Vad | None = None, recording: int = 0
) -> Iterator[Chunk]:
    """Yield the chunks of a recording, numbered from 0 across all ranges of `clip_timestamps`.

    Args:
        blocks: all samples of the recording.
        options: ranges, speech spans and chunks.
        vad: the result of `open_vad` for these options, if it is open already.
        recording: number of the recording.
    """
    vad = vad or open_vad(options)
    index = 0
    for offset, clip in clips(blocks, options.clip_timestamps):
        for chunk in chunks(
            vad(clip), options, vad.hop, recording=recording, index=index, offset=offset
        ):
            yield chunk
            index += 1


def detect_language(
    engine: Engine, reader: AudioReader, options: Options, *, read_through: bool
) -> LanguageDetection:
    """Detect the language of an open recording.

    Language windows spread over the recording are read and scored. If the recording has no random
    access, or the windows have no speech, the whole recording is read, provided that `read_through`
    is true. Otherwise the reader keeps its position, and the language is None.

    Raises:
        OptionError: the model cannot honour an option.
        AudioError: the recording cannot be read.
        EngineError: the model failed.
    """
    if engine.is_multilingual or "en" not in (options.languages or ("en",)):
        options = options_for(engine, options)
    if not engine.is_multilingual:
        log.info("%s: en, because model %s is English-only", reader.name, engine.name)
        return english_only(engine.name)
    vad = open_vad(options)
    with reader.random_access() as recording:
        windows = find_windows(recording, vad, options, lambda: reader.closed) if recording else []
    if not windows:
        reason = "the windows have no speech" if recording else "it cannot be read out of order"
        log.info("%s: %s, so the language needs the whole recording", reader.name, reason)
        if not read_through:
            return UNREADABLE
        chunk_stream = chunk_recording(reader.blocks(), window_options(options), vad)
        windows = spread_windows(chunk_stream, options)
    if not windows:
        return NO_SPEECH
    extractor = feature_extractor(options.features, engine.n_mels)
    return detection(windows, score_chunks(engine, extractor, windows), options)


class PipelineRun:
    """One pass of the pipeline over one or many recordings. Iterate it once.

    Args:
        engine: runs the model.
        openers: functions that open the recordings, each called when its recording is to be read.
        options: as the user gave them.
        isolate: whether a failure of the engine ends only the recordings of the failed batch.
            Otherwise the failure ends the run.
        readers: number of recordings read at a time.
        ordered: whether the results keep the order of the recordings. A slow recording then delays
            the results of later recordings.

    Raises:
        OptionError: the model cannot honour an option.

    Yields:
        (recording, Segment), in order within a recording, and an `End` after the last segment of
        each recording. If a recording cannot be read, its `End` has the error; the other
        recordings continue.
    """

    def __init__(
        self,
        engine: Engine,
        openers: Iterable[Opener],
        options: Options,
        *,
        isolate: bool = False,
        readers: int = 1,
        ordered: bool = True,
    ) -> None:
        options = options_for(engine, options)
        self._engine = engine
        self._openers = openers
        self._options = options
        self._isolate = isolate
        self._max_readers = readers
        self._ordered = ordered
        self._failed: dict[int, EngineError] = {}
        self._stopped = False
        self._readers: dict[int, AudioReader] = {}
        self._stats: dict[int, RunStats] = {}
        self._languages = LanguageDecisions(options)
        self._vad = open_vad(options)
        self._extractor = feature_extractor(options.features, engine.n_mels)
        self._code_switching = CodeSwitching(engine, self._extractor, options, self._fail)
        self._decode = BatchDecoder(engine, self._extractor, options, self._languages)

    def __iter__(self) -> Generator[tuple[int, Segment] | End, None, None]:
        workers = self._engine.workers
        numbers: dict[int, int] = {}
        with closing(
            map_ordered(self._decode_batch, self._batches(), workers=workers, depth=workers)
        ) as decoded:
            results = chain.from_iterable(decoded)
            for result in in_order(results) if self._ordered else results:
                if isinstance(result, End):
                    error = result.error or self._failed.pop(result.recording, None)
                    stats = self._stats.pop(result.recording, None) or RunStats()
                    self._decode.ended(result.recording)
                    yield replace(result, error=error, stats=stats)
                    self._languages.forget(result.recording)
                    numbers.pop(result.recording, None)
                    continue
                recording, row = result
                self._count(recording, row)
                for segment in row.segments:
                    number = numbers[recording] = numbers.get(recording, -1) + 1
                    yield recording, replace(segment, id=number)

    def stop(self) -> None:
        """Stop reading, so that a thread that waits for this run returns soon. Thread-safe."""
        self._stopped = True
        for reader in list(self._readers.values()):
            reader.close()

    def language(self, recording: int) -> Decision | None:
        """Return the latest decision for a recording; None if there is none yet, or no speech."""
        return self._languages.latest(recording)

    def stats(self, recording: int) -> RunStats:
        """Return the counts and omissions so far of a recording that has not ended."""
        return self._stats.get(recording) or RunStats()

    def _count(self, recording: int, row: RowResult) -> None:
        stats = self._stats.setdefault(recording, RunStats())
        stats.omissions += row.omissions
        stats.chunks += 1
        stats.redecoded += row.redecoded

    def _chunks(self) -> Generator[Chunk | End | Flush, None, None]:
        recordings = (
            self._recording(number, opener)
            for number, opener in takewhile(lambda _: not self._stopped, enumerate(self._openers))
        )
        if self._max_readers == 1:
            return in_sequence(recordings)
        return interleave(recordings, at_once=self._max_readers, depth=READ_AHEAD, idle=FLUSH)

    def _recording(self, recording: int, opener: Opener) -> Generator[Chunk | End, None, None]:
        try:
            reader = self._readers[recording] = opener()
            if self._stopped:  # by another thread, during the call of `opener`
                reader.close()
        except WhisperBatchError as error:
            yield End(recording, error.source or "", 0.0, error)
            return
        failure: WhisperBatchError | None = None
        with closing(reader):
            try:
                self._decide_language(recording, reader)
                yield from chunk_recording(reader.blocks(), self._options, self._vad, recording)
            except WhisperBatchError as error:
                failure = error
            del self._readers[recording]
            yield End(recording, reader.name, to_seconds(reader.position), failure)

    def _decide_language(self, recording: int, reader: AudioReader) -> None:
        """Decide the recording's language from windows spread over it, if it has random access."""
        if self._languages.is_final(recording):
            return
        with reader.random_access() as random_access:
            if (
                random_access is None
                or random_access.duration <= VOTERS * self._options.chunk_length
            ):
                return  # the first chunks vote instead
            windows = find_windows(
                random_access, self._vad, self._options, lambda: self._stopped or reader.closed
            )
        scores = score_chunks(self._engine, self._extractor, windows)
        if enough_to_decide(scores, self._options):
            self._languages.set_decision(recording, decide(scores, self._options), final=True)

    def _extract_features(self, item: Chunk | End | Flush) -> Item:
        return Row.of(item, self._extractor) if isinstance(item, Chunk) else item

    def _batches(self) -> Generator[list[Item], None, None]:
        options = self._options
        with ExitStack() as stack:
            items: Iterable[Item] = stack.enter_context(
                closing(
                    map_ordered(
                        self._extract_features,
                        self._chunks(),
                        workers=FEATURE_WORKERS,
                        depth=FEATURE_WORKERS,
                    )
                )
            )
            if options.multilingual:
                items = self._code_switching(
                    stack.enter_context(closing(self._with_language_scores(items)))
                )
            elif not options.language:
                items = attach_voters(items, VOTERS, self._languages.is_final)
            # A small first batch gives the first segments soon. Without a given language it is
            # twice as large: the rows that vote for the language are encoded anyway.
            first = max(options.batch_size // (8 if options.language else 4), 1)
            for batch in batches(items, options.batch_size, first):
                for item in batch:
                    if isinstance(item, Row) and item.voters:
                        self._languages.expect_decision(item.chunk.recording)
                    if isinstance(item, Row) and item.language and item.language_scores:
                        self._languages.add_speech(
                            item.chunk.recording, item.language, item.language_scores
                        )
                yield batch

    def _with_language_scores(self, items: Iterable[Item]) -> Generator[Item, None, None]:
        """Yield the items, each row with its language scores and encoder output."""
        workers = self._engine.workers
        size = self._options.batch_size
        with closing(
            map_ordered(
                self._score_batch,
                batches(items, size, max(size // 4, 1)),
                workers=workers,
                depth=workers,
            )
        ) as scored:
            yield from chain.from_iterable(scored)

    def _score_batch(self, items: list[Item]) -> Sequence[Item]:
        items = self._without_failed(items)
        rows = [item for item in items if isinstance(item, Row)]
        try:
            scored = iter(with_language_scores(self._engine, rows) if rows else ())
        except EngineError as error:
            return self._fail_rows(rows, items, error)
        return [next(scored) if isinstance(item, Row) else item for item in items]

    def _decode_batch(self, items: list[Item]) -> Sequence[tuple[int, RowResult] | End]:
        items = self._without_failed(items)
        rows = [item for item in items if isinstance(item, Row)]
        try:
            decoded = iter(self._decode(rows) if rows else ())
        except EngineError as error:
            return self._fail_rows(rows, items, error)
        return [
            (item.chunk.recording, next(decoded)) if isinstance(item, Row) else item
            for item in items
            if not isinstance(item, Flush)
        ]

    def _fail_rows(
        self, rows: Sequence[Row], items: Sequence[Item], error: EngineError
    ) -> list[End]:
        """Record the failure of a batch's recordings; return the `End` markers of the batch."""
        for row in rows:
            self._fail(row.chunk.recording, error)
        return [item for item in items if isinstance(item, End)]

    def _fail(self, recording: int, error: EngineError) -> None:
        if not self._isolate:
            raise error
        self._failed[recording] = error

    def _without_failed(self, items: Sequence[Item]) -> list[Item]:
        """Remove the rows of recordings that have failed.

        The engine may fail again on these rows, and a failure also ends the recordings of the other
        rows of the batch.
        """
        failed = [
            item for item in items if isinstance(item, Row) and item.chunk.recording in self._failed
        ]
        self._decode.skip(failed)
        return [item for item in items if item not in failed] if failed else list(items)
