"""The functions that users call: `load`, and functions that load, work and free in one call."""

import inspect
from collections.abc import Generator, Iterable, Iterator
from contextlib import ExitStack, nullcontext
from os import PathLike
from typing import Final, Literal, TypeVar, cast, overload

from typing_extensions import Unpack

from whisperbatch.audio.reader import AudioReader, open_audio
from whisperbatch.engines.keywords import (
    Device,
    EngineKeywords,
    EngineName,
    LoadKeywords,
    setting_parameters,
    settings_of,
)
from whisperbatch.engines.settings import EngineSettings
from whisperbatch.errors import WhisperBatchError
from whisperbatch.options import Options
from whisperbatch.options.keywords import DetectionKeywords, OptionKeywords, for_detection, resolve
from whisperbatch.options.signatures import DETECTION_PARAMETERS, OPTION_PARAMETERS, with_parameters
from whisperbatch.pipeline import chunk_recording
from whisperbatch.streams import SegmentStream, collect
from whisperbatch.transcriber import Transcriber, check_many
from whisperbatch.types import Chunk, LanguageDetection, Source, Transcript

DEFAULT_MODEL: Final = "base"

T = TypeVar("T")


class DetectKeywords(DetectionKeywords, LoadKeywords, total=False):
    """The keywords of `detect_language`: those of `load`, and the options that have an effect."""


class Keywords(OptionKeywords, LoadKeywords, total=False):
    """The keywords of `transcribe`, `stream` and `transcribe_many`: `load`'s, and all options."""


@with_parameters(*setting_parameters().values())
def load(
    model: str | PathLike[str] = DEFAULT_MODEL,
    *,
    device: Device = "auto",
    engine: EngineName | EngineSettings = "auto",
    **settings: Unpack[EngineKeywords],
) -> Transcriber:
    """Load a model once, to transcribe many recordings.

    Args:
        model: a name (for example "base"), a directory of CTranslate2 weights, or a Hugging Face
            repository. "torch" also loads transformers' weights (*.safetensors) from a directory or
            repository.
        device: "auto" uses CUDA if there is a GPU that works, otherwise the CPU.
        engine: the library that runs the model: "openvino" (extra `openvino`) is the fastest on a
            CPU, "ctranslate2" runs on CPU and CUDA, and "torch" (extra `torch`) is PyTorch. "auto"
            is "openvino" on a CPU if it is installed, otherwise "ctranslate2". Or a settings
            object: `CTranslate2Settings`, `OpenVinoSettings` or `TorchSettings`.
        **settings: single settings, if `engine` is a name. The settings classes document them.

    Raises:
        OptionError: a device or setting is not available on this machine, or a setting has no
            effect with this engine.
        MissingExtraError: the package of the engine is not installed.
        ModelError: the weights are missing or damaged.
    """
    from whisperbatch.engines.loading import load_engine  # noqa: PLC0415 - heavy

    return Transcriber(load_engine(model, device=device, engine=engine, **settings))


_LOAD_PARAMETERS: Final = {
    name: parameter
    for name, parameter in inspect.signature(load).parameters.items()
    if name != "model"
}


@with_parameters(*_LOAD_PARAMETERS.values(), *OPTION_PARAMETERS)
def transcribe(
    source: Source | AudioReader,
    *,
    model: str | PathLike[str] = DEFAULT_MODEL,
    options: Options | None = None,
    **keywords: Unpack[Keywords],
) -> Transcript:
    """Load a model, transcribe one recording, and free the model.

    The keywords are those of `load` and all options. See `Transcriber.transcribe`.
    """
    return collect(stream(source, model=model, options=options, **keywords))


@with_parameters(*_LOAD_PARAMETERS.values(), *OPTION_PARAMETERS)
def stream(
    source: Source | AudioReader,
    *,
    model: str | PathLike[str] = DEFAULT_MODEL,
    options: Options | None = None,
    **keywords: Unpack[Keywords],
) -> SegmentStream:
    """Load a model and stream one recording. The model is freed when the stream is closed.

    The options and the recording are checked before the model is loaded. The keywords are those of
    `load` and all options. See `Transcriber.stream`.
    """
    load_keywords, resolved = _resolve(options, keywords)
    reader = open_audio(source, resolved)
    with ExitStack() as stack:
        stack.callback(reader.close)
        asr = stack.enter_context(load(model, **load_keywords))
        segments = asr.stream(reader, options=resolved)
        segments.call_on_close(asr.close)
        stack.pop_all()
        return segments


@overload
def transcribe_many(
    sources: Iterable[Source],
    *,
    model: str | PathLike[str] = DEFAULT_MODEL,
    on_error: Literal["raise"] = "raise",
    ordered: bool = True,
    options: Options | None = None,
    **keywords: Unpack[Keywords],
) -> Generator[Transcript, None, None]: ...


@overload
def transcribe_many(
    sources: Iterable[Source],
    *,
    model: str | PathLike[str] = DEFAULT_MODEL,
    on_error: Literal["yield"],
    ordered: bool = True,
    options: Options | None = None,
    **keywords: Unpack[Keywords],
) -> Generator[Transcript | WhisperBatchError, None, None]: ...


@with_parameters(*_LOAD_PARAMETERS.values(), *OPTION_PARAMETERS)
def transcribe_many(
    sources: Iterable[Source],
    *,
    model: str | PathLike[str] = DEFAULT_MODEL,
    on_error: Literal["raise", "yield"] = "raise",
    ordered: bool = True,
    options: Options | None = None,
    **keywords: Unpack[Keywords],
) -> Generator[Transcript | WhisperBatchError, None, None]:
    """Load a model, transcribe many recordings, and free the model.

    The keywords are those of `load` and all options. See `Transcriber.transcribe_many`.
    """
    check_many(sources, on_error)
    load_keywords, resolved = _resolve(options, keywords)
    asr = load(model, **load_keywords)
    return _closing(
        asr, asr.transcribe_many(sources, on_error=on_error, ordered=ordered, options=resolved)
    )


@with_parameters(*_LOAD_PARAMETERS.values(), *DETECTION_PARAMETERS)
def detect_language(
    source: Source | AudioReader,
    *,
    model: str | PathLike[str] = DEFAULT_MODEL,
    read_through: bool = True,
    **keywords: Unpack[DetectKeywords],
) -> LanguageDetection:
    """Load a model, detect the language of one recording, and free the model.

    The keywords are those of `load` and the options that have an effect on language detection. See
    `Transcriber.detect_language`.
    """
    load_keywords, option_keywords = _split(cast("Keywords", keywords))
    options = cast("DetectionKeywords", option_keywords)
    with ExitStack() as stack:
        reader = open_audio(source, for_detection(**options))
        if reader is not source:
            stack.enter_context(reader)
        asr = stack.enter_context(load(model, **load_keywords))
        return asr.detect_language(reader, read_through=read_through, **options)


@with_parameters(*OPTION_PARAMETERS)
def chunk_audio(
    source: Source | AudioReader,
    *,
    options: Options | None = None,
    **keywords: Unpack[OptionKeywords],
) -> Generator[Chunk, None, None]:
    """Yield the chunks that a transcription with these options would decode. Needs no model.

    Each chunk has its start, its end and its speech spans, in samples at 16 kHz.

    Args:
        source: as in `transcribe`. An open reader (see `open_audio`) stays open.
        options: all options in one value.
        **keywords: single options, which replace those in `options`.

    Raises:
        OptionError: raised by the call itself, before the first chunk is requested.
        AudioError: the recording cannot be read.
    """
    resolved = resolve(options, **keywords)
    return _chunks(source, open_audio(source, resolved), resolved)


def _chunks(
    source: Source | AudioReader, reader: AudioReader, options: Options
) -> Generator[Chunk, None, None]:
    with nullcontext() if reader is source else reader:
        yield from chunk_recording(reader.blocks(), options)


def _closing(asr: Transcriber, items: Iterator[T]) -> Generator[T, None, None]:
    with asr:
        yield from items


def _resolve(options: Options | None, keywords: Keywords) -> tuple[LoadKeywords, Options]:
    """Return the keywords of `load`, and the options; check that the engine honours the options."""
    load_keywords, option_keywords = _split(keywords)
    resolved = resolve(options, **option_keywords)
    settings_of(load_keywords).check(resolved.search)
    return load_keywords, resolved


def _split(keywords: Keywords) -> tuple[LoadKeywords, OptionKeywords]:
    """Separate the keywords of `load` from the options."""
    load_keywords = {name: value for name, value in keywords.items() if name in _LOAD_PARAMETERS}
    options = {name: value for name, value in keywords.items() if name not in _LOAD_PARAMETERS}
    return cast("LoadKeywords", load_keywords), cast("OptionKeywords", options)
