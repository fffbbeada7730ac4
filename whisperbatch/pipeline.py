"""All stages, connected in order.

    stage                                                       thread
    sources -> open_audio -> clips -> Vad                       one for each recording being read
            -> SecondOpinion (calls the engine) -> chunks       the same
            -> rows (features)                                  a pool
            -> language scores, of rows that need them          the engine's workers
            -> rows with their language                         one thread, in order
            -> batches -> DecodingStage: decode, retry          the engine's workers
            -> segments, sorted by recording                    the caller's

Every arrow is a generator and every buffer is bounded: memory does not grow with the recording.
Rows and `End` refer to the state of their recording (`recording.RecordingState`).
"""

import logging
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from itertools import chain, takewhile
from typing import Final, TypeVar

from whisperbatch.audio.clips import clips, min_clip
from whisperbatch.audio.reader import AudioReader
from whisperbatch.batching import batches, in_order, in_sequence, isolated
from whisperbatch.boundary import as_error
from whisperbatch.chunking.merge import chunks
from whisperbatch.decoding.batch_decoder import BatchDecoder
from whisperbatch.decoding.engine_options import options_for
from whisperbatch.errors import ClosedError, WhisperBatchError
from whisperbatch.features import feature_extractor
from whisperbatch.language.code_switching import CodeSwitching
from whisperbatch.language.decisions import VOTERS, decide_from_windows, needs_scores
from whisperbatch.language.detect import NO_SPEECH, UNREADABLE, detection, english_only
from whisperbatch.language.stage import decide_languages, scoring_batches, with_language_scores
from whisperbatch.language.windows import (
    find_windows,
    score_chunks,
    spread_windows,
    window_options,
)
from whisperbatch.machine import available_cpus
from whisperbatch.options import Options
from whisperbatch.prefetch import interleave, map_ordered
from whisperbatch.protocols import Engine, Vad
from whisperbatch.recording import Decision, RecordingState
from whisperbatch.rows import FLUSH, End, Flush, Item, Row, without_failed
from whisperbatch.scheduling import DecodingStage
from whisperbatch.second_opinion import SecondOpinion, second_opinions
from whisperbatch.segmentation import Segmentation
from whisperbatch.types import Chunk, LanguageDetection, Samples, Segment, to_seconds
from whisperbatch.vad import open_vad

log = logging.getLogger(__name__)

T = TypeVar("T")
Opener = Callable[[], AudioReader]

FEATURE_WORKERS: Final = min(available_cpus(), 4)
READERS: Final = 4  # recordings read at a time, if recordings need not keep their order
READ_AHEAD: Final = 2  # chunks read ahead from each recording


def chunk_recording(
    blocks: Iterable[Samples],
    options: Options,
    vad: Vad | None = None,
    recording: int = 0,
    second_opinion: SecondOpinion | None = None,
) -> Iterator[Chunk]:
    """Yield the chunks of a recording, numbered from 0 across all ranges of `clip_timestamps`.

    Args:
        blocks: all samples of the recording.
        options: ranges, speech spans and chunks.
        vad: the result of `open_vad` for these options, if it is open already.
        recording: number of the recording.
        second_opinion: finds speech in the audio that the VAD rejects.
    """
    vad = vad or open_vad(options)
    index = 0
    for offset, clip in clips(blocks, options.clip_timestamps, min_clip(options, vad.hop)):
        frames = second_opinion(vad(clip), offset) if second_opinion else vad(clip)
        for chunk in chunks(
            frames, options, vad.hop, recording=recording, index=index, offset=offset
        ):
            yield chunk
            index += 1


def detect_language(
    engine: Engine, reader: AudioReader, options: Options, *, read_through: bool
) -> LanguageDetection:
    """Detect the language of an open recording.

    Language windows spread over the recording are read and scored. If the recording has no random
    access, or the windows have no speech, the whole recording is read, with the second opinion on
    audio that the VAD rejects, provided that `read_through` is true. Otherwise the reader keeps its
    position, and the language is None.

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
    extractor = feature_extractor(options.features, engine.n_mels)
    with reader.random_access() as recording:
        windows = find_windows(recording, vad, options, lambda: reader.closed) if recording else []
    if not windows:
        reason = "the windows have no speech" if recording else "it cannot be read out of order"
        log.info("%s: %s, so the language needs the whole recording", reader.name, reason)
        if not read_through:
            return UNREADABLE
        opinion = second_opinions(engine, vad, extractor, options)(
            RecordingState(0), lambda: reader.closed
        )
        chunk_stream = chunk_recording(
            reader.blocks(), window_options(options), vad, second_opinion=opinion
        )
        windows = spread_windows(chunk_stream, options)
    if not windows:
        return NO_SPEECH
    return detection(windows, score_chunks(engine, extractor, windows), options)


class PipelineRun:
    """One pass of the pipeline over one or many recordings. Iterate it once.

    Args:
        engine: runs the model.
        openers: functions that open the recordings, each called when its recording is to be read.
        options: as the user gave them.
        isolate: whether a failure ends only its recording, and a failure of the engine only the
            recordings of the failed batch. Otherwise the failure ends the run.
        readers: number of recordings read at a time.
        ordered: whether the results keep the order of the recordings. A slow recording then delays
            the results of later recordings.

    Raises:
        OptionError: the model cannot honour an option.

    Yields:
        (recording, Segment), in order within a recording, and an `End` after the last segment of
        each recording. If a recording cannot be read, its `End` has the error; the other
        recordings continue. The state of the recording has the language, the counts and the
        omissions as of this segment.

    Attributes:
        given_language: the language if it is given; None if it is to be detected.
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
        engine.check(options.search)
        self._engine = engine
        self._openers = openers
        self._options = options
        self._isolate = isolate
        self._max_readers = readers
        self._ordered = ordered
        self.given_language = Decision(options.language, 1.0) if options.language else None
        self._stopped = False
        self._recordings: dict[int, RecordingState] = {}  # that began and have not ended
        self._vad = open_vad(options)
        self._extractor = feature_extractor(options.features, engine.n_mels)
        self._code_switching = CodeSwitching(engine, self._extractor, options, self._fail)
        # A small first batch gives the first segments soon. Without a given language it is twice as
        # large: the rows that vote for the language are encoded anyway.
        self._first_batch = max(options.batch_size // (8 if options.language else 4), 1)
        self._decode = DecodingStage(
            BatchDecoder(engine, self._extractor, options),
            self._isolated,
            workers=engine.workers,
            batch_size=options.batch_size,
            first=self._first_batch,
        )
        self._segmentation = Segmentation(options, self._fail)
        self._second_opinion = second_opinions(engine, self._vad, self._extractor, options)

    def __iter__(self) -> Generator[tuple[RecordingState, Segment] | End, None, None]:
        with closing(self._decode(self._batches())) as results:
            for item in self._segmentation(in_order(results) if self._ordered else results):
                if not isinstance(item, End):
                    yield item
                    continue
                recording = item.recording
                recording.published = recording.language.decision
                del self._recordings[recording.number]
                yield replace(item, error=item.error or recording.error)

    def stop(self) -> None:
        """Stop reading, so that a thread that waits for this run returns soon. Thread-safe."""
        self._stopped = True
        for recording in list(self._recordings.values()):
            if reader := recording.reader:
                reader.close()

    def _chunks(self) -> Generator[Chunk | End | Flush, None, None]:
        recordings = (
            self._recording(number, opener)
            for number, opener in takewhile(lambda _: not self._stopped, enumerate(self._openers))
        )
        if self._max_readers == 1:
            return in_sequence(recordings)
        return interleave(recordings, at_once=self._max_readers, depth=READ_AHEAD, idle=FLUSH)

    def _recording(self, number: int, opener: Opener) -> Generator[Chunk | End, None, None]:
        recording = RecordingState.beginning(number, self.given_language)
        self._recordings[number] = recording
        try:
            reader = recording.reader = opener()
            if self._stopped:  # by another thread, during the call of `opener`
                reader.close()
        except Exception as error:  # noqa: BLE001 - ends this recording only
            refusal = as_error(error, None)
            yield End(recording, refusal.source or "", 0.0, error=refusal)
            return
        recording.source = reader.name
        failure: WhisperBatchError | None = None
        with closing(reader):
            try:
                self._decide_from_windows(recording, reader)
                opinion = self._second_opinion(recording, lambda: self._stopped or reader.closed)
                yield from chunk_recording(
                    reader.blocks(), self._options, self._vad, number, opinion
                )
            except Exception as error:  # noqa: BLE001 - ends this recording only
                failure = as_error(error, reader.name)
            recording.reader = None
            checked, recovered = to_seconds(recording.checked), to_seconds(recording.recovered)
            duration = to_seconds(reader.position)
            yield End(recording, reader.name, duration, failure, checked, recovered)

    def _decide_from_windows(self, recording: RecordingState, reader: AudioReader) -> None:
        """Decide the recording's language from windows spread over it, if it has random access."""
        if self.given_language or self._options.multilingual:
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
        decide_from_windows(recording, scores, self._options)

    def _rows(self) -> Generator[Item, None, None]:
        """Yield the chunks as rows, with their features."""
        workers = FEATURE_WORKERS
        with closing(
            map_ordered(self._extract_features, self._chunks(), workers=workers, depth=workers)
        ) as items:
            yield from (item for item in items if item is not None)

    def _extract_features(self, item: Chunk | End | Flush) -> Item | None:
        """Return the row of a chunk; None if its recording has failed."""
        if not isinstance(item, Chunk):
            return item
        recording = self._recordings[item.recording]
        if recording.error:
            return None
        try:
            return Row.of(item, self._extractor, recording)
        except Exception as error:  # noqa: BLE001 - ends this recording only
            self._fail(recording, error)
            return None

    def _batches(self) -> Generator[list[Item], None, None]:
        first = self._first_batch
        with closing(self._rows()) as rows, closing(self._with_languages(rows, first)) as items:
            yield from batches(items, self._options.batch_size, first)

    def _with_languages(self, items: Iterable[Item], first: int) -> Generator[Item, None, None]:
        """Yield the items, each row with its language."""
        options, workers = self._options, self._engine.workers
        if self.given_language:
            yield from decide_languages(([item] for item in items), options, self._fail)
            return
        to_score = scoring_batches(items, options, first)
        with closing(
            map_ordered(self._score_batch, to_score, workers=workers, depth=workers)
        ) as scored:
            if options.multilingual:
                yield from self._code_switching(chain.from_iterable(scored))
            else:
                yield from decide_languages(scored, options, self._fail)

    def _score_batch(self, items: list[Item]) -> list[Item]:
        items = without_failed(items)
        scored = self._isolated(
            lambda rows: with_language_scores(self._engine, rows, self._options),
            [item for item in items if isinstance(item, Row) and needs_scores(item, self._options)],
        )
        items = [scored.get(item, item) if isinstance(item, Row) else item for item in items]
        return without_failed(items)

    def _isolated(
        self, function: Callable[[list[Row]], Sequence[T]], rows: list[Row]
    ) -> dict[Row, T]:
        # the context of a row is lost when its batch fails
        lost_context = self._options.condition_on_previous_text
        return isolated(function, rows, self._fail, together=lost_context)

    def _fail(self, recording: RecordingState, error: Exception) -> None:
        """End a recording with an error; raise the error if a failure ends the run."""
        if isinstance(error, ClosedError):
            raise error
        with recording.changed:  # several workers may fail at the same time
            if recording.error is None:
                failure = as_error(error, recording.source)
                if not self._isolate:
                    raise failure
                recording.fail(failure)
