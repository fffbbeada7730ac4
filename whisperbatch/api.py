"""`load`, and the functions that need no Transcriber: each loads a model, works and frees it."""

import inspect
from collections.abc import Generator, Iterable
from contextlib import ExitStack, nullcontext
from os import PathLike
from typing import Final, Literal, cast, overload

from typing_extensions import Unpack

from whisperbatch.apart import Apart, call_apart, on_stop, runs_apart
from whisperbatch.audio.reader import AudioReader, open_audio
from whisperbatch.boundary import boundary
from whisperbatch.diarization.stage import diarization_of, prepare
from whisperbatch.engines.settings import (
    Device,
    EngineKeywords,
    EngineName,
    EngineSettings,
    LoadKeywords,
    setting_parameters,
    settings_of,
)
from whisperbatch.errors import OptionError, WhisperBatchError
from whisperbatch.options import (
    DETECTION_PARAMETERS,
    OPTION_NAMES,
    OPTION_PARAMETERS,
    Channel,
    DetectionKeywords,
    DiarizerChoice,
    KnownSpeakers,
    OptionKeywords,
    Options,
    SpeakerKind,
    checks,
    explaining,
    for_detection,
    hint_for,
    plain,
    resolve,
    with_parameters,
)
from whisperbatch.pipeline_run import check_many
from whisperbatch.progress import ProgressOption, ShowProgress, shown_by, shows_downloads
from whisperbatch.sections import chunk_recording
from whisperbatch.streams import SegmentStream, Transcripts, collect
from whisperbatch.text.messages import one_line
from whisperbatch.transcriber import Transcriber
from whisperbatch.types import (
    Chunk,
    Diarization,
    LanguageDetection,
    Source,
    Transcript,
    refuse_unpacking,
)

DEFAULT_MODEL: Final = "base"


@with_parameters(*setting_parameters().values(), texts=EngineKeywords)
def load(
    model: str | PathLike[str] = DEFAULT_MODEL,
    device: Device = "auto",
    *,
    engine: EngineName | EngineSettings = "auto",
    progress: ProgressOption = False,
    **settings: Unpack[EngineKeywords],
) -> Transcriber:
    """Load a model once, to transcribe many recordings.

    Args:
        model: a name (for example "base"), a directory of CTranslate2 weights, or a Hugging Face
            repository. "torch" also loads transformers' weights (*.safetensors) from a directory or
            repository.
        device: "auto" uses CUDA if there is a GPU that works, otherwise the CPU. "openvino" and
            "onnxruntime" always run on the CPU.
        engine: the library that runs the model: "onnxruntime" is the fastest on a CPU with AVX2,
            "openvino" (extra `openvino`) is the same engine with an encoder that OpenVINO always
            computes, "ctranslate2" runs on CPU and CUDA, and "torch" (extra `torch`) is PyTorch.
            "auto" is onnxruntime on a CPU with AVX2, openvino on another CPU if it is installed,
            and otherwise ctranslate2. In Python, `engine` is a name or a settings object
            (`CTranslate2Settings`, `OnnxRuntimeSettings`, `OpenVinoSettings`, `TorchSettings`).
        progress: True shows a bar during a download from the Hugging Face hub; a function is called
            with each `Progress`.
        **settings: these keywords, if `engine` is a name:

    Returns:
        The loaded model. `Transcriber.close`, or the end of a `with` block, frees the weights.

    Raises:
        OptionError: a device or setting is not available on this machine, or a setting is wrong or
            has no effect with this engine.
        MissingExtraError: the package of the engine is not installed.
        ModelError: the weights are missing or damaged.
    """
    show = shown_by(progress)

    def loaded() -> Transcriber:
        from whisperbatch.engines.loading import load_engine  # noqa: PLC0415 - heavy

        with shows_downloads(show):
            return Transcriber(load_engine(model, device=device, engine=engine, **settings))

    return call_apart(loaded, patience=None)


LOAD_PARAMETERS: Final = {
    name: parameter.replace(kind=parameter.KEYWORD_ONLY)
    for name, parameter in inspect.signature(load).parameters.items()
    if name not in ("model", "progress")
}
"""The keywords of `load`: the parameters that the functions of `api` also have."""


class DetectKeywords(DetectionKeywords, LoadKeywords, total=False):
    """The keywords of `detect_language`: those of `load`, and the options that have an effect."""


class Keywords(OptionKeywords, LoadKeywords, total=False):
    """The keywords of `transcribe`, `stream` and `transcribe_many`: `load`'s, and all options."""


@with_parameters(*LOAD_PARAMETERS.values(), *OPTION_PARAMETERS)
def transcribe(
    source: Source | AudioReader,
    model: str | PathLike[str] = DEFAULT_MODEL,
    *,
    progress: ProgressOption = False,
    options: Options | None = None,
    **keywords: Unpack[Keywords],
) -> Transcript:
    """Load a model, transcribe one recording, and free the model.

    Args:
        source: a path, a URL, "-" for standard input, the bytes of a media file, an open binary
            file or pipe, or samples (a float32 or int16 array, a tensor or another object with
            `__array__`, or an `Audio`). An open reader (see `open_audio`) is closed at the end.
        model: a name, directory or repository, as in `load`.
        progress: True shows a bar; a function is called with a `Progress` after each segment, and
            during the download of a model.
        options: all options in one value.
        **keywords: any field of `Options`, which replaces the field of `options`, and any keyword
            of `load`.

    Returns:
        The transcript; it has no segments if the recording has no speech.

    Raises:
        OptionError: an option, or a keyword of `load`, is unknown or wrong, or has no effect.
        AudioError: the recording cannot be read.
        ModelError: the weights are missing or damaged.
        MissingExtraError: the package of the engine or of an option is not installed.
        EngineError: the engine failed on a batch.
        InternalError: an unexpected exception, which is a bug.
    """
    refuse_unpacking("transcribe", "a Transcript")
    return collect(stream(source, model=model, progress=progress, options=options, **keywords))


@with_parameters(*LOAD_PARAMETERS.values(), *OPTION_PARAMETERS)
@runs_apart
def stream(
    source: Source | AudioReader,
    model: str | PathLike[str] = DEFAULT_MODEL,
    *,
    progress: ProgressOption = False,
    options: Options | None = None,
    **keywords: Unpack[Keywords],
) -> SegmentStream:
    """Load a model and stream one recording. The model is freed when the stream is closed.

    The options and the recording are checked before the model is loaded.

    Args:
        source: a recording, as in `transcribe`. An open reader is closed with the stream.
        model: a name, directory or repository, as in `load`.
        progress: True shows a bar; a function is called with a `Progress` after each segment, and
            during the download of a model.
        options: all options in one value.
        **keywords: any field of `Options`, which replaces the field of `options`, and any keyword
            of `load`.

    Returns:
        An iterator over the segments, each as soon as it is decoded.

    Raises:
        OptionError: an option, or a keyword of `load`, is unknown or wrong, or has no effect.
        AudioError: the recording cannot be read; raised by the call, or while the stream is read.
        ModelError: the weights are missing or damaged.
        MissingExtraError: the package of the engine or of an option is not installed.
        EngineError: raised while the stream is read: the engine failed on a batch.
    """
    show = shown_by(progress)
    load_keywords, resolved = _resolve(options, keywords, show)
    reader = open_audio(source, resolved)
    with ExitStack() as stack:
        stack.callback(reader.close)
        asr = stack.enter_context(load(model, progress=show or False, **load_keywords))
        segments = asr.stream(reader, progress=show or False, options=resolved)
        segments.call_on_close(asr.close)
        stack.pop_all()
        return segments


@overload
def transcribe_many(
    sources: Iterable[Source],
    model: str | PathLike[str] = DEFAULT_MODEL,
    *,
    on_error: Literal["raise"] = "raise",
    ordered: bool = True,
    progress: ProgressOption = False,
    options: Options | None = None,
    **keywords: Unpack[Keywords],
) -> Generator[Transcript, None, None]: ...


@overload
def transcribe_many(
    sources: Iterable[Source],
    model: str | PathLike[str] = DEFAULT_MODEL,
    *,
    on_error: Literal["yield"],
    ordered: bool = True,
    progress: ProgressOption = False,
    options: Options | None = None,
    **keywords: Unpack[Keywords],
) -> Generator[Transcript | WhisperBatchError, None, None]: ...


@with_parameters(*LOAD_PARAMETERS.values(), *OPTION_PARAMETERS)
@runs_apart
def transcribe_many(
    sources: Iterable[Source],
    model: str | PathLike[str] = DEFAULT_MODEL,
    *,
    on_error: Literal["raise", "yield"] = "raise",
    ordered: bool = True,
    progress: ProgressOption = False,
    options: Options | None = None,
    **keywords: Unpack[Keywords],
) -> Generator[Transcript | WhisperBatchError, None, None]:
    """Load a model, transcribe many recordings, and free the model.

    Recordings share the calls of the engine.

    Args:
        sources: recordings, each as in `transcribe`, but no open readers. Each source is taken from
            the iterable when it is to be read.
        model: a name, directory or repository, as in `load`.
        on_error: "raise" stops at the first recording that fails; "yield" yields its error instead
            of a transcript, and continues.
        ordered: True yields transcripts in the order of the sources. False yields each transcript
            as soon as it is complete; `Transcriber.transcribe_many` states the conditions.
        progress: True shows a bar; a function is called with a `Progress` after each segment, and
            during the download of a model.
        options: all options in one value.
        **keywords: any field of `Options`, which replaces the field of `options`, and any keyword
            of `load`.

    Yields:
        The transcript of each recording, or with `on_error="yield"` the error of a recording.

    Raises:
        OptionError: raised by the call itself: an option, or a keyword of `load`, is unknown or
            wrong, or has no effect.
        ModelError: raised by the call itself: the weights are missing or damaged.
        MissingExtraError: the package of the engine or of an option is not installed.
        AudioError: with `on_error="raise"`, after the transcripts of the earlier recordings: a
            recording cannot be read.
        EngineError: with `on_error="raise"`: the engine failed on a batch.
        InternalError: with `on_error="raise"`: an unexpected exception, which is a bug.
    """
    check_many(sources, on_error, ordered=ordered)
    show = shown_by(progress)
    load_keywords, resolved = _resolve(options, keywords, show)
    asr = load(model, progress=show or False, **load_keywords)
    items = asr.transcribe_many(
        sources, on_error=on_error, ordered=ordered, progress=show or False, options=resolved
    )
    cast("Transcripts[Transcript]", items).call_on_close(asr.close)
    return items


@with_parameters(*LOAD_PARAMETERS.values(), *DETECTION_PARAMETERS)
@runs_apart
def detect_language(
    source: Source | AudioReader,
    model: str | PathLike[str] = DEFAULT_MODEL,
    *,
    read_through: bool = True,
    **keywords: Unpack[DetectKeywords],
) -> LanguageDetection:
    """Load a model, detect the language of one recording, and free the model.

    Args:
        source: a recording, as in `transcribe`. An open reader stays open.
        model: a name, directory or repository, as in `load`.
        read_through: whether the whole recording may be read if the language windows are not
            enough. With False, an open reader keeps its position and can be transcribed afterwards.
        **keywords: the fields of `Options` that have an effect on language detection, and any
            keyword of `load`.

    Returns:
        The language with its probability, and the language windows that were used.

    Raises:
        OptionError: an option, or a keyword of `load`, is unknown or wrong, or has no effect.
        AudioError: the recording cannot be read.
        ModelError: the weights are missing or damaged.
        MissingExtraError: the package of the engine or of an option is not installed.
        EngineError: the engine failed on a batch.
        InternalError: an unexpected exception, which is a bug.
    """
    checks.boolean("read_through", plain(read_through))
    load_keywords, option_keywords = _split(cast("Keywords", keywords))
    settings_of(load_keywords)
    options = cast("DetectionKeywords", option_keywords)
    reader = open_audio(source, for_detection(**options))
    on_stop(reader.close)
    with nullcontext() if reader is source else reader, load(model, **load_keywords) as asr:
        return asr.detect_language(reader, read_through=read_through, **options)


@runs_apart
def diarize(
    source: Source | AudioReader,
    *,
    speaker: SpeakerKind = "voice",
    num_speakers: int | None = None,
    min_speakers: int | None = None,
    max_speakers: int | None = None,
    known_speakers: KnownSpeakers | None = None,
    diarizer: DiarizerChoice = "builtin",
    track: int | None = None,
    channel: Channel = "mix",
    sampling_rate: int | None = None,
    progress: ProgressOption = False,
) -> Diarization:
    """Find out who speaks when in a recording, without a transcript. Needs no Whisper model.

    Args:
        source: a recording, as in `transcribe`. An open reader stays open.
        speaker: as in `Options`.
        num_speakers: as in `Options`.
        min_speakers: as in `Options`.
        max_speakers: as in `Options`.
        known_speakers: as in `Options`.
        diarizer: as in `Options`.
        track: as in `Options`.
        channel: as in `Options`.
        sampling_rate: as in `Options`.
        progress: True shows a bar; a function is called with each `Progress`.

    Returns:
        The speakers and their turns; no turns if the recording has no speech.

    Raises:
        OptionError: an option is wrong, or has no effect.
        AudioError: the recording, or the recording of a known speaker, cannot be read.
        MissingExtraError: the weights or the package of the diarizer are not installed.
        ModelError: the weights of the diarizer are damaged.
        EngineError: the diarizer failed.
    """
    options = Options(
        diarize=True,
        speaker=speaker,
        num_speakers=num_speakers,
        min_speakers=min_speakers,
        max_speakers=max_speakers,
        known_speakers=known_speakers,
        diarizer=diarizer,
        track=track,
        channel=channel,
        sampling_rate=sampling_rate,
    )
    return diarization_of(source, options, shown_by(progress))


# whisperx.diarize is a module with this class
diarize.DiarizationPipeline = explaining("DiarizationPipeline")  # type: ignore[attr-defined]


@with_parameters(*OPTION_PARAMETERS)
@runs_apart
def chunk_audio(
    source: Source | AudioReader,
    *,
    options: Options | None = None,
    **keywords: Unpack[OptionKeywords],
) -> Generator[Chunk, None, None]:
    """Yield the chunks that a transcription with these options would decode. Needs no model.

    A transcription with `second_opinion=True` may have more speech: the model finds this speech.

    Args:
        source: a recording, as in `transcribe`. An open reader stays open.
        options: all options in one value.
        **keywords: any field of `Options`, which replaces the field of `options`.

    Yields:
        Each chunk, with its start, its end and its speech spans, in samples at 16 kHz.

    Raises:
        OptionError: raised by the call itself, before the first chunk is requested: an option is
            unknown or wrong, or has no effect.
        AudioError: the recording cannot be read.
    """
    reader = open_audio(source, resolved := resolve(options, **keywords))
    return Apart(lambda: _chunks(source, reader, resolved), reader.close)


def _chunks(
    source: Source | AudioReader, reader: AudioReader, options: Options
) -> Generator[Chunk, None, None]:
    with nullcontext() if reader is source else reader, boundary(reader.name):
        yield from chunk_recording(reader.blocks(), options)


def _resolve(
    options: Options | None, keywords: Keywords, show: ShowProgress | None
) -> tuple[LoadKeywords, Options]:
    """Return the keywords of `load`, and the options, which the engine must honour."""
    load_keywords, option_keywords = _split(keywords)
    resolved = resolve(options, **option_keywords)
    settings_of(load_keywords).check(resolved.search)
    with shows_downloads(show):
        prepare(resolved)
    return load_keywords, resolved


def _split(keywords: Keywords) -> tuple[LoadKeywords, OptionKeywords]:
    """Separate the keywords of `load` from the options.

    Raises:
        OptionError: a keyword is neither.
    """
    names = {*LOAD_PARAMETERS, *OPTION_NAMES}
    for name in keywords:
        if name not in names:
            hint = hint_for(name, names) or "help(whisperbatch.transcribe) lists all options"
            raise OptionError(f"{one_line(name)} is not an option; {hint}")
    load_keywords = {name: value for name, value in keywords.items() if name in LOAD_PARAMETERS}
    options = {name: value for name, value in keywords.items() if name not in LOAD_PARAMETERS}
    return cast("LoadKeywords", load_keywords), cast("OptionKeywords", options)
