"""whisperbatch and its rivals as they are timed: each a function of files.

    whisperbatch               with what "auto" takes: OpenVINO where it is installed
    whisperbatch-ctranslate2   without OpenVINO
    whisperbatch-torch         on PyTorch, as it is loaded by itself
    faster-whisper             one window after the other
    faster-whisper-batched     chunks, 8 at a time
    openai-whisper             one window after the other, float32
    transformers-bfloat16      the pipeline over chunks of 30 s, 8 at a time
    transformers-float32       likewise
    whisper.cpp-float16        one window after the other, by pywhispercpp
    whisper.cpp-q8_0           likewise, matrices in 8 bits

All run the same weights on the CPU (`conversions`, `ggml`), in int8 where nothing else is said.
They are told that the language is English and have their own defaults for the rest, with one
exception: transformers is asked for timestamps. Without them the pipeline had 35 % of the words of
a minute wrong, with them 5 %.

openai-whisper and transformers hand over their text when they have all of it. They, which would run
FFmpeg's program, and whisper.cpp are given the samples of a file (`read`).
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
from whisperbatch.engines.special_tokens import MULTILINGUAL
from whisperbatch.models.registry import find_model

BATCH: Final = 8  # of those that want a number; whisperbatch has its own
END: Final = "<|endoftext|>"

Hear: TypeAlias = Callable[[str], None]  # the text of a segment, as soon as it is there
Run: TypeAlias = Callable[[list[str], Hear], None]  # of paths
Open: TypeAlias = Callable[[str, int, ExitStack], Run]  # of a model's name and a beam


@dataclass(frozen=True, slots=True)
class System:
    """Something that is timed.

    Attributes:
        open: loads it.
        package: what has to be installed for it.
        prepare: makes what it loads, where that takes files of its own, ahead of the measurement.
    """

    open: Open
    package: str
    prepare: Callable[[str], object] | None = None

    @property
    def installed(self) -> bool:
        """Whether its package is."""
        try:
            version(self.package)
        except PackageNotFoundError:
            return False
        return True


def _ours(settings: Mapping[str, Any], model: str, beam: int, stack: ExitStack) -> Run:
    """Streams one recording; fills batches from several."""
    asr = stack.enter_context(wb.load(model, device="cpu", **settings))

    def run(paths: list[str], hear: Hear) -> None:
        if len(paths) == 1:
            with asr.stream(paths[0], language="en", beam_size=beam) as segments:
                for segment in segments:
                    hear(segment.text)
            return
        for found in asr.transcribe_many(paths, language="en", beam_size=beam):
            hear(found.text)

    return run


def _faster_whisper(model: str, beam: int, _: ExitStack, *, batched: bool) -> Run:
    from faster_whisper import BatchedInferencePipeline, WhisperModel  # noqa: PLC0415 - a rival

    rival = WhisperModel(str(find_model(model)), device="cpu", compute_type="int8")
    pipeline = BatchedInferencePipeline(rival)

    def run(paths: list[str], hear: Hear) -> None:
        for path in paths:
            if batched:
                segments, _ = pipeline.transcribe(
                    path, language="en", beam_size=beam, batch_size=BATCH
                )
            else:
                segments, _ = rival.transcribe(path, language="en", beam_size=beam)
            for segment in segments:
                hear(segment.text)

    return run


def _openai(model: str, beam: int, _: ExitStack) -> Run:
    from whisper.model import ModelDimensions, Whisper  # noqa: PLC0415 - a rival

    arrays = conversions.read_openai(find_model(model))
    rival = Whisper(ModelDimensions(**asdict(conversions.dimensions(arrays))))
    rival.load_state_dict(_tensors(arrays))

    def run(paths: list[str], hear: Hear) -> None:
        for path in paths:
            found = rival.transcribe(
                read(path),
                language="en",
                beam_size=beam if beam > 1 else None,  # greedy is another class there
                fp16=False,
            )
            for segment in found["segments"]:
                hear(segment["text"])

    return run


def _transformers(precision: str, model: str, beam: int, _: ExitStack) -> Run:
    import transformers  # noqa: PLC0415 - a rival

    transformers.logging.set_verbosity_error()
    directory = find_model(model)
    known = json.loads((directory / "tokenizer.json").read_bytes())["added_tokens"]
    rival = _hugging_face(directory, precision, {one["content"]: one["id"] for one in known})
    pipeline = transformers.pipeline(
        "automatic-speech-recognition",
        model=rival,
        tokenizer=transformers.WhisperTokenizer(
            tokenizer_file=str(directory / "tokenizer.json"),
            pad_token=END,
            additional_special_tokens=[one["content"] for one in known if one["special"]],
        ),
        feature_extractor=transformers.WhisperFeatureExtractor(rival.config.num_mel_bins),
        device="cpu",
        chunk_length_s=30,
        batch_size=BATCH,
        ignore_warning=True,  # that chunks are less exact than one window after the other
    )
    options: dict[str, object] = {"num_beams": beam}
    if rival.generation_config.is_multilingual:
        options |= {"language": "en", "task": "transcribe"}

    def run(paths: list[str], hear: Hear) -> None:
        samples = (read(path) for path in paths)  # a generator, and nothing else, is read lazily
        for found in pipeline(samples, return_timestamps=True, generate_kwargs=options):
            hear(found["text"])

    return run


def _hugging_face(directory: Path, precision: str, tokens: Mapping[str, int]) -> Any:  # noqa: ANN401 - it is not always there
    """The model of transformers, with all that a repository of the hub would say of it."""
    import torch  # noqa: PLC0415 - a rival's own
    import transformers  # noqa: PLC0415 - a rival

    arrays = conversions.read_openai(directory)
    sizes = conversions.dimensions(arrays)
    ends = {f"{name}_token_id": tokens[END] for name in ("bos", "eos", "pad")}
    ends["decoder_start_token_id"] = tokens["<|startoftranscript|>"]
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
    rival = transformers.WhisperForConditionalGeneration(config).to(getattr(torch, precision))
    rival.load_state_dict(_tensors(conversions.for_transformers(arrays)))
    stored = json.loads((directory / "config.json").read_bytes())
    several = sizes.n_vocab >= MULTILINGUAL
    languages = {  # a model of English that has them looks for the language
        "lang_to_id": {name: n for name, n in tokens.items() if n in stored["lang_ids"]},
        "task_to_id": {task: tokens[f"<|{task}|>"] for task in ("transcribe", "translate")},
    }
    rival.generation_config = transformers.GenerationConfig(
        max_length=sizes.n_text_ctx,
        suppress_tokens=stored["suppress_ids"],
        begin_suppress_tokens=stored["suppress_ids_begin"],
        alignment_heads=stored["alignment_heads"],
        no_timestamps_token_id=tokens["<|notimestamps|>"],
        prev_sot_token_id=tokens["<|startofprev|>"],
        is_multilingual=several,
        **languages if several else {},
        **ends,
    )
    return rival.eval()


def _whisper_cpp(kind: str, model: str, beam: int, _: ExitStack) -> Run:
    from pywhispercpp.model import Model  # noqa: PLC0415 - a rival

    search = {"beam_search": {"beam_size": beam, "patience": -1.0}} if beam > 1 else {}
    rival = Model(
        str(ggml.convert(find_model(model), kind)),
        params_sampling_strategy=int(beam > 1),
        redirect_whispercpp_logs_to=None,
        print_progress=False,
        language="en",
        **search,
    )

    def run(paths: list[str], hear: Hear) -> None:
        for path in paths:
            rival.transcribe(read(path), new_segment_callback=lambda segment: hear(segment.text))

    return run


def _tensors(arrays: conversions.Arrays) -> dict[str, Any]:
    import torch  # noqa: PLC0415 - some rivals' own

    return {name: torch.from_numpy(np.array(array)) for name, array in arrays.items()}


def read(path: str) -> npt.NDArray[np.float32]:
    """The samples of a wav file as the benchmarks write them: 16 kHz, mono, 16 bits."""
    with wave.open(path, "rb") as file:
        samples = np.frombuffer(file.readframes(file.getnframes()), "<i2").astype(np.float32)
    samples /= 32768
    return samples


def _prepared(kind: str) -> Callable[[str], Path]:
    return lambda model: ggml.convert(find_model(model), kind)


INT8: Final = {"compute_type": "int8"}
ALONE: Final = {**INT8, "encoder": "ctranslate2", "decoder": "ctranslate2"}

SYSTEMS: Final = {
    "whisperbatch": System(partial(_ours, INT8), "whisperbatch"),
    "whisperbatch-ctranslate2": System(partial(_ours, ALONE), "whisperbatch"),
    "whisperbatch-torch": System(partial(_ours, {"engine": "torch"}), "torch"),
    "faster-whisper": System(partial(_faster_whisper, batched=False), "faster-whisper"),
    "faster-whisper-batched": System(partial(_faster_whisper, batched=True), "faster-whisper"),
    "openai-whisper": System(_openai, "openai-whisper"),
    "transformers-bfloat16": System(partial(_transformers, "bfloat16"), "transformers"),
    "transformers-float32": System(partial(_transformers, "float32"), "transformers"),
    "whisper.cpp-float16": System(
        partial(_whisper_cpp, "float16"), "pywhispercpp", _prepared("float16")
    ),
    "whisper.cpp-q8_0": System(partial(_whisper_cpp, "q8_0"), "pywhispercpp", _prepared("q8_0")),
}


def missing(names: Iterable[str]) -> dict[str, str]:
    """Those of the systems that are not installed, and the package that each wants."""
    return {name: SYSTEMS[name].package for name in names if not SYSTEMS[name].installed}
