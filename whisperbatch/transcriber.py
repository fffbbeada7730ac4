"""A loaded model at work: one recording, many recordings, their languages."""

import functools
from collections.abc import Generator, Iterable
from contextlib import ExitStack
from os import PathLike
from types import TracebackType
from typing import Literal, Self, Unpack, overload

import numpy as np

from whisperbatch.audio.reader import AudioReader, open_audio
from whisperbatch.decoding.engine_options import options_for
from whisperbatch.errors import ClosedError, OptionError, WhisperBatchError
from whisperbatch.options import Options
from whisperbatch.options.keywords import DetectionKeywords, OptionKeywords, for_detection, resolve
from whisperbatch.options.signatures import DETECTION_PARAMETERS, OPTION_PARAMETERS, shows
from whisperbatch.pipeline import READERS, Run, detect_language
from whisperbatch.protocols import Engine
from whisperbatch.streams import SegmentStream, items_of, transcripts, whole
from whisperbatch.types import Audio, LanguageDetection, Segment, Source, Transcript


class Transcriber:
    """A loaded model: use it often, from several threads. `load` makes one.

    A context manager; `close()` frees the weights.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._closed = False

    @property
    def engine(self) -> Engine:
        """What runs the model. It is closed with the Transcriber."""
        return self._engine

    @shows(*OPTION_PARAMETERS)
    def transcribe(
        self,
        source: Source | AudioReader,
        *,
        options: Options | None = None,
        **keywords: Unpack[OptionKeywords],
    ) -> Transcript:
        """The text of a whole recording.

        Args:
            source: what to transcribe. An open reader (see `open_audio`) is closed at the end.
            options: all options in one value.
            **keywords: single options, in place of those in `options`.

        Raises:
            WhisperBatchError: see `whisperbatch.errors`.
        """
        return whole(self.stream(source, options=options, **keywords))

    @shows(*OPTION_PARAMETERS)
    def stream(
        self,
        source: Source | AudioReader,
        *,
        options: Options | None = None,
        **keywords: Unpack[OptionKeywords],
    ) -> SegmentStream:
        """The segments of a recording, in order, as they are decoded, while it is being read.

        Options and the recording are checked before this returns. Takes and raises what
        `transcribe` does.
        """
        resolved = resolve(options, **keywords)
        reader = open_audio(source, resolved)
        try:
            run = Run(self._engine, [lambda: reader], self._resolved(resolved))
            return SegmentStream(run, reader.name, reader.close)
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
        options: Options | None = None,
        **keywords: Unpack[OptionKeywords],
    ) -> Generator[Transcript | WhisperBatchError, None, None]: ...

    @shows(*OPTION_PARAMETERS)
    def transcribe_many(
        self,
        sources: Iterable[Source],
        *,
        on_error: Literal["raise", "yield"] = "raise",
        ordered: bool = True,
        options: Options | None = None,
        **keywords: Unpack[OptionKeywords],
    ) -> Generator[Transcript | WhisperBatchError, None, None]:
        """The texts of many recordings; batches are filled across them.

        Args:
            sources: taken one by one, each when it is its turn to be read.
            on_error: "raise" stops at the first recording that cannot be read; "yield" gives its
                error in its place and goes on.
            ordered: read one source after the other, and give transcripts in their order. False
                reads four at a time, so that a slow one holds up no other, and gives each
                transcript as soon as it is done: `Transcript.source` says whose it is. Sources must
                then not share a file, and stay open until their transcript has come.
            options: as in `transcribe`.
            **keywords: likewise.

        Raises:
            OptionError: at once.
            AudioError: with "raise", in the recording's turn.
        """
        check_many(sources, on_error)
        run = self._run_many(
            sources,
            resolve(options, **keywords),
            isolate=on_error == "yield",
            ordered=ordered,
        )
        return transcripts(run, on_error)

    @shows(*OPTION_PARAMETERS)
    def stream_many(
        self,
        sources: Iterable[Source],
        *,
        ordered: bool = True,
        options: Options | None = None,
        **keywords: Unpack[OptionKeywords],
    ) -> Generator[tuple[int, Segment | Transcript | WhisperBatchError], None, None]:
        """The segments of many recordings as they are decoded, each one's transcript at its end.

        Yields:
            (recording, item): the recording's number among the sources, from 0, and a segment, or
            last of all its transcript, or the error that it ended with. With `ordered=False` those
            of several recordings come mixed.

        Raises:
            OptionError: at once.

        Takes what `transcribe_many` does.
        """
        check_many(sources, "yield")
        resolved = resolve(options, **keywords)
        return items_of(self._run_many(sources, resolved, isolate=True, ordered=ordered))

    @shows(*DETECTION_PARAMETERS)
    def detect_language(
        self,
        source: Source | AudioReader,
        *,
        read_through: bool = True,
        **keywords: Unpack[DetectionKeywords],
    ) -> LanguageDetection:
        """Which language a recording is in, by windows of speech spread over all of it.

        A file is read only in those windows. A pipe is read to its end. An English-only model
        answers "en" and says so in `reason`. Without speech the language is None.

        Args:
            source: as in `transcribe`. An open reader (see `open_audio`) is left open.
            read_through: whether the whole recording may be read, where windows are not enough.
                With False an open reader keeps its position, so that it can be transcribed
                afterwards; a language that needs the whole recording is None, and `reason` says so.
            **keywords: the options that have an effect on the detection.

        Raises:
            WhisperBatchError: see `whisperbatch.errors`.
        """
        options = for_detection(**keywords)
        with ExitStack() as stack:
            reader = open_audio(source, options)
            if reader is not source:
                stack.enter_context(reader)
            self._check_open()
            if self._engine.is_multilingual or "en" not in (options.languages or ("en",)):
                options = options_for(self._engine, options)
            return detect_language(self._engine, reader, options, read_through=read_through)

    def close(self) -> None:
        """Free the weights. Safe to call twice; streams still open raise ClosedError."""
        self._closed = True
        self._engine.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _run_many(
        self, sources: Iterable[Source], options: Options, *, isolate: bool, ordered: bool
    ) -> Run:
        resolved = self._resolved(options)
        openers = (functools.partial(open_audio, source, resolved) for source in sources)
        readers = 1 if ordered else READERS
        return Run(
            self._engine, openers, resolved, isolate=isolate, readers=readers, ordered=ordered
        )

    def _resolved(self, options: Options) -> Options:
        self._check_open()
        return options_for(self._engine, options)

    def _check_open(self) -> None:
        if self._closed:
            raise ClosedError("this Transcriber is closed; load another")


def check_many(sources: object, on_error: str) -> None:
    """Refuse what `transcribe_many` cannot take, before any work."""
    if on_error not in ("raise", "yield"):
        raise OptionError(f"on_error={on_error!r} is none of raise, yield")
    one = (str, bytes, bytearray, memoryview, PathLike, np.ndarray, Audio)
    if isinstance(sources, one) or hasattr(sources, "read"):
        raise OptionError("sources must be several recordings; for one call transcribe()")
    if not isinstance(sources, Iterable):
        raise OptionError(f"sources must be recordings, not {type(sources).__name__}")
