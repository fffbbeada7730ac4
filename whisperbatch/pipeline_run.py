"""All stages, connected in order.

    stage                                                       thread
    source -> open_audio                                        the thread of the run
           -> sections -> Vad                                   the readers of the recording
           -> SecondOpinion (uses the engine) -> chunks         the same
           -> rows (features)                                   a pool of the recording
           -> language scores, of rows that need them           a pool; the engine is shared
           -> rows with their language                          a thread of the recording
           -> decode, audit, retry: one thread for each row     a pool; the engine is shared
           -> segments -> speakers                              the thread of the run

Every arrow is a generator, and every buffer of audio is bounded: only texts, turns and omissions
grow with the recording.
A thread that needs the engine waits until a call of the engine has computed its rows
(`scheduling`). Rows of all threads and recordings share these calls.

A run of the pipeline over one or many recordings:

    recordings   0  [ s s s s End ]            each recording is read by its own threads; another
                 1  [ s s End ]                recording begins while the engine could decode more
                 2  [ s s s ...                audio
    results      0s 0s 0s 0s 0End 1s 1s ...    a thread of the run; in this order with `ordered`
"""

import logging
from collections.abc import Callable, Generator, Iterable
from contextlib import AbstractContextManager, ExitStack, closing
from functools import partial
from itertools import takewhile
from typing import Final, TypeVar

from whisperbatch.apart import Apart
from whisperbatch.audio.reader import AudioReader
from whisperbatch.audio.sources import check_several
from whisperbatch.boundary import as_error
from whisperbatch.decoding.chunk_decoder import ChunkDecoder
from whisperbatch.decoding.engine_options import options_for
from whisperbatch.diarization.stage import Speakers, SpeakerStage
from whisperbatch.errors import ClosedError, OptionError, WhisperBatchError
from whisperbatch.features import feature_extractor
from whisperbatch.language.code_switching import CodeSwitching
from whisperbatch.language.detection import (
    NO_SPEECH,
    UNREADABLE,
    VOTERS,
    decide_from_windows,
    decide_languages,
    detection,
    english_only,
    find_windows,
    score_chunks,
    spread_windows,
    window_options,
    with_language_scores,
)
from whisperbatch.options import Options, checks, plain
from whisperbatch.prefetch import interleave, map_ordered
from whisperbatch.protocols import EngineTraits
from whisperbatch.recording import Decision, End, Item, RecordingState, Row
from whisperbatch.runtimes.machine import available_cpus
from whisperbatch.scheduling import READING, ReadingLimit, RunShare, Scheduler, SharedModel
from whisperbatch.second_opinion import second_opinions
from whisperbatch.sections import Readers, chunk_recording
from whisperbatch.segmentation import Segmentation
from whisperbatch.segmentation.timed_text import RowResult
from whisperbatch.subprocesses import Subprocesses, check_interpreter
from whisperbatch.types import (
    WHOLE,
    WINDOW,
    Chunk,
    LanguageDetection,
    Segment,
    Span,
)
from whisperbatch.vad import open_vad
from whisperbatch.vad.in_subprocess import SubprocessVad

log = logging.getLogger(__name__)

Opener = Callable[[], AudioReader]
Result = tuple[RecordingState, Segment] | End

FEATURE_WORKERS: Final = min(available_cpus(), 4)
# 30 s chunks that wait for their text, relative to the rows of full calls of all workers
BATCHES_AHEAD: Final = 2
FIRST_AHEAD: Final = 3  # 30 s chunks that are admitted before the first is decoded, on a CPU
MIN_SCORED: Final = 2  # rows of a recording whose languages are computed at a time
# Rows of a recording that are decoded before their turn, in batches. Long pauses make short rows of
# several window lengths; with this many rows, one of the lengths usually fills a batch.
ROWS_AHEAD: Final = 6
SEGMENTS_AHEAD: Final = 256  # of each recording while an earlier recording is not complete
OPENING: Final = 1.0  # seconds; a pipe without data does not delay the recordings after it
MIN_RECORDINGS: Final = 4  # recordings read at a time

T = TypeVar("T")


def detect_language(
    scheduler: Scheduler, reader: AudioReader, options: Options, *, read_through: bool
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
    model = scheduler.engine
    if model.is_multilingual or "en" not in (options.languages or ("en",)):
        options = options_for(model, options)
    if not model.is_multilingual:
        log.info("%s: en, because model %s is English-only", reader.name, model.name)
        return english_only(model.name)
    run = RunShare()
    with scheduler.running(run):
        shared = SharedModel(scheduler, run, options)
        return _detect_language(shared, reader, options, read_through=read_through)


def _detect_language(
    model: SharedModel, reader: AudioReader, options: Options, *, read_through: bool
) -> LanguageDetection:
    vad = open_vad(options)
    extractor = feature_extractor(options.features, model.n_mels)
    with reader.random_access() as recording:
        windows = find_windows(recording, vad, options, lambda: reader.closed) if recording else []
    if not windows:
        reason = "the windows have no speech" if recording else "it cannot be read out of order"
        log.info("%s: %s, so the language needs the whole recording", reader.name, reason)
        if not read_through:
            return UNREADABLE
        opinion = second_opinions(model, vad, extractor, options)(
            RecordingState(0), lambda: reader.closed
        )
        chunk_stream = chunk_recording(
            reader.blocks(), window_options(options), vad, second_opinion=opinion
        )
        windows = spread_windows(chunk_stream, options)
    if not windows:
        return NO_SPEECH
    return detection(windows, score_chunks(model, extractor, windows), options)


class Pipeline:
    """The stages of a run. Yields the results of each of its recordings. Thread-safe.

    Args:
        scheduler: shares the engine with other runs.
        options: as the user gave them.
        weight: share of the engine, relative to the weights of other runs.
        processes: for `reader_processes`, kept for later runs; None starts those of this run.

    Raises:
        OptionError: the model or the program cannot honour an option.
        AudioError: the recording of a known speaker cannot be used.

    Attributes:
        rows_at_a_time: number of rows of full calls of all workers.
        given_language: the language if it is given; None if it is to be detected.
        limit: of the audio that is read, but not decoded.
        stopped: whether `stop` was called.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        options: Options,
        weight: float = 1.0,
        processes: Subprocesses | None = None,
    ) -> None:
        options = options_for(scheduler.engine, options)
        scheduler.engine.check(options.search)
        self.rows_at_a_time = options.chosen_batch_size * scheduler.engine.workers
        self.given_language = Decision(options.language, 1.0) if options.language else None
        ahead = BATCHES_AHEAD * self.rows_at_a_time
        # on a GPU, the first calls would be small: they take as long as full calls
        on_gpu = EngineTraits.of(scheduler.engine).on_gpu
        first = None if on_gpu else FIRST_AHEAD * WINDOW
        self.limit = ReadingLimit(ahead * WINDOW, first, lambda: scheduler.runs)
        self.stopped = False
        readers = options.chosen_readers
        self._readers = Readers(lambda: readers // max(scheduler.runs, 1))
        self._speaker_stage = SpeakerStage(options) if options.diarize else None
        self._options = options
        self._scheduler = scheduler
        self._share = RunShare(weight, expects_rows=self.limit.expects_chunks)
        self._model = SharedModel(scheduler, self._share, options)
        self._processes = _reader_processes(options, processes)
        self._vad = self._section_vad = open_vad(options)
        if self._processes and options.vad:
            self._section_vad = SubprocessVad(self._vad, self._processes, readers + 1)
        self._extractor = feature_extractor(options.features, self._model.n_mels)
        self._code_switching = CodeSwitching(self._model, self._extractor, options)
        self._decoder = ChunkDecoder(self._model, self._extractor, options)
        self._segmentation = Segmentation(options)
        reading_model = SharedModel(scheduler, self._share, options, READING)
        self._second_opinion = second_opinions(reading_model, self._vad, self._extractor, options)

    def running(self) -> AbstractContextManager[None]:
        """Run the threads of the engine until the end of a `with` block."""
        return self._scheduler.running(self._share)

    def stop(self) -> None:
        """End all waits for the engine and for earlier audio. Thread-safe."""
        self.stopped = True
        self.limit.stop()
        self._scheduler.abandon(self._share)
        if self._speaker_stage:
            self._speaker_stage.stop()

    def __call__(self, recording: RecordingState, opener: Opener) -> Generator[Result, None, None]:
        """Yield the segments of a recording in order, and its end.

        The state of the recording has the language, the counts and the omissions as of the segment.
        """
        failure: WhisperBatchError | None = None
        with ExitStack() as stack:
            stack.callback(self._finish, recording)
            try:
                self.limit.begin(recording.number)
                reader = stack.enter_context(self._open(recording, opener))
                stage = self._speaker_stage
                speakers = stack.enter_context(stage.recording(reader.name)) if stage else None
                decoded = stack.enter_context(closing(self._decoded(recording, reader, speakers)))
                segments = self._segmentation(recording, decoded)
                for item in speakers(segments) if speakers else segments:
                    yield item if isinstance(item, End) else (recording, item)
            except ClosedError:  # the run has stopped, or the engine is closed
                raise
            except Exception as error:  # noqa: BLE001 - ends this recording only
                failure = as_error(error, recording.source)
        if failure:
            yield End(recording, failure)

    def _finish(self, recording: RecordingState) -> None:
        recording.was_read = True
        self.limit.end(recording.number)

    def _open(self, recording: RecordingState, opener: Opener) -> AudioReader:
        try:
            reader = recording.reader = opener()
        finally:
            recording.opened = True
            self.limit.notify()
        recording.source = reader.name
        recording.notices = reader.notices
        if self.stopped:  # by another thread, during the call of `opener`
            reader.close()
        return reader

    def _decoded(
        self, recording: RecordingState, reader: AudioReader, speakers: Speakers | None
    ) -> Generator[RowResult | End, None, None]:
        """Yield the text of each row, decoded ahead of the consumer, and the end."""
        rows_ahead = ROWS_AHEAD * self.rows_at_a_time
        with (
            closing(self._chunks(recording, reader, speakers)) as chunks,
            closing(self._rows(chunks, recording)) as rows,
            closing(self._with_languages(rows)) as items,
            closing(
                map_ordered(self._decode, self._admit(items), workers=rows_ahead, depth=rows_ahead)
            ) as results,
        ):
            yield from results

    def _chunks(
        self, recording: RecordingState, reader: AudioReader, speakers: Speakers | None
    ) -> Generator[Chunk | End, None, None]:
        """Read a recording, and yield its chunks and its end."""
        failure: WhisperBatchError | None = None
        with closing(reader):
            try:
                self._decide_from_windows(recording, reader)
                self._check_span(recording, reader.span)
                if self._processes:
                    reader.decode_in(self._processes, self._options.chosen_readers)
                opinion = self._second_opinion(recording, lambda: self.stopped or reader.closed)
                blocks = speakers.listen(reader) if speakers else reader.blocks()
                chunks: Iterable[Chunk] = chunk_recording(
                    blocks,
                    self._options,
                    self._section_vad,
                    recording.number,
                    opinion,
                    span=reader.span,
                    position=reader.start,
                    readers=self._readers,
                    on_section=recording.add_sound,
                )
                for chunk in speakers.by_channel(chunks) if speakers else chunks:
                    self.limit.has_begun(recording.number)
                    yield chunk
            except Exception as error:  # noqa: BLE001 - after the text of the earlier chunks
                failure = as_error(error, reader.name)
        if speakers:  # a failure before the first block would leave the diarizer waiting
            speakers.end()
        recording.was_read = True
        self.limit.has_begun(recording.number)
        yield End(recording, failure)

    def _check_span(self, recording: RecordingState, span: Span) -> None:
        """Refuse a span whose result would not be that of the whole recording."""
        if span == WHOLE:
            return
        if self._options.diarize:
            raise OptionError(
                "`diarize`: the speakers of a span need the whole recording; leave out"
            )
        if not (recording.language.final or self._options.multilingual):
            raise OptionError(
                "`language`: the windows of the recording do not decide its language, and the "
                "first chunks of a span cannot; give `language`, for example from detect_language()"
            )

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
                random_access, self._vad, self._options, lambda: self.stopped or reader.closed
            )
        scores = score_chunks(self._model, self._extractor, windows)
        decide_from_windows(recording, scores, self._options)

    def _rows(
        self, chunks: Iterable[Chunk | End], recording: RecordingState
    ) -> Generator[Item, None, None]:
        """Yield the chunks as rows, with their features."""

        def row(item: Chunk | End) -> Item:
            return item if isinstance(item, End) else Row.of(item, self._extractor, recording)

        return map_ordered(row, chunks, workers=FEATURE_WORKERS, depth=FEATURE_WORKERS)

    def _with_languages(self, items: Iterable[Item]) -> Generator[Item, None, None]:
        """Yield the items, each row with its language."""
        options = self._options
        if self.given_language:
            yield from decide_languages(items, options)
            return
        score = partial(with_language_scores, self._model, options=options)
        size = max(self.rows_at_a_time // max(self._scheduler.runs, 1), MIN_SCORED)
        with closing(map_ordered(score, items, workers=size, depth=size)) as scored:
            if options.multilingual:
                yield from self._code_switching(scored)
            else:
                yield from decide_languages(scored, options)

    def _admit(self, items: Iterable[Item]) -> Generator[Item, None, None]:
        """Yield the items; each row waits until the run has decoded enough of earlier audio."""
        for item in items:
            if isinstance(item, Row) and not self.limit.acquire(
                item.recording.number, item.chunk.length
            ):
                return
            if isinstance(item, End):
                self.limit.has_read(item.recording.number)
            yield item

    def _decode(self, item: Item) -> RowResult | End:
        if isinstance(item, End):
            return item
        try:
            with self._model.at((item.recording.number, item.chunk.start)):
                return self._decoder(item)
        finally:
            self.limit.release(item.recording.number, item.chunk.length)


def _reader_processes(options: Options, kept: Subprocesses | None) -> Subprocesses | None:
    """Return the processes of a run; None without `reader_processes`.

    Raises:
        OptionError: this program cannot start an interpreter.
    """
    if not options.reader_processes:
        return None
    check_interpreter("reader_processes")
    return kept or Subprocesses()


class PipelineRun:
    """One pass of the pipeline over one or many recordings. Iterate it once.

    Args:
        scheduler: shares the engine with other runs.
        openers: functions that open the recordings; each is taken when its recording is to be read.
        options: as the user gave them.
        ahead: whether several recordings are read at a time.
        ordered: whether the results keep the order of the recordings.
        weight: share of the engine, relative to the weights of other runs.
        processes: for `reader_processes`, kept for later runs; None starts those of this run.

    Raises:
        OptionError: the model or the program cannot honour an option.

    Yields:
        (recording, Segment), in order within a recording, and an `End` after the last segment of
        each recording. If a recording fails, its `End` has the error; the other recordings
        continue. The state of the recording has the language, the counts and the omissions as of
        this segment.

    Attributes:
        given_language: the language if it is given; None if it is to be detected.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        openers: Iterable[Opener],
        options: Options,
        *,
        ahead: bool = False,
        ordered: bool = True,
        weight: float = 1.0,
        processes: Subprocesses | None = None,
    ) -> None:
        self._pipeline = Pipeline(scheduler, options, weight, processes)
        self.given_language = self._pipeline.given_language
        self._openers = openers
        self._ahead, self._ordered = ahead, ordered
        self._at_once = max(MIN_RECORDINGS, BATCHES_AHEAD * self._pipeline.rows_at_a_time)
        self._recordings: dict[int, RecordingState] = {}  # that began and have not ended

    def __iter__(self) -> Apart[Result]:
        return Apart(self.results, self.stop)

    def results(self) -> Generator[Result, None, None]:
        """Iterate in this thread, which must be one of ours."""
        with closing(self._results()) as results, self._pipeline.running():
            try:
                for item in results:
                    if isinstance(item, End):
                        item.recording.published = item.recording.language.decision
                        del self._recordings[item.recording.number]
                    yield item
            finally:
                self.stop()

    def stop(self) -> None:
        """Stop reading and decoding, so that a thread that waits for this run returns soon.

        Thread-safe.
        """
        self._pipeline.stop()
        for recording in list(self._recordings.values()):
            if recording.reader:
                recording.reader.close()

    def _results(self) -> Generator[Result, None, None]:
        if not self._ahead:
            return in_sequence(self._begin())
        limit = self._pipeline.limit
        return interleave(
            self._begin(),
            at_once=self._at_once,
            depth=SEGMENTS_AHEAD,
            ordered=self._ordered,
            may_start=limit.may_begin,
            changed=limit.changed,
        )

    def _begin(self) -> Generator[Generator[Result, None, None], None, None]:
        """Yield the results of each recording.

        With `ordered`, a source is taken when the source before it is open, or takes longer than
        `OPENING`, so that the caller may then delete a file. File objects of the caller are read
        one after the other.
        """
        openers = takewhile(lambda _: not self._pipeline.stopped, self._openers)
        for number, opener in enumerate(openers):
            recording = RecordingState.beginning(number, self.given_language)
            self._recordings[number] = recording
            yield self._pipeline(recording, opener)
            if self._ordered:
                self._pipeline.limit.wait_while(recording.is_opening, OPENING)
                self._pipeline.limit.wait_while(recording.is_borrowed)


def in_sequence(sources: Iterable[Iterable[T]]) -> Generator[T, None, None]:
    """Yield the items of each source, and close the source before the next is taken."""
    for source in sources:
        yield from source


def check_many(sources: object, on_error: object, *, ordered: object) -> None:
    """Check the arguments of `transcribe_many` before any work.

    Raises:
        OptionError: `on_error` is unknown, `ordered` is not a bool, or `sources` is a single
            recording or no iterable.
    """
    checks.choice("on_error", plain(on_error), ("raise", "yield"))
    checks.boolean("ordered", plain(ordered))
    check_several(sources)
