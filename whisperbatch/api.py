"""What users call: load a model; or load, transcribe and free it in one call."""

import inspect
from collections.abc import Generator, Iterable, Iterator
from contextlib import ExitStack, nullcontext
from os import PathLike
from typing import Final, Literal, TypedDict, TypeVar, Unpack, cast, overload

from whisperbatch.audio.reader import AudioReader, open_audio
from whisperbatch.engines.loading import check_index, check_kind, torch_engine
from whisperbatch.errors import WhisperBatchError
from whisperbatch.models.registry import find_model
from whisperbatch.options import Options
from whisperbatch.options.keywords import DetectionKeywords, OptionKeywords, for_detection, resolve
from whisperbatch.options.signatures import DETECTION_PARAMETERS, OPTION_PARAMETERS, shows
from whisperbatch.pipeline import chunk_recording
from whisperbatch.streams import SegmentStream, whole
from whisperbatch.transcriber import Transcriber, check_many
from whisperbatch.types import Chunk, LanguageDetection, Source, Transcript
from whisperbatch.vad import open_vad

DEFAULT_MODEL: Final = "base"

T = TypeVar("T")


class LoadKeywords(TypedDict, total=False):
    """What `load` takes beside the model; the one-call functions take the same."""

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
    """What `detect_language` takes: `load`'s keywords, and the options that have an effect."""


class Keywords(OptionKeywords, LoadKeywords, total=False):
    """What the one-call functions take: all of `load`'s keywords and all options."""


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
    compile: bool = False,  # noqa: A002 - PyTorch's word
) -> Transcriber:
    """Load a model, once, for many recordings.

    Args:
        model: a name such as "base", a directory of CTranslate2 weights, or a hub repository. For
            "torch" also a directory or repository of transformers' weights (*.safetensors).
        engine: "ctranslate2", or "torch" (extra `torch`), which is PyTorch.
        device: "auto" takes CUDA where a GPU is seen, else the CPU.
        device_index: the CUDA device, or several: each gets a copy of the weights. "torch" takes
            one.
        compute_type: CTranslate2's: "int8", "float16", ...; "auto" is the best supported. Of
            "torch": "float32", "bfloat16" or "float16".
        encoder: "openvino" (extra `openvino`) is faster on a CPU than "ctranslate2"; "auto" takes
            it where it is installed and fits.
        decoder: likewise. What "openvino" cannot do (sampling, penalties, timestamp tokens, more
            than five beams), "ctranslate2" does for it.
        inter_threads: batches worked on at a time on each device.
        intra_threads: threads for each of them on a CPU; 0 shares out the cores.
        quantization: for "torch": the decoder in four bits a weight ("hqq4") or eight ("int8").
        group_size: for "hqq4": how many weights share a scale. Fewer are nearer, and take more
            memory.
        draft_model: for "torch": a smaller model of the same vocabulary, that guesses tokens in
            greedy search (`beam_size=1`).
        compile: for "torch" on CUDA: compile encoder and decoder when they are first used.

    Raises:
        OptionError: a device, compute type, encoder or decoder that is not to be had here, or a
            keyword that has no effect with the engine.
        MissingExtraError: an encoder or decoder that is not installed.
        ModelError: weights that are missing or damaged.
    """
    check_kind(engine, locals(), inspect.signature(load))
    indexes = check_index(device_index)
    if engine == "torch":
        return Transcriber(
            torch_engine(
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

    made = CTranslate2Engine(
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
    return Transcriber(made)


_LOADING: Final = {
    name: parameter
    for name, parameter in inspect.signature(load).parameters.items()
    if name != "model"
}


@shows(*_LOADING.values(), *OPTION_PARAMETERS)
def transcribe(
    source: Source | AudioReader,
    *,
    model: str | PathLike[str] = DEFAULT_MODEL,
    options: Options | None = None,
    **keywords: Unpack[Keywords],
) -> Transcript:
    """Load a model, transcribe one recording, and free the model again.

    Keywords are those of `load` and all options. See `Transcriber.transcribe`.
    """
    return whole(stream(source, model=model, options=options, **keywords))


@shows(*_LOADING.values(), *OPTION_PARAMETERS)
def stream(
    source: Source | AudioReader,
    *,
    model: str | PathLike[str] = DEFAULT_MODEL,
    options: Options | None = None,
    **keywords: Unpack[Keywords],
) -> SegmentStream:
    """Load a model and stream one recording; the model is freed with the stream.

    Options and the recording are checked first. Keywords are those of `load` and all options. See
    `Transcriber.stream`.
    """
    loading, single = _split(keywords)
    resolved = resolve(options, **single)
    reader = open_audio(source, resolved)
    with ExitStack() as stack:
        stack.callback(reader.close)
        asr = stack.enter_context(load(model, **loading))
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


@shows(*_LOADING.values(), *OPTION_PARAMETERS)
def transcribe_many(
    sources: Iterable[Source],
    *,
    model: str | PathLike[str] = DEFAULT_MODEL,
    on_error: Literal["raise", "yield"] = "raise",
    ordered: bool = True,
    options: Options | None = None,
    **keywords: Unpack[Keywords],
) -> Generator[Transcript | WhisperBatchError, None, None]:
    """Load a model, transcribe many recordings, and free the model again.

    Keywords are those of `load` and all options. See `Transcriber.transcribe_many`.
    """
    check_many(sources, on_error)
    loading, single = _split(keywords)
    resolved = resolve(options, **single)
    asr = load(model, **loading)
    return _with(
        asr, asr.transcribe_many(sources, on_error=on_error, ordered=ordered, options=resolved)
    )


@shows(*_LOADING.values(), *DETECTION_PARAMETERS)
def detect_language(
    source: Source | AudioReader,
    *,
    model: str | PathLike[str] = DEFAULT_MODEL,
    read_through: bool = True,
    **keywords: Unpack[DetectKeywords],
) -> LanguageDetection:
    """Load a model, detect one recording's language, and free the model again.

    Keywords are those of `load` and the options that have an effect on it. See
    `Transcriber.detect_language`.
    """
    loading, single = _split(cast("Keywords", keywords))
    options = cast("DetectionKeywords", single)
    with ExitStack() as stack:
        reader = open_audio(source, for_detection(**options))
        if reader is not source:
            stack.enter_context(reader)
        asr = stack.enter_context(load(model, **loading))
        return asr.detect_language(reader, read_through=read_through, **options)


@shows(*OPTION_PARAMETERS)
def chunk_audio(
    source: Source | AudioReader,
    *,
    options: Options | None = None,
    **keywords: Unpack[OptionKeywords],
) -> Generator[Chunk, None, None]:
    """The chunks of a recording that a transcription with these options decodes. No model needed.

    Each chunk says where it starts and ends and where its speech is, in samples at 16 kHz.

    Args:
        source: as in `transcribe`. An open reader (see `open_audio`) is left open.
        options: all options in one value.
        **keywords: single options, in place of those in `options`.

    Raises:
        OptionError: at once.
        AudioError: the recording cannot be read.
    """
    resolved = resolve(options, **keywords)
    return _chunks(source, open_audio(source, resolved), resolved)


def _chunks(
    source: Source | AudioReader, reader: AudioReader, options: Options
) -> Generator[Chunk, None, None]:
    with nullcontext() if reader is source else reader:
        yield from chunk_recording(reader.blocks(), open_vad(options), options)


def _with(asr: Transcriber, items: Iterator[T]) -> Generator[T, None, None]:
    with asr:
        yield from items


def _split(keywords: Keywords) -> tuple[LoadKeywords, OptionKeywords]:
    loading = {name: value for name, value in keywords.items() if name in _LOADING}
    single = {name: value for name, value in keywords.items() if name not in _LOADING}
    return cast("LoadKeywords", loading), cast("OptionKeywords", single)
