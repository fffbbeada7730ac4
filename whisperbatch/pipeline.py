"""All the stages, in order: the only file that knows them all.

    sources -> open_audio -> clips -> Vad -> chunks      a thread for each recording being read
            -> features                                  a pool of threads
            -> switches, if the language may change      the engine's workers
            -> batches -> Decoder                        the engine's workers
            -> segments, recording by recording          the caller

Every arrow is a generator, and every buffer has a bound: memory does not grow with the recording.
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
from whisperbatch.batching import attach_voters, batches, in_order, one_by_one
from whisperbatch.chunking.merge import chunks
from whisperbatch.decoding.batch_decoder import BatchDecoder, RowResult
from whisperbatch.errors import EngineError, WhisperBatchError
from whisperbatch.features import feature_extractor
from whisperbatch.language.code_switching import CodeSwitching, with_language_scores
from whisperbatch.language.decisions import LanguageDecisions
from whisperbatch.language.detect import NO_SPEECH, UNREADABLE, detection, english_only
from whisperbatch.language.voting import Decision, decide, enough_to_decide
from whisperbatch.language.windows import find_windows, score_chunks, short, thinned
from whisperbatch.options import Options
from whisperbatch.prefetch import map_ordered, side_by_side
from whisperbatch.protocols import Engine, Vad
from whisperbatch.rows import FLUSH, End, Flush, Item, Row, RunStats
from whisperbatch.types import Chunk, LanguageDetection, Samples, Segment, to_seconds
from whisperbatch.vad import open_vad

log = logging.getLogger(__name__)

Opener = Callable[[], AudioReader]

FEATURE_WORKERS: Final = min(os.cpu_count() or 1, 4)
VOTERS: Final = 4  # chunks that a recording's language is told by
READERS: Final = 4  # recordings read at a time, where there are many
AHEAD: Final = 2  # chunks read ahead of each


def chunk_recording(
    blocks: Iterable[Samples], vad: Vad, options: Options, recording: int = 0
) -> Iterator[Chunk]:
    """The chunks of a recording, numbered through all ranges that are worked on.

    Args:
        blocks: all of it.
        vad: as `open_vad` gives it for these options.
        options: of ranges, spans and chunks.
        recording: its number.
    """
    index = 0
    for offset, part in clips(blocks, options.clip_timestamps):
        for chunk in chunks(
            vad(part), options, vad.hop, recording=recording, index=index, offset=offset
        ):
            yield chunk
            index += 1


def detect_language(
    engine: Engine, reader: AudioReader, options: Options, *, read_through: bool
) -> LanguageDetection:
    """The language of an open recording.

    Windows spread over the recording are read and scored. Where the recording cannot be read out
    of order, or the windows have no speech, all of it is read, if `read_through` allows that.
    Otherwise the reader keeps its position, and the language is None.

    Raises:
        AudioError: the recording cannot be read.
        EngineError: the model failed.
    """
    if not engine.is_multilingual:
        log.info("%s: en, since model %s is English-only", reader.name, engine.name)
        return english_only(engine.name)
    vad = open_vad(options)
    with reader.random_access() as recording:
        windows = find_windows(recording, vad, options, lambda: reader.closed) if recording else []
    if not windows:
        why = "the windows have no speech" if recording else "it cannot be read out of order"
        log.info("%s: %s, so the language needs the whole recording", reader.name, why)
        if not read_through:
            return UNREADABLE
        windows = thinned(chunk_recording(reader.blocks(), vad, short(options)), options)
    if not windows:
        return NO_SPEECH
    extractor = feature_extractor(options.features, engine.n_mels)
    return detection(windows, score_chunks(engine, extractor, windows), options)


class Run:
    """One pass over one or many recordings. Iterate it once.

    Args:
        engine: runs the model.
        openers: open the recordings, each when its turn comes.
        options: as `options_for` gives them.
        isolate: an engine's failure ends the recordings of its batch alone, not the run.
        readers: recordings read at a time. A slow one then holds up the others only in so far as
            their turn is after it.
        ordered: whether recordings keep their order.

    Yields:
        (recording, Segment) in order, and an `End` after the last of each recording.
        A recording that cannot be read ends early, with its error in `End`; the others go on.
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
        self._engine = engine
        self._openers = openers
        self._options = options
        self._isolate = isolate
        self._readers_at_once = readers
        self._ordered = ordered
        self._failed: dict[int, EngineError] = {}
        self._stopped = False
        self._readers: dict[int, AudioReader] = {}
        self._stats: dict[int, RunStats] = {}
        self._languages = LanguageDecisions(options)
        self._vad = open_vad(options)
        self._extractor = feature_extractor(options.features, engine.n_mels)
        self._switches = CodeSwitching(engine, self._extractor, options, self._fail)
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
        """Read no further. From any thread: whoever waits for this run then need not for long."""
        self._stopped = True
        for reader in list(self._readers.values()):
            reader.close()

    def language(self, recording: int) -> Decision | None:
        """What was decided for a recording that has ended; None where it had no speech."""
        return self._languages.latest(recording)

    def stats(self, recording: int) -> RunStats:
        """What has been done so far with a recording that has not ended."""
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
        if self._readers_at_once == 1:
            return one_by_one(recordings)
        return side_by_side(recordings, at_once=self._readers_at_once, depth=AHEAD, lull=FLUSH)

    def _recording(self, recording: int, opener: Opener) -> Generator[Chunk | End, None, None]:
        try:
            reader = self._readers[recording] = opener()
            if self._stopped:  # while it was opened
                reader.close()
        except WhisperBatchError as error:
            yield End(recording, error.source or "", 0.0, error)
            return
        failure: WhisperBatchError | None = None
        with closing(reader):
            try:
                self._listen(recording, reader)
                yield from chunk_recording(reader.blocks(), self._vad, self._options, recording)
            except WhisperBatchError as error:
                failure = error
            del self._readers[recording]
            yield End(recording, reader.name, to_seconds(reader.position), failure)

    def _listen(self, recording: int, reader: AudioReader) -> None:
        """Decide the recording's language by all of it, if that takes no reading through."""
        if self._languages.settled(recording):
            return
        with reader.random_access() as whole:
            if whole is None or whole.duration <= VOTERS * self._options.chunk_length:
                return  # the first chunks tell
            windows = find_windows(
                whole, self._vad, self._options, lambda: self._stopped or reader.closed
            )
        heard = score_chunks(self._engine, self._extractor, windows)
        if enough_to_decide(heard, self._options):
            self._languages.settle(recording, decide(heard, self._options), final=True)

    def _featurise(self, item: Chunk | End | Flush) -> Item:
        return Row.of(item, self._extractor) if isinstance(item, Chunk) else item

    def _batches(self) -> Generator[list[Item], None, None]:
        options = self._options
        with ExitStack() as stack:
            items: Iterable[Item] = stack.enter_context(
                closing(
                    map_ordered(
                        self._featurise,
                        self._chunks(),
                        workers=FEATURE_WORKERS,
                        depth=FEATURE_WORKERS,
                    )
                )
            )
            if options.multilingual:
                items = self._switches(
                    stack.enter_context(closing(self._with_language_scores(items)))
                )
            elif not options.language:
                items = attach_voters(items, VOTERS, self._languages.settled)
            # the sooner the first segments, the better; what is listened to is encoded anyway
            first = max(options.batch_size // (8 if options.language else 4), 1)
            for batch in batches(items, options.batch_size, first):
                for item in batch:
                    if isinstance(item, Row) and item.voters:
                        self._languages.claim(item.chunk.recording)
                    if isinstance(item, Row) and item.language and item.language_scores:
                        self._languages.add_speech(
                            item.chunk.recording, item.language, item.language_scores
                        )
                yield batch

    def _with_language_scores(self, items: Iterable[Item]) -> Generator[Item, None, None]:
        """The same, each row listened to."""
        workers = self._engine.workers
        size = self._options.batch_size
        with closing(
            map_ordered(
                self._score_batch,
                batches(items, size, max(size // 4, 1)),
                workers=workers,
                depth=workers,
            )
        ) as heard:
            yield from chain.from_iterable(heard)

    def _score_batch(self, items: list[Item]) -> Sequence[Item]:
        items = self._sound(items)
        rows = [item for item in items if isinstance(item, Row)]
        try:
            heard = iter(with_language_scores(self._engine, rows) if rows else ())
        except EngineError as error:
            return self._without(rows, items, error)
        return [next(heard) if isinstance(item, Row) else item for item in items]

    def _decode_batch(self, items: list[Item]) -> Sequence[tuple[int, RowResult] | End]:
        items = self._sound(items)
        rows = [item for item in items if isinstance(item, Row)]
        try:
            decoded = iter(self._decode(rows) if rows else ())
        except EngineError as error:
            return self._without(rows, items, error)
        return [
            (item.chunk.recording, next(decoded)) if isinstance(item, Row) else item
            for item in items
            if not isinstance(item, Flush)
        ]

    def _without(self, rows: Sequence[Row], items: Sequence[Item], error: EngineError) -> list[End]:
        """What is left of a batch that the engine has failed on."""
        for row in rows:
            self._fail(row.chunk.recording, error)
        return [item for item in items if isinstance(item, End)]

    def _fail(self, recording: int, error: EngineError) -> None:
        if not self._isolate:
            raise error
        self._failed[recording] = error

    def _sound(self, items: Sequence[Item]) -> list[Item]:
        """Without rows of recordings that have failed: they would fail the rows beside them."""
        failed = [
            item for item in items if isinstance(item, Row) and item.chunk.recording in self._failed
        ]
        self._decode.skip(failed)
        return [item for item in items if item not in failed] if failed else list(items)
