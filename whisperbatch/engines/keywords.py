"""The keywords of `load` that set an engine; the engine that "auto" stands for.

Importing this file loads no large package.
"""

import functools
import inspect
import logging
from collections.abc import Mapping
from dataclasses import fields
from os import PathLike
from typing import Any, Literal, TypeAlias, TypedDict, cast, get_args

from whisperbatch.engines.settings import (
    SETTINGS,
    AutoSettings,
    EngineSettings,
    GroupSize,
    OnnxRuntimeComputeType,
    OpenVinoComputeType,
    Quantization,
    check_kept_frames,
)
from whisperbatch.errors import OptionError
from whisperbatch.options import OPTION_NAMES, checks, hint_for, is_same, plain
from whisperbatch.runtimes.machine import has_avx2
from whisperbatch.runtimes.openvino_package import openvino_is_installed
from whisperbatch.text.messages import one_line, shown

EngineName: TypeAlias = Literal["auto", "ctranslate2", "onnxruntime", "openvino", "torch"]
Device: TypeAlias = Literal["auto", "cpu", "cuda"]

log = logging.getLogger(__name__)


class EngineKeywords(TypedDict, total=False):
    """The settings of all engines. `help(whisperbatch.load)` shows their texts, too.

    Attributes:
        revision: a commit, branch or tag of the model's repository on the Hugging Face hub. None is
            the branch "main", in the version that is in the cache, if there is one.
        device_index: For ctranslate2: number of the CUDA device, or several numbers. Each device
            gets a copy of the weights. For torch: number of the CUDA device.
        compute_type: For ctranslate2: type of the weights and of the arithmetic: "int8", "float16",
            "float32", or another type of CTranslate2. "auto": float16 on CUDA and int8 on a CPU, if
            the device supports the type. For onnxruntime: "int8": large products are computed with
            numbers of 8 bits. "int8_bfloat16": OpenVINO (an extra) computes the encoder in
            bfloat16, or in float32 if the processor does not support bfloat16. "auto":
            int8_bfloat16 if the processor has AMX or AVX-512 with bfloat16 and OpenVINO is
            installed, otherwise int8. For openvino: "int8": as "int8_bfloat16" for onnxruntime.
            "auto": int8. For torch: "float32", "bfloat16" or "float16". "auto": float16 on CUDA,
            bfloat16 on a CPU that supports bfloat16, otherwise float32.
        inter_threads: For ctranslate2: number of batches computed at a time on each device, from 0
            to 64; 0: one. For onnxruntime and openvino: number of batches computed at a time, from
            0 to 64; 0: two, each on half of the cores, or one if there is one core or
            `intra_threads` is given. For torch: 0 or 1: this engine computes one batch at a time.
        intra_threads: For ctranslate2: CPU threads for each batch, from 0 to 1024; 0 divides the
            cores between the batches. Refused on CUDA. For onnxruntime and openvino: CPU threads
            for each batch, from 0 to 1024; 0 divides the cores between the batches.
        flash_attention: compute attention with the Flash Attention 2 kernels, on CUDA only. Only
            for ctranslate2.
        kept_frames: For ctranslate2 and torch: 1.0 or None: this engine keeps all of the encoder's
            frames. For onnxruntime and openvino: the share of the encoder's frames that is left
            after similar neighbours are merged, from 0.25 to 1.0. The number of frames is rounded,
            by at most 3 %. Fewer frames take less time; 1.0 merges none. Chunks with noise always
            keep all frames. None: 0.7 for the models base and tiny.en, for which this was measured,
            and 1.0 for other models.
        quantization: store the decoder's weights in 4 bits ("hqq4") or 8 bits ("int8"). Only for
            torch.
        group_size: for "hqq4": number of weights that share a scale: 32, 64 or 128. Smaller groups
            are more accurate and need more memory. Only for torch.
        draft_model: a smaller model with the same vocabulary, which guesses tokens in greedy search
            (speculative decoding). Needs `beam_size=1`. Only for torch.
        compile: compile the encoder and the decoder at their first use, on CUDA only. Only for
            torch.
    """

    revision: str | None
    device_index: int | tuple[int, ...]
    compute_type: str
    inter_threads: int
    intra_threads: int
    flash_attention: bool
    kept_frames: float | None
    quantization: Quantization | None
    group_size: GroupSize
    draft_model: str | PathLike[str] | None
    compile: bool


class LoadKeywords(EngineKeywords, total=False):
    """The keywords of `load`; the functions that load and free the model accept them, too."""

    device: Device
    engine: EngineName | EngineSettings


@functools.cache
def setting_parameters() -> dict[str, inspect.Parameter]:
    """Return the settings of all engines as parameters of a function, by name."""
    parameters: dict[str, inspect.Parameter] = {}
    for settings in SETTINGS.values():
        for field in fields(settings):
            parameter = inspect.Parameter(
                field.name,
                inspect.Parameter.KEYWORD_ONLY,
                default=field.default,
                annotation=field.type,
            )
            parameters.setdefault(field.name, parameter)
    return parameters


def choose_settings(
    engine: str | EngineSettings, device: str, keywords: Mapping[str, Any]
) -> EngineSettings:
    """Return the settings to load with.

    "auto" is the fastest engine whose settings the keywords are: "onnxruntime" on CPUs with AVX2.
    On CPUs without AVX2, of another kind (ARM) or unknown, where nothing was measured, "openvino",
    if OpenVINO is installed. Otherwise, and on CUDA, "ctranslate2".

    Raises:
        OptionError: see `load_engine`.
    """
    engine, keywords = _checked(engine, device, keywords)
    if engine == "auto":
        engine = _fastest_engine(device, keywords)
    return _settings(engine, keywords)


def settings_of(keywords: Mapping[str, Any]) -> EngineSettings:
    """Return the settings of these keywords of `load`, to be checked before a model is loaded.

    For "auto" these are `AutoSettings`: no library is imported, and no GPU is tried.

    Raises:
        OptionError: see `load_engine`.
    """
    given = dict(keywords)
    engine, device = given.pop("engine", "auto"), given.pop("device", "auto")
    return _settings(*_checked(engine, device, given))


def _checked(
    engine: object, device: object, keywords: Mapping[str, Any]
) -> tuple[str | EngineSettings, dict[str, Any]]:
    """Return the engine, and the keywords that are not at their defaults, in Python's own types.

    Raises:
        OptionError: the engine, the device or a keyword is unknown, or `engine` is a settings
            object and there are keywords.
    """
    check_names(keywords)
    check_device(device)
    given = {name: plain(value) for name, value in keywords.items()}
    given = {name: value for name, value in given.items() if not is_default(name, value)}
    engine = plain(engine)
    if issubclass(type(engine), EngineSettings):
        if given:
            raise OptionError(f"{next(iter(given))}: give this setting in the settings object")
        return cast("EngineSettings", engine), given
    if type(engine) is not str or engine not in {"auto", *SETTINGS}:
        hint = "; a settings class needs parentheses" if issubclass(type(engine), type) else ""
        raise OptionError(f"engine={shown(engine)} is none of auto, {', '.join(SETTINGS)}{hint}")
    return engine, given


def _settings(engine: str | EngineSettings, keywords: Mapping[str, Any]) -> EngineSettings:
    """Return the settings of an engine, or of "auto".

    Every engine accepts `kept_frames=1`: it keeps all of the encoder's frames.

    Raises:
        OptionError: a keyword is wrong or has no effect.
    """
    if not isinstance(engine, str):
        return engine
    kind = AutoSettings if engine == "auto" else SETTINGS[engine]
    names = {field.name for field in fields(kind)}
    given = dict(keywords)
    share = None if "kept_frames" in names else given.pop("kept_frames", None)
    for name, value in given.items():
        if name not in names:
            others = " or ".join(repr(other) for other in SETTINGS if name in _names(other))
            refusing = "ctranslate2" if engine == "auto" else engine  # the last choice of "auto"
            raise OptionError(
                f"{name}={shown(value)} has no effect with engine={refusing!r}; "
                f"give engine={others}"
            )
    settings = kind(**given)
    check_kept_frames(share)
    if share not in {None, 1}:
        raise OptionError(
            f"kept_frames={share}: engine={engine!r} keeps all frames; "
            "give engine='onnxruntime' or 'openvino', or leave out kept_frames"
        )
    return settings


def is_default(name: str, value: object) -> bool:
    """Return whether a value is the default of a setting; 0 is not the default False."""
    return is_same(value, setting_parameters()[name].default)


def check_device(device: object) -> str:
    """Return the device as a str.

    Raises:
        OptionError: the value is not the name of a device.
    """
    device = plain(device)
    checks.choice("device", device, get_args(Device))
    return cast("str", device)


def check_names(keywords: Mapping[str, Any]) -> None:
    """Check that each keyword is a setting of an engine.

    Raises:
        OptionError: the message says how to correct the name.
    """
    names = {name for engine in SETTINGS for name in _names(engine)}
    for name in keywords:
        if name in names:
            continue
        if name in OPTION_NAMES:
            raise OptionError(f"{name} is not a keyword of load; give {name} to transcribe")
        hint = hint_for(name, names) or "help(whisperbatch.load) lists all keywords"
        raise OptionError(f"{one_line(name)} is not a keyword of load; {hint}")


def _fastest_engine(device: str, keywords: Mapping[str, Any]) -> str:
    """Return the engine that "auto" stands for with these keywords."""
    if is_cuda(device):
        return "ctranslate2"
    if has_avx2():
        fits = _fits("onnxruntime", keywords, OnnxRuntimeComputeType)
        return "onnxruntime" if fits else "ctranslate2"
    fits = _fits("openvino", keywords, OpenVinoComputeType)
    return "openvino" if fits and openvino_is_installed("the encoder") else "ctranslate2"


def _fits(engine: str, keywords: Mapping[str, Any], compute_types: object) -> bool:
    """Return whether the keywords are settings of an engine."""
    other = [name for name in keywords if name not in _names(engine)]
    compute_type = keywords.get("compute_type", "auto")
    if type(compute_type) is str and compute_type not in get_args(compute_types):
        other.append("compute_type")
    if other:
        log.info("engine: not %s, because of %s", engine, ", ".join(other))
    return not other


def is_cuda(device: str) -> bool:
    """Return whether "cuda" or "auto" is CUDA on this machine."""
    if device != "auto":
        return device == "cuda"
    import ctranslate2  # noqa: PLC0415 - heavy

    from whisperbatch.engines.ctranslate2.cuda import usable_device  # noqa: PLC0415 - heavy

    return bool(ctranslate2.get_cuda_device_count()) and usable_device(device, (0,)) != "cpu"


def _names(engine: str) -> set[str]:
    """Return the names of an engine's settings."""
    return {field.name for field in fields(SETTINGS[engine])}
