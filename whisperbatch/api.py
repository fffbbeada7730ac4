"""The functions that users call: `load`, and functions that load, work and free in one call."""

import inspect
from collections.abc import Generator, Iterable, Iterator
from contextlib import ExitStack, nullcontext
from os import PathLike
from typing import Final, Literal, TypedDict, TypeVar, cast, overload

from typing_extensions import Unpack

from whisperbatch.audio.reader import AudioReader, open_audio
from whisperbatch.engines.loading import check_device_index, check_keywords, load_torch_engine
from whisperbatch.errors import WhisperBatchError
from whisperbatch.models.registry import find_model
from whisperbatch.options import Options
from whisperbatch.options.keywords import DetectionKeywords, OptionKeywords, for_detection, resolve
from whisperbatch.options.signatures import DETECTION_PARAMETERS, OPTION_PARAMETERS, with_parameters
from whisperbatch.pipeline import chunk_recording
from whisperbatch.streams import SegmentStream, collect
from whisperbatch.transcriber import Transcriber, check_many
from whisperbatch.types import Chunk, LanguageDetection, Source, Transcript

DEFAULT_MODEL: Final = "base"

T = TypeVar("T")


class LoadKeywords(TypedDict, total=False):
    """The keywords of `load`; the functions that load and free the model accept them, too."""

    engine: Literal["ctranslate2", "torch"]
    device: Literal["auto", "cpu", "cuda"]
    device_index: int | tuple[int, ...]
    compute_type: str
    encoder: Literal["auto", "ctranslate2", "openvino"]
    decoder: Literal["auto", "ctranslate2", "openvino"]
    inter_threads: int
    intra_threads: int
    quantization: Literal["hqq4", "int8"] | None
    group_size: Literal[32, 64, 128]
    draft_model: str | PathLike[str] | None
    compile: bool


class DetectKeywords(DetectionKeywords, LoadKeywords, total=False):
    """The keywords of `detect_language`: those of `load`, and the options that have an effect."""


class Keywords(OptionKeywords, LoadKeywords, total=False):
    """The keywords of `transcribe`, `stream` and `transcribe_many`: `load`'s, and all options."""


def load(
    model: str | PathLike[str] = DEFAULT_MODEL,
    *,
    engine: Literal["ctranslate2", "torch"] = "ctranslate2",
    device: Literal["auto", "cpu", "cuda"] = "auto",
    device_index: int | tuple[int, ...] = 0,
    compute_type: str = "auto",
    encoder: Literal["auto", "ctranslate2", "openvino"] = "auto",
    decoder: Literal["auto", "ctranslate2", "openvino"] = "auto",
    inter_threads: int = 1,
    intra_threads: int = 0,
    quantization: Literal["hqq4", "int8"] | None = None,
    group_size: Literal[32, 64, 128] = 64,
    draft_model: str | PathLike[str] | None = None,
    compile: bool = False,  # noqa: A002 - the name that PyTorch uses
) -> Transcriber:
    """Load a model once, to transcribe many recordings.

    Args:
        model: a name (for example "base"), a directory of CTranslate2 weights, or a Hugging Face
            repository. "torch" also loads transformers' weights (*.safetensors) from a directory or
            repository.
        engine: "ctranslate2", or "torch" for PyTorch (extra `torch`).
        device: "auto" uses CUDA if there is a GPU, otherwise the CPU.
        device_index: the number of the CUDA device. A tuple of numbers loads a copy of the weights
            on each device ("torch" uses one device only).
        compute_type: for "ctranslate2": "int8", "float16", ...; for "torch": "float32", "bfloat16"
            or "float16". "auto" is the best type that the device supports.
        encoder: "openvino" (extra `openvino`) is faster than "ctranslate2" on a CPU. "auto" uses
            "openvino" if the package is installed and supports the model and device.
        decoder: as `encoder`. Rows that "openvino" cannot decode (sampling, penalties, timestamp
            tokens, more than five beams) are decoded by "ctranslate2".
        inter_threads: number of batches computed at a time on each device.
        intra_threads: CPU threads for each batch; 0 divides the cores between the batches.
        quantization: for "torch": store the decoder's weights in 4 bits ("hqq4") or 8 ("int8").
        group_size: for "hqq4": number of weights that share a scale. Smaller groups are more
            accurate and need more memory.
        draft_model: for "torch": a smaller model with the same vocabulary, which proposes tokens in
            greedy search (`beam_size=1`, speculative decoding).
        compile: for "torch" on CUDA: compile the encoder and the decoder at their first use.

    Raises:
        OptionError: a device, compute type, encoder or decoder is not available on this machine, or
            a keyword has no effect with this engine.
        MissingExtraError: the package of an engine, encoder or decoder is not installed.
        ModelError: the weights are missing or damaged.
    """
    check_keywords(engine, locals(), inspect.signature(load))
    indexes = check_device_index(device_index)
    if engine == "torch":
        return Transcriber(
            load_torch_engine(
                model,
                device=device,
                device_index=indexes,
                compute_type=compute_type,
                quantization=quantization,
                group_size=group_size,
                draft_model=draft_model,
                compiled=compile,
            )
        )
    from whisperbatch.engines.ctranslate2.engine import CTranslate2Engine  # noqa: PLC0415 - heavy

    ctranslate2_engine = CTranslate2Engine(
        find_model(model),
        name=str(model),
        device=device,
        device_index=indexes,
        compute_type=compute_type,
        encoder=encoder,
        decoder=decoder,
        inter_threads=inter_threads,
        intra_threads=intra_threads,
    )
    return Transcriber(ctranslate2_engine)


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
    load_keywords, option_keywords = _split(keywords)
    resolved = resolve(options, **option_keywords)
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
    load_keywords, option_keywords = _split(keywords)
    resolved = resolve(options, **option_keywords)
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


def _split(keywords: Keywords) -> tuple[LoadKeywords, OptionKeywords]:
    """Separate the keywords of `load` from the options."""
    load_keywords = {name: value for name, value in keywords.items() if name in _LOAD_PARAMETERS}
    options = {name: value for name, value in keywords.items() if name not in _LOAD_PARAMETERS}
    return cast("LoadKeywords", load_keywords), cast("OptionKeywords", options)
