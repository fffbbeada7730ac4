"""`Transcriber`: a loaded model that transcribes recordings and detects their languages."""

import functools
import sys
from collections.abc import Callable, Generator, Hashable, Iterable
from contextlib import nullcontext
from typing import Literal, NoReturn, overload

from typing_extensions import Self, Unpack

from whisperbatch.apart import on_stop, runs_apart
from whisperbatch.audio.reader import AudioReader, known_duration, open_audio, rewinding
from whisperbatch.boundary import boundary
from whisperbatch.errors import ClosedError, OptionError, WhisperBatchError
from whisperbatch.live import LiveSession, LiveSettings
from whisperbatch.live.session import LiveSessions
from whisperbatch.live.settings import LIVE_PARAMETERS, live_options, split_keywords
from whisperbatch.options import (
    DETECTION_PARAMETERS,
    OPTION_PARAMETERS,
    DetectionKeywords,
    OptionKeywords,
    Options,
    checks,
    for_detection,
    plain,
    resolve,
    with_parameters,
)
from whisperbatch.pipeline_run import PipelineRun, check_many, detect_language
from whisperbatch.progress import ProgressOption, ShowProgress, shown_by, shows_downloads
from whisperbatch.protocols import Engine, EngineTraits
from whisperbatch.scheduling import Activity, ResultStore, Scheduler
from whisperbatch.streams import (
    SegmentStream,
    Transcripts,
    collect,
    segments_and_transcripts,
    transcripts,
)
from whisperbatch.submissions import (
    Places,
    Submission,
    Submissions,
    Submitted,
    SubmittedSource,
)
from whisperbatch.subprocesses import Subprocesses
from whisperbatch.text import brief, description
from whisperbatch.threads import reset_after_fork
from whisperbatch.types import (
    Explained,
    LanguageDetection,
    Segment,
    Source,
    Transcript,
    refuse_unpacking,
)


class Transcriber(Explained):
    """A loaded model, for any number of recordings and from any number of threads.

    `load` returns a Transcriber. It is a context manager; `close()` frees the weights.
    """

    _results: ResultStore | None = None

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._scheduler = Scheduler(engine)
        self._submissions = Submissions(self._places())
        self._live = LiveSessions()
        self._processes = Subprocesses()
        self._closed = False
        reset_after_fork(self)

    def _after_fork(self) -> None:
        """Forget the runs of the parent process. See `threads.Inheritable`."""
        self._scheduler = Scheduler(self._engine, self._results)
        self._submissions = Submissions(self._places())
        self._live = LiveSessions()
        self._processes = Subprocesses()

    def _with_results(self, results: ResultStore) -> "Transcriber":
        """Return a Transcriber of the same engine that does not compute stored results."""
        asr = Transcriber(self._engine)
        asr._results, asr._scheduler = results, Scheduler(self._engine, results)
        return asr

    def _places(self) -> Places:
        engine = self._engine
        return Places.of(engine.workers, EngineTraits.of(engine).default_batch_size(1))

    def __repr__(self) -> str:
        engine, state = type(self._engine).__name__, "closed" if self._closed else "open"
        return description(self, brief(self.model), engine, self.device, state)

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a Transcriber cannot be pickled or copied, because its weights are in the memory of "
            "this process; load the model in each process"
        )

    @property
    def model(self) -> str:
        """The name of the model, as it was given to `load`."""
        return self._engine.name

    @property
    def device(self) -> str:
        """The device that the model runs on: "cpu" or "cuda"."""
        return EngineTraits.of(self._engine).device

    @property
    def is_multilingual(self) -> bool:
        """Whether the model knows other languages than English."""
        return self._engine.is_multilingual

    @property
    def engine(self) -> Engine:
        """The engine that runs the model. `close()` closes the engine, too."""
        return self._engine

    @property
    def activity(self) -> Activity:
        """The rows that wait for the model now, and the rows and calls until now."""
        return self._scheduler.activity

    @property
    def submitted(self) -> Submitted:
        """The submitted recordings that are active, and those that wait."""
        return self._submissions.counts()

    def submitted_beside(self, group: Hashable) -> Submitted:
        """Return the counts of `submitted`, with the wait of a new recording of a group.

        Args:
            group: as in `submit`.

        Returns:
            The counts; `long_wait` is that of this group.
        """
        return self._submissions.counts(group)

    @with_parameters(*OPTION_PARAMETERS)
    def transcribe(
        self,
        source: Source | AudioReader,
        *,
        progress: ProgressOption = False,
        options: Options | None = None,
        **keywords: Unpack[OptionKeywords],
    ) -> Transcript:
        """Transcribe a recording and return its transcript.

        Args:
            source: a path, a URL, "-" for standard input, the bytes of a media file, an open binary
                file or pipe, or samples (a float32 or int16 array, a tensor or another object with
                `__array__`, or an `Audio`). An open reader (see `open_audio`) is closed at the end.
            progress: True shows a bar; a function is called with a `Progress` after each segment,
                by the thread that reads the segments.
            options: all options in one value.
            **keywords: any field of `Options`, which replaces the field of `options`.

        Returns:
            The transcript; it has no segments if the recording has no speech.

        Raises:
            OptionError: an option is unknown or wrong, or has no effect.
            AudioError: the recording cannot be read.
            MissingExtraError: the package that an option needs is not installed.
            EngineError: the engine failed on a batch.
            InternalError: an unexpected exception, which is a bug.
            ClosedError: the Transcriber is closed.
        """
        refuse_unpacking("transcribe", "a Transcript")
        return collect(self.stream(source, progress=progress, options=options, **keywords))

    __call__ = transcribe  # as the pipelines of transformers

    @with_parameters(*OPTION_PARAMETERS)
    @runs_apart
    def stream(
        self,
        source: Source | AudioReader,
        *,
        progress: ProgressOption = False,
        options: Options | None = None,
        **keywords: Unpack[OptionKeywords],
    ) -> SegmentStream:
        """Return a stream of the recording's segments, decoded while the recording is read.

        The options and the recording are checked before `stream` returns.

        Args:
            source: a recording, as in `transcribe`. An open reader is closed with the stream.
            progress: True shows a bar; a function is called with a `Progress` after each segment,
                by the thread that reads the segments.
            options: all options in one value.
            **keywords: any field of `Options`, which replaces the field of `options`.

        Returns:
            An iterator over the segments, each as soon as it is decoded.

        Raises:
            OptionError: an option is unknown or wrong, or has no effect.
            AudioError: the recording cannot be read; raised by the call, or while the stream is
                read.
            MissingExtraError: the package that an option needs is not installed.
            EngineError: raised while the stream is read: the engine failed on a batch.
            InternalError: an unexpected exception, which is a bug.
            ClosedError: the Transcriber is closed.
        """
        resolved, show = resolve(options, **keywords), shown_by(progress)
        reader = open_audio(source, resolved)
        try:
            with boundary(reader.name):
                self._check_open()
                with shows_downloads(show):
                    run = self._begin([lambda: reader], resolved)
                name, total = reader.name, reader.duration
                return SegmentStream(run, name, reader.close, total=total, show=show)
        except BaseException:
            reader.close()
            raise

    @overload
    def transcribe_many(
        self,
        sources: Iterable[Source],
        *,
        on_error: Literal["raise"] = "raise",
        ordered: bool = True,
        progress: ProgressOption = False,
        options: Options | None = None,
        **keywords: Unpack[OptionKeywords],
    ) -> Generator[Transcript, None, None]: ...

    @overload
    def transcribe_many(
        self,
        sources: Iterable[Source],
        *,
        on_error: Literal["yield"],
        ordered: bool = True,
        progress: ProgressOption = False,
        options: Options | None = None,
        **keywords: Unpack[OptionKeywords],
    ) -> Generator[Transcript | WhisperBatchError, None, None]: ...

    @with_parameters(*OPTION_PARAMETERS)
    def transcribe_many(
        self,
        sources: Iterable[Source],
        *,
        on_error: Literal["raise", "yield"] = "raise",
        ordered: bool = True,
        progress: ProgressOption = False,
        options: Options | None = None,
        **keywords: Unpack[OptionKeywords],
    ) -> Generator[Transcript | WhisperBatchError, None, None]:
        """Yield the transcripts of many recordings, which share the calls of the engine.

        Args:
            sources: recordings, each as in `transcribe`, but no open readers. Each source is taken
                from the iterable when it is to be read.
            on_error: "raise" stops at the first recording that fails; "yield" yields its error
                instead of a transcript, and continues.
            ordered: True yields transcripts in the order of the sources; a file may be deleted, and
                an open file closed, when the next source is taken. False yields each transcript as
                soon as it is complete (`Transcript.source` names its recording); sources must not
                share a file, and must stay open until their transcript has been yielded.
            progress: True shows a bar; a function is called with a `Progress` after each segment,
                by the thread that reads the segments.
            options: all options in one value.
            **keywords: any field of `Options`, which replaces the field of `options`.

        Yields:
            The transcript of each recording, or with `on_error="yield"` the error of a recording.

        Raises:
            OptionError: raised by the call itself, before the first transcript is requested: an
                option is unknown or wrong, or has no effect.
            ClosedError: raised by the call itself: the Transcriber is closed.
            AudioError: with `on_error="raise"`, after the transcripts of the earlier recordings: a
                recording cannot be read.
            MissingExtraError: the package that an option needs is not installed.
            EngineError: with `on_error="raise"`: the engine failed on a batch.
            InternalError: with `on_error="raise"`: an unexpected exception, which is a bug.
        """
        check_many(sources, on_error, ordered=ordered)
        show = shown_by(progress)
        resolved = resolve(options, **keywords)
        run = self._run_many(sources, resolved, show, ordered=ordered)
        return Transcripts(transcripts(run, on_error, show))

    @with_parameters(*OPTION_PARAMETERS)
    def stream_many(
        self,
        sources: Iterable[Source],
        *,
        ordered: bool = True,
        progress: ProgressOption = False,
        options: Options | None = None,
        **keywords: Unpack[OptionKeywords],
    ) -> Generator[tuple[int, Segment | Transcript | WhisperBatchError], None, None]:
        """Yield the segments of many recordings as they are decoded, then each transcript.

        Args:
            sources: the recordings, as in `transcribe_many`.
            ordered: whether the items keep the order of the recordings, as in `transcribe_many`.
            progress: True shows a bar; a function is called with a `Progress` after each segment,
                by the thread that reads the segments.
            options: all options in one value.
            **keywords: any field of `Options`, which replaces the field of `options`.

        Yields:
            (recording, item): the number of the recording among the sources, from 0, and a segment.
            The last item of a recording is its transcript, or the error that ended the recording.
            With `ordered=False` the items of several recordings are mixed.

        Raises:
            OptionError: raised by the call itself, before the first item is requested: an option is
                unknown or wrong, or has no effect.
            ClosedError: raised by the call itself: the Transcriber is closed.
            MissingExtraError: the package that an option needs is not installed.
        """
        check_many(sources, "yield", ordered=ordered)
        resolved, show = resolve(options, **keywords), shown_by(progress)
        run = self._run_many(sources, resolved, show, ordered=ordered)
        return segments_and_transcripts(iter(run), show)

    @with_parameters(*OPTION_PARAMETERS)
    @runs_apart
    def submit(
        self,
        source: Source,
        *,
        weight: float = 1.0,
        group: Hashable = None,
        length: float | None = None,
        options: Options | None = None,
        **keywords: Unpack[OptionKeywords],
    ) -> Submission:
        """Transcribe a recording in the background, together with other recordings.

        Recordings can be submitted at any time, from any thread or event loop. Each gets its share
        of the engine. The number of active recordings follows the engine's `workers` and batch
        size; the others wait. Recordings of more than two minutes take only `workers` + 1 of the
        places, so that a short recording does not wait for the end of long ones. A recording that
        is longer than its header states may have to wait again; it is then read again from its
        start.

        Args:
            source: a recording, as in `transcribe`, but no open reader. The recording is opened
                when it becomes active; it must stay as it is until it has ended.
            weight: share of the engine, from 0.01 to 100. A recording with weight 2 gets twice the
                share of a recording with weight 1.
            group: the recordings of a group, for example of one client, take places in their order.
                Groups take places in turn, in the ratio of their weights.
            length: length of the recording in seconds, if you know it. By default, the header of a
                file states it. A recording of unknown length, such as a pipe, counts as long.
            options: all options in one value.
            **keywords: any field of `Options`, which replaces the field of `options`.

        Returns:
            A handle: iterate over it for the segments, call `result()` or `await` it for the
            transcript, and call `cancel()` to stop the work.

        Raises:
            OptionError: an option, `weight`, `group` or `length` is unknown or wrong, or has no
                effect.
            ClosedError: the Transcriber is closed.
            MissingExtraError: the package that an option needs is not installed.
        """
        _check_share(weight, group)
        if length is not None:
            checks.number("length", plain(length), minimum=0.0, maximum=sys.float_info.max)
        resolved = resolve(options, **keywords)
        self._check_open()
        opener = functools.partial(open_audio, source, resolved)
        begin = functools.partial(self._begin, [opener], resolved, weight=weight)
        known = submitted_source(source, resolved, length, begin)
        return self._submissions.add(begin(), known, group, weight)

    @with_parameters(*LIVE_PARAMETERS)
    def live(
        self,
        source: Source | AudioReader | None = None,
        *,
        weight: float = 1.0,
        group: Hashable = None,
        options: Options | None = None,
        **keywords: object,
    ) -> LiveSession:
        """Open a live session: audio is fed while people speak, and text comes back.

        Args:
            source: a recording or a live address, as in `transcribe`, that the session reads until
                its end; the session is then closed. None: the caller calls `feed`.
            weight: share of the engine, from 0.01 to 100, relative to the other live sessions.
            group: the sessions of a group, for example of one client, divide one share. Groups have
                shares in the ratio of their weights.
            options: all options in one value.
            **keywords: any field of `LiveSettings`, and any field of `Options` that has an effect
                in a live session.

        Returns:
            The session. Iterate it to get its events.

        Raises:
            OptionError: an option, `weight` or `group` is unknown or wrong, or has no effect in a
                live session.
            AudioError: the source cannot be read; raised by the call, or where the events are read.
            ModelError: no installed package contains the weights of the voice activity detector.
            ClosedError: the Transcriber is closed.
        """
        own, others = split_keywords(keywords)
        settings, resolved = LiveSettings(**own), live_options(options, **others)
        _check_share(weight, group)
        self._check_open()
        reader = None if source is None else open_audio(source, resolved)
        try:
            return self._live.open(
                self._scheduler, settings, resolved, reader, group=group, weight=weight
            )
        except BaseException:
            if reader:
                reader.close()
            raise

    @with_parameters(*DETECTION_PARAMETERS)
    @runs_apart
    def detect_language(
        self,
        source: Source | AudioReader,
        *,
        read_through: bool = True,
        **keywords: Unpack[DetectionKeywords],
    ) -> LanguageDetection:
        """Detect the language of a recording from windows of speech spread over the recording.

        Only the windows of a file are read; a pipe is read to its end. If the windows have no
        speech, the whole recording is read, and the model also checks sound that the VAD rejects
        (`second_opinion`). With an English-only model the language is "en", and `reason` gives this
        cause. Without speech the language is None.

        Args:
            source: a recording, as in `transcribe`. An open reader stays open.
            read_through: whether the whole recording may be read if the windows are not enough.
                With False, an open reader keeps its position and can be transcribed afterwards; if
                the language needs the whole recording, it is None, and `reason` gives this cause.
            **keywords: the fields of `Options` that have an effect on language detection.

        Returns:
            The language with its probability, and the language windows that were used.

        Raises:
            OptionError: an option is unknown or wrong, or has no effect on language detection.
            AudioError: the recording cannot be read.
            MissingExtraError: the package that an option needs is not installed.
            EngineError: the engine failed on a batch.
            InternalError: an unexpected exception, which is a bug.
            ClosedError: the Transcriber is closed.
        """
        checks.boolean("read_through", plain(read_through))
        options = for_detection(**keywords)
        reader = open_audio(source, options)
        on_stop(reader.close)
        with nullcontext() if reader is source else reader, boundary(reader.name):
            self._check_open()
            return detect_language(self._scheduler, reader, options, read_through=read_through)

    @runs_apart
    def close(self) -> None:
        """Free the weights. Safe to call twice.

        Streams and live sessions that are still open raise ClosedError, and submitted recordings
        are cancelled.
        """
        self._closed = True
        self._submissions.close()
        self._live.close()
        self._processes.close()
        self._engine.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @runs_apart
    def _run_many(
        self,
        sources: Iterable[Source],
        options: Options,
        show: ShowProgress | None,
        *,
        ordered: bool,
    ) -> PipelineRun:
        self._check_open()
        openers = (functools.partial(open_audio, source, options) for source in sources)
        with shows_downloads(show):
            return self._begin(openers, options, ahead=True, ordered=ordered)

    @property
    def _begin(self) -> Callable[..., PipelineRun]:
        """Returns a run from its openers and options."""
        return functools.partial(PipelineRun, self._scheduler, processes=self._processes)

    def _check_open(self) -> None:
        if self._closed:
            raise ClosedError("this Transcriber is closed; load the model again")


def _check_share(weight: float, group: Hashable) -> None:
    """Check a share of the engine.

    Raises:
        OptionError: the weight is no number from 0.01 to 100, or the group is not hashable.
    """
    checks.number("weight", plain(weight), minimum=0.01, maximum=100.0)
    try:
        hash(group)
    except TypeError as error:
        raise OptionError(f"group must be hashable, such as a str: {error}") from error


def submitted_source(
    source: Source, options: Options, length: float | None, begin: Callable[[], PipelineRun]
) -> SubmittedSource:
    """Return what is known about a source.

    Args:
        source: as given.
        options: of the transcription.
        length: in seconds, if the caller knows it.
        begin: returns a run that reads the source.
    """
    rewind = rewinding(source)

    def begin_again() -> PipelineRun:
        if rewind:
            rewind()
        return begin()

    def measure() -> float | None:
        found = known_duration(source, options) if length is None else length
        if found is None or options.max_duration is None:
            return found
        return min(found, options.max_duration)

    return SubmittedSource(measure, begin_again if rewind else None)
