"""whisperbatch and other Whisper programs as functions of files, for timing.

    whisperbatch               with the engine that "auto" chooses
    whisperbatch-openvino      encoder on OpenVINO; measured only if it is named
    whisperbatch-onnxruntime   on ONNX Runtime; measured only if it is named
    whisperbatch-ctranslate2   on CTranslate2
    whisperbatch-torch         on PyTorch, with the defaults of its engine
    whisperbatch-compiled      on PyTorch, with `compile=True`; GPU only, measured only if named
    whisperbatch-diarization   with `diarize=True`; measured only if it is named
    faster-whisper             sequential windows
    faster-whisper-batched     chunks, `batch_size` at a time
    openai-whisper             sequential windows; on the CPU in float32
    transformers-bfloat16      the pipeline over chunks of 30 s, `batch_size` at a time
    transformers-float32       the same pipeline in float32
    whisper.cpp-float16        sequential windows, with pywhispercpp
    whisper.cpp-q8_0           sequential windows, with 8-bit matrices

All systems run the same weights (`conversions`, `ggml`): on the CPU in int8, and on a GPU in
float16, unless the list says otherwise. (On processors with AMX, the default of ONNX Runtime
computes the encoder in bfloat16.) The language is set to English; other options have each
program's defaults, except that transformers decodes timestamps: without timestamps, 35 % of the
words of one minute were wrong, with timestamps 5 %.

openai-whisper and transformers return their text only at the end. Both would start the FFmpeg
program to read a file; they and whisper.cpp receive the file's samples instead (`read`).
"""

import json
import wave
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

import whisperbatch as wb
from benchmarks import conversions, ggml
from benchmarks.faster_whisper_files import let_faster_whisper_open_files
from whisperbatch.engines.model_info import MIN_MULTILINGUAL_VOCABULARY
from whisperbatch.engines.settings import Device, LoadKeywords
from whisperbatch.models.registry import find_model
from whisperbatch.options import OptionKeywords

CPU: Final = "cpu"
CUDA: Final = "cuda"
END_OF_TEXT: Final = "<|endoftext|>"

OnSegment: TypeAlias = Callable[[str], None]  # called with the text of each segment, at once
Run: TypeAlias = Callable[[list[str], OnSegment], None]  # transcribes files


@dataclass(frozen=True, slots=True)
class Setup:
    """How a program is run.

    Attributes:
        model: name of the model.
        beam: number of beams.
        device: "cpu" or "cuda".
        batch_size: of the other programs; whisperbatch uses its default.
        decodes_once: whisperbatch decodes no row again: for random weights, whose texts all fail
            the audit.
    """

    model: str
    beam: int
    device: Device
    batch_size: int
    decodes_once: bool = False


NO_RETRIES: Final[OptionKeywords] = {
    "compression_ratio_threshold": None,
    "log_prob_threshold": None,
    "no_speech_threshold": None,
    "coverage_threshold": None,
}

Open: TypeAlias = Callable[[Setup, ExitStack], Run]  # (setup, closes the model)


@dataclass(frozen=True, slots=True)
class System:
    """A program to be timed.

    Attributes:
        open: loads a model.
        package: the distribution that must be installed.
        prepare: converts a model's weights before the measurement, if the program needs its own
            files.
        devices: the devices that the program can use.
    """

    open: Open
    package: str
    prepare: Callable[[str], object] | None = None
    devices: tuple[Device, ...] = (CPU, CUDA)

    @property
    def installed(self) -> bool:
        """Whether the package of the program is installed."""
        try:
            version(self.package)
        except PackageNotFoundError:
            return False
        return True


def _whisperbatch(
    keywords: LoadKeywords, setup: Setup, stack: ExitStack, *, diarize: bool = False
) -> Run:
    """Open whisperbatch, which streams one file, or fills batches from several files."""
    keywords = {**keywords, "device": setup.device}
    asr = stack.enter_context(wb.load(setup.model, **keywords))
    options: OptionKeywords = {"language": "en", "beam_size": setup.beam, "diarize": diarize}
    if setup.decodes_once:
        options |= NO_RETRIES

    def run(paths: list[str], on_segment: OnSegment) -> None:
        if len(paths) == 1:
            with asr.stream(paths[0], **options) as segments:
                for segment in segments:
                    on_segment(segment.text)
            return
        for transcript in asr.transcribe_many(paths, **options):
            on_segment(transcript.text)

    return run


def _faster_whisper(setup: Setup, _: ExitStack, *, batched: bool) -> Run:
    from faster_whisper import BatchedInferencePipeline, WhisperModel  # noqa: PLC0415 - only for this system

    let_faster_whisper_open_files()
    compute_type = "float16" if setup.device == CUDA else "int8"
    asr = WhisperModel(str(find_model(setup.model)), device=setup.device, compute_type=compute_type)
    pipeline = BatchedInferencePipeline(asr)

    def run(paths: list[str], on_segment: OnSegment) -> None:
        for path in paths:
            if batched:
                segments, _ = pipeline.transcribe(
                    path, language="en", beam_size=setup.beam, batch_size=setup.batch_size
                )
            else:
                segments, _ = asr.transcribe(path, language="en", beam_size=setup.beam)
            for segment in segments:
                on_segment(segment.text)

    return run


def _openai(setup: Setup, _: ExitStack) -> Run:
    from whisper.model import ModelDimensions, Whisper  # noqa: PLC0415 - only for this system

    arrays = conversions.read_openai(find_model(setup.model))
    asr = Whisper(ModelDimensions(**asdict(conversions.dimensions(arrays))))
    asr.load_state_dict(_tensors(arrays))
    asr.to(setup.device)

    def run(paths: list[str], on_segment: OnSegment) -> None:
        for path in paths:
            result = asr.transcribe(
                read(path),
                language="en",
                beam_size=setup.beam if setup.beam > 1 else None,  # None: the greedy decoder
                fp16=setup.device == CUDA,
            )
            for segment in result["segments"]:
                on_segment(segment["text"])

    return run


def _transformers(precision: str, setup: Setup, _: ExitStack) -> Run:
    import transformers  # noqa: PLC0415 - only for this system

    transformers.logging.set_verbosity_error()
    directory = find_model(setup.model)
    added = json.loads((directory / "tokenizer.json").read_bytes())["added_tokens"]
    token_ids = {token["content"]: token["id"] for token in added}
    network = _transformers_model(directory, precision, token_ids)
    pipeline = transformers.pipeline(
        "automatic-speech-recognition",
        model=network,
        tokenizer=transformers.WhisperTokenizer(
            tokenizer_file=str(directory / "tokenizer.json"),
            pad_token=END_OF_TEXT,
            additional_special_tokens=[token["content"] for token in added if token["special"]],
        ),
        feature_extractor=transformers.WhisperFeatureExtractor(network.config.num_mel_bins),
        device=setup.device,
        chunk_length_s=30,
        batch_size=setup.batch_size,
        ignore_warning=True,  # a warning that chunks are less accurate than sequential windows
    )
    options: dict[str, object] = {"num_beams": setup.beam}
    if network.generation_config.is_multilingual:
        options |= {"language": "en", "task": "transcribe"}

    def run(paths: list[str], on_segment: OnSegment) -> None:
        samples = (read(path) for path in paths)  # the pipeline reads only a generator lazily
        for result in pipeline(samples, return_timestamps=True, generate_kwargs=options):
            on_segment(result["text"])

    return run


def _transformers_model(directory: Path, precision: str, token_ids: Mapping[str, int]) -> Any:  # noqa: ANN401 - an optional package
    """Return the model of transformers, with the configuration of a repository on the hub."""
    import torch  # noqa: PLC0415 - only for this system
    import transformers  # noqa: PLC0415 - only for this system

    arrays = conversions.read_openai(directory)
    sizes = conversions.dimensions(arrays)
    ends = {f"{name}_token_id": token_ids[END_OF_TEXT] for name in ("bos", "eos", "pad")}
    ends["decoder_start_token_id"] = token_ids["<|startoftranscript|>"]
    config = transformers.WhisperConfig(
        vocab_size=sizes.n_vocab,
        num_mel_bins=sizes.n_mels,
        d_model=sizes.n_audio_state,
        encoder_layers=sizes.n_audio_layer,
        encoder_attention_heads=sizes.n_audio_head,
        encoder_ffn_dim=4 * sizes.n_audio_state,
        max_source_positions=sizes.n_audio_ctx,
        decoder_layers=sizes.n_text_layer,
        decoder_attention_heads=sizes.n_text_head,
        decoder_ffn_dim=4 * sizes.n_text_state,
        max_target_positions=sizes.n_text_ctx,
        **ends,
    )
    network = transformers.WhisperForConditionalGeneration(config).to(getattr(torch, precision))
    network.load_state_dict(_tensors(conversions.for_transformers(arrays)))
    config_file = json.loads((directory / "config.json").read_bytes())
    multilingual = sizes.n_vocab >= MIN_MULTILINGUAL_VOCABULARY
    # With these fields, transformers detects the language even with an English-only model.
    languages = {
        "lang_to_id": {
            name: token for name, token in token_ids.items() if token in config_file["lang_ids"]
        },
        "task_to_id": {task: token_ids[f"<|{task}|>"] for task in ("transcribe", "translate")},
    }
    network.generation_config = transformers.GenerationConfig(
        max_length=sizes.n_text_ctx,
        suppress_tokens=config_file["suppress_ids"],
        begin_suppress_tokens=config_file["suppress_ids_begin"],
        alignment_heads=config_file["alignment_heads"],
        no_timestamps_token_id=token_ids["<|notimestamps|>"],
        prev_sot_token_id=token_ids["<|startofprev|>"],
        is_multilingual=multilingual,
        **languages if multilingual else {},
        **ends,
    )
    return network.eval()


def _whisper_cpp(kind: str, setup: Setup, _: ExitStack) -> Run:
    from pywhispercpp.model import Model  # noqa: PLC0415 - only for this system

    beams = {"beam_size": setup.beam, "patience": -1.0}
    search = {"beam_search": beams} if setup.beam > 1 else {}
    asr = Model(
        str(ggml.convert(find_model(setup.model), kind)),
        params_sampling_strategy=int(setup.beam > 1),
        redirect_whispercpp_logs_to=None,
        print_progress=False,
        language="en",
        **search,
    )

    def run(paths: list[str], on_segment: OnSegment) -> None:
        for path in paths:
            asr.transcribe(
                read(path), new_segment_callback=lambda segment: on_segment(segment.text)
            )

    return run


def _tensors(arrays: conversions.Arrays) -> dict[str, Any]:
    import torch  # noqa: PLC0415 - only for some systems

    return {name: torch.from_numpy(np.array(array)) for name, array in arrays.items()}


def read(path: str) -> npt.NDArray[np.float32]:
    """Return the samples of a wav file that the benchmarks wrote: 16 kHz, mono, 16 bits."""
    with wave.open(path, "rb") as file:
        samples = np.frombuffer(file.readframes(file.getnframes()), "<i2").astype(np.float32)
    samples /= 32768
    return samples


def _ggml_converter(kind: str) -> Callable[[str], Path]:
    return lambda model: ggml.convert(find_model(model), kind)


TORCH: Final[LoadKeywords] = {"engine": "torch"}

SYSTEMS: Final = {
    "whisperbatch": System(partial(_whisperbatch, {}), "whisperbatch"),
    "whisperbatch-openvino": System(
        partial(_whisperbatch, {"engine": "openvino"}), "whisperbatch", devices=(CPU,)
    ),
    "whisperbatch-onnxruntime": System(
        partial(_whisperbatch, {"engine": "onnxruntime"}), "whisperbatch", devices=(CPU,)
    ),
    "whisperbatch-ctranslate2": System(
        partial(_whisperbatch, {"engine": "ctranslate2"}), "whisperbatch"
    ),
    "whisperbatch-torch": System(partial(_whisperbatch, TORCH), "torch"),
    "whisperbatch-compiled": System(
        partial(_whisperbatch, {**TORCH, "compile": True}), "torch", devices=(CUDA,)
    ),
    "whisperbatch-diarization": System(partial(_whisperbatch, {}, diarize=True), "whisperbatch"),
    "faster-whisper": System(partial(_faster_whisper, batched=False), "faster-whisper"),
    "faster-whisper-batched": System(partial(_faster_whisper, batched=True), "faster-whisper"),
    "openai-whisper": System(_openai, "openai-whisper"),
    "transformers-bfloat16": System(partial(_transformers, "bfloat16"), "transformers"),
    "transformers-float32": System(partial(_transformers, "float32"), "transformers"),
    "whisper.cpp-float16": System(
        partial(_whisper_cpp, "float16"), "pywhispercpp", _ggml_converter("float16"), (CPU,)
    ),
    "whisper.cpp-q8_0": System(
        partial(_whisper_cpp, "q8_0"), "pywhispercpp", _ggml_converter("q8_0"), (CPU,)
    ),
}


ONLY_IF_NAMED: Final = (
    *("whisperbatch-openvino", "whisperbatch-onnxruntime"),  # "whisperbatch" is one of them
    "whisperbatch-diarization",  # no rival: the price of an option
    "whisperbatch-compiled",  # compiling takes minutes
)


def missing(names: Iterable[str]) -> dict[str, str]:
    """Return the systems that are not installed, each with its package."""
    return {name: SYSTEMS[name].package for name in names if not SYSTEMS[name].installed}
