"""A loaded model at work: one recording, many recordings, their languages."""

import functools
import inspect
from collections.abc import Callable, Generator, Iterable
from dataclasses import fields
from os import PathLike
from types import TracebackType
from typing import Final, Literal, Self, TypeVar, Unpack, overload

import numpy as np

from whisperbatch.audio import AudioReader, open_audio
from whisperbatch.detection import detect
from whisperbatch.engines.remembering import RememberingEngine, Store
from whisperbatch.errors import ClosedError, OptionError, WhisperBatchError
from whisperbatch.keywords import DetectionKeywords, OptionKeywords, for_detection, resolve
from whisperbatch.options import Options
from whisperbatch.pipeline import READERS, Run, check
from whisperbatch.protocols import Engine
from whisperbatch.streams import SegmentStream, items_of, transcripts, whole
from whisperbatch.types import Audio, LanguageDetection, Segment, Source, Transcript

F = TypeVar("F", bound=Callable[..., object])


def shows(*keywords: inspect.Parameter) -> Callable[[F], F]:
    """Give a function the signature that its users see: `keywords` in place of `**keywords`."""

    def decorate(function: F) -> F:
        signature = inspect.signature(function)
        own = [p for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD]
        shown = signature.replace(parameters=[*own, *keywords])
        function.__signature__ = shown  # type: ignore[attr-defined]  # what inspect looks for
        return function

    return decorate


OPTIONS: Final = tuple(
    inspect.Parameter(
        field.name, inspect.Parameter.KEYWORD_ONLY, default=field.default, annotation=field.type
    )
    for field in fields(Options)
)


DETECTION: Final = tuple(p for p in OPTIONS if p.name in DetectionKeywords.__annotations__)


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

    @shows(*OPTIONS)
    def transcribe(
        self, source: Source, *, options: Options | None = None, **keywords: Unpack[OptionKeywords]
    ) -> Transcript:
        """The text of a whole recording.

        Args:
            source: what to transcribe.
            options: all options in one value.
            **keywords: single options, in place of those in `options`.

        Raises:
            WhisperBatchError: see `whisperbatch.errors`.
        """
        return whole(self.stream(source, options=options, **keywords))

    @shows(*OPTIONS)
    def stream(
        self, source: Source, *, options: Options | None = None, **keywords: Unpack[OptionKeywords]
    ) -> SegmentStream:
        """The segments of a recording, in order, as they are decoded, while it is being read.

        Options and the recording are checked before this returns. Takes and raises what
        `transcribe` does.
        """
        resolved = resolve(options, **keywords)
        reader = open_audio(source, resolved)
        return self.stream_from(reader, resolved, reader.close)

    def stream_from(
        self, reader: AudioReader, options: Options, on_close: Callable[[], None]
    ) -> SegmentStream:
        """As `stream`, of a recording already open; `on_close` is called when the stream ends."""
        try:
            run = Run(self._engine, [lambda: reader], self._check(options))
            return SegmentStream(run, reader.name, on_close)
        except BaseException:
            on_close()
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

    @shows(*OPTIONS)
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

    @shows(*OPTIONS)
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

    def remembering(self, store: Store) -> "Transcriber":
        """The same model, going on from what a store holds and adding to it.

        What was decoded with the same weights and options comes from there, to the last digit.
        Closing either closes both; the store stays open.
        """
        return Transcriber(RememberingEngine(self._engine, store))

    @shows(*DETECTION)
    def detect_language(
        self, source: Source, **keywords: Unpack[DetectionKeywords]
    ) -> LanguageDetection:
        """Which language a recording is in, by voiced windows spread over all of it.

        A file is read only where it is listened to. A pipe must be read through. An English-only
        model answers "en", and gives the reason; without speech the language is None.

        Args:
            source: as in `transcribe`.
            **keywords: the options that have an effect on it.

        Raises:
            WhisperBatchError: see `whisperbatch.errors`.
        """
        resolved = for_detection(**keywords)
        with open_audio(source, resolved) as reader:
            return self.detect_from(reader, resolved)

    def detect_from(self, reader: AudioReader, options: Options) -> LanguageDetection:
        """As `detect_language`, of a recording already open."""
        self._check_open()
        if self._engine.is_multilingual or "en" not in (options.languages or ("en",)):
            options = check(self._engine, options)
        return detect(self._engine, reader, options)

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
        resolved = self._check(options)
        openers = (functools.partial(open_audio, source, resolved) for source in sources)
        readers = 1 if ordered else READERS
        return Run(
            self._engine, openers, resolved, isolate=isolate, readers=readers, ordered=ordered
        )

    def _check(self, options: Options) -> Options:
        self._check_open()
        return check(self._engine, options)

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
