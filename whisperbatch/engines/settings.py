"""The settings of each engine, the keywords of `load` that set them, and what "auto" stands for.

Each setting is declared and checked as a field of its engine's class. `load` accepts a settings
object, or an engine's name and single settings as keywords. `EngineKeywords` describes them all:
most engines have the same. Importing this file loads no large package.
"""

import functools
import inspect
import logging
from collections.abc import Mapping
from dataclasses import dataclass, fields
from os import PathLike
from typing import Any, ClassVar, Final, Literal, TypeAlias, TypedDict, cast, get_args

from whisperbatch.errors import OptionError
from whisperbatch.options import (
    OPTION_NAMES,
    SearchOptions,
    checks,
    convert_fields,
    device_hint,
    hint_for,
    in_python,
    is_same,
    plain,
)
from whisperbatch.runtimes.machine import has_avx2
from whisperbatch.runtimes.openvino_package import openvino_is_installed
from whisperbatch.text.messages import check_revision, one_line, short_repr, shown

log = logging.getLogger(__name__)

EngineName: TypeAlias = Literal["auto", "ctranslate2", "onnxruntime", "openvino", "torch"]
Device: TypeAlias = Literal["auto", "cpu", "cuda"]
Quantization: TypeAlias = Literal["hqq4", "int8"]
GroupSize: TypeAlias = Literal[32, 64, 128]
OnnxComputeType: TypeAlias = Literal["auto", "int8", "int8_bfloat16"]
TorchComputeType: TypeAlias = Literal["auto", "float32", "bfloat16", "float16"]

GROUP_SIZE: Final = 64  # the default
MAX_DEVICE: Final = 1023  # number of a CUDA device
MAX_INTER_THREADS: Final = 64  # batches at a time: more wait for each other, and need more memory
MIN_KEPT_FRAMES: Final = 0.25  # onnx.encoder.MIN_SHARE: no row can be merged further
MAX_INTRA_THREADS: Final = 1024  # more than any machine's cores

ENGINES_OF_TYPES: Final = {
    "int8_float32": "'ctranslate2'",
    "int8_bfloat16": "'onnxruntime' or 'openvino'",
    "float32": "'ctranslate2' or 'torch'",
    "bfloat16": "'torch'",
}
"""Compute types that some engines lack on a CPU, and the engines that have them."""


@dataclass(frozen=True, kw_only=True)
class EngineSettings:
    """Base class of the settings of an engine.

    Attributes:
        reads_transformers: whether the engine also reads weights that transformers saved.
        revision: of the model on the Hugging Face hub; each engine has this setting.
    """

    reads_transformers: ClassVar[bool] = False
    revision: str | None = None

    def check(self, options: SearchOptions) -> None:
        """Check that an engine with these settings honours these options.

        Args:
            options: of the search.

        Raises:
            OptionError: the engine does not support an option; the message names the option.
        """


@dataclass(frozen=True, kw_only=True)
class CTranslate2Settings(EngineSettings):
    """Settings of the engine "ctranslate2", for CPU and CUDA.

    The fields are keywords of `load`, which describes them.

    Raises:
        OptionError: a value has the wrong type or is out of range.
    """

    device_index: int | tuple[int, ...] = 0
    compute_type: str = "auto"
    inter_threads: int = 0
    intra_threads: int = 0
    flash_attention: bool = False

    __repr__ = short_repr

    def __post_init__(self) -> None:
        indexes = cast("Any", self.device_index)
        if type(indexes) is list:
            object.__setattr__(self, "device_index", tuple(indexes))
        convert_fields(self, CTranslate2Settings)
        for index in self.devices:
            checks.integer("device_index", index, minimum=0, maximum=MAX_DEVICE)
        if not self.devices or len(set(self.devices)) < len(self.devices):
            raise OptionError(
                f"`device_index={shown(self.device_index)}` must be a device number, or several "
                "different numbers"
            )
        if type(self.compute_type) is not str:
            raise OptionError(
                f"`compute_type={shown(self.compute_type)}` must be a name such as 'int8'"
            )
        _check_threads(self.inter_threads, self.intra_threads)
        checks.boolean("flash_attention", self.flash_attention)
        check_revision(self.revision)

    @property
    def devices(self) -> tuple[int, ...]:
        """The numbers of the CUDA devices."""
        indexes = cast("Any", self.device_index)
        return indexes if type(indexes) is tuple else (indexes,)


@dataclass(frozen=True, kw_only=True)
class AutoSettings(CTranslate2Settings):
    """What the keywords of `load` can set for "auto", before it has chosen an engine.

    These are the settings of "ctranslate2", which "auto" chooses where no other engine fits, and
    `kept_frames`, with which the engine must be another.

    Raises:
        OptionError: a value has the wrong type or is out of range.
    """

    kept_frames: float | None = None

    __repr__ = short_repr

    def __post_init__(self) -> None:
        super().__post_init__()
        check_kept_frames(self.kept_frames)


@dataclass(frozen=True, kw_only=True)
class OnnxRuntimeSettings(EngineSettings):
    """Settings of the engine "onnxruntime", the fastest on a CPU with AVX2.

    The fields are keywords of `load`, which describes them.

    Raises:
        OptionError: a value has the wrong type or is out of range.
    """

    name: ClassVar[str] = "onnxruntime"

    compute_type: OnnxComputeType = "auto"
    inter_threads: int = 0
    intra_threads: int = 0
    kept_frames: float | None = None

    __repr__ = short_repr

    def __post_init__(self) -> None:
        convert_fields(self, OnnxRuntimeSettings)
        _check_8_bits(self.name, self.compute_type)
        _check_threads(self.inter_threads, self.intra_threads)
        check_kept_frames(self.kept_frames)
        check_revision(self.revision)


@dataclass(frozen=True, kw_only=True)
class OpenVinoSettings(OnnxRuntimeSettings):
    """Settings of the engine "openvino" (an extra): "onnxruntime", with OpenVINO's encoder.

    The fields are keywords of `load`, which describes them.

    Raises:
        OptionError: a value has the wrong type or is out of range.
    """

    name: ClassVar[str] = "openvino"

    __repr__ = short_repr


@dataclass(frozen=True, kw_only=True)
class TorchSettings(EngineSettings):
    """Settings of the engine "torch", for CPU and CUDA. Needs the extra `torch`.

    The fields are keywords of `load`, which describes them.

    Raises:
        OptionError: a value has the wrong type or is out of range, or has no effect.
    """

    reads_transformers: ClassVar[bool] = True

    device_index: int = 0
    compute_type: TorchComputeType = "auto"
    inter_threads: int = 0
    quantization: Quantization | None = None
    group_size: GroupSize = GROUP_SIZE
    draft_model: str | PathLike[str] | None = None
    compile: bool = False

    __repr__ = short_repr

    def __post_init__(self) -> None:
        convert_fields(self, TorchSettings)
        if type(self.device_index) is not int:
            raise OptionError(
                f"`device_index={shown(self.device_index)}`: `engine='torch'` runs on one device; "
                "give its number"
            )
        checks.integer("device_index", self.device_index, minimum=0, maximum=MAX_DEVICE)
        checks.choice("compute_type", self.compute_type, get_args(TorchComputeType))
        checks.integer("inter_threads", self.inter_threads, minimum=0, maximum=MAX_INTER_THREADS)
        if self.inter_threads > 1:
            raise OptionError(
                f"`inter_threads={self.inter_threads}` has no effect with `engine='torch'`, which "
                "computes one batch at a time; give `engine='ctranslate2'` or 'onnxruntime' or "
                "'openvino'"
            )
        if self.quantization is not None:
            checks.choice("quantization", self.quantization, get_args(Quantization))
        checks.choice("group_size", self.group_size, get_args(GroupSize))
        if self.quantization != "hqq4" and self.group_size != GROUP_SIZE:
            raise OptionError(
                f"`group_size={self.group_size}` has no effect without `quantization='hqq4'`"
            )
        if self.draft_model is not None:
            checks.path("draft_model", self.draft_model)
        checks.boolean("compile", self.compile)
        check_revision(self.revision)

    def check(self, options: SearchOptions) -> None:
        """Check that an engine with these settings honours these options.

        Args:
            options: of the search.

        Raises:
            OptionError: there is a draft model, which guesses tokens of a greedy search only.
        """
        if self.draft_model is not None and options.beam_size > 1:
            raise OptionError(
                f"`beam_size={options.beam_size}`: `draft_model` works with greedy search only; "
                "give `beam_size=1`, or leave out `draft_model`"
            )


SETTINGS: Final[dict[str, type[EngineSettings]]] = {
    "ctranslate2": CTranslate2Settings,
    "onnxruntime": OnnxRuntimeSettings,
    "openvino": OpenVinoSettings,
    "torch": TorchSettings,
}
"""The engines by name, each with the class of its settings.

If several engines have a setting, the type in the first of them includes the types in the others.
"""


def _check_8_bits(engine: str, given: Any) -> None:  # noqa: ANN401 - of the user
    choices = get_args(OnnxComputeType)
    if type(given) is str and given not in choices and given in ENGINES_OF_TYPES:
        raise OptionError(
            f"`compute_type={given!r}`: the decoder of `engine={engine!r}` computes with numbers "
            f"of 8 bits; give `engine={ENGINES_OF_TYPES[given]}`, or leave out `compute_type`"
        )
    checks.choice("compute_type", given, choices)


def _check_threads(inter_threads: object, intra_threads: object) -> None:
    checks.integer("inter_threads", inter_threads, minimum=0, maximum=MAX_INTER_THREADS)
    checks.integer("intra_threads", intra_threads, minimum=0, maximum=MAX_INTRA_THREADS)


def check_kept_frames(kept_frames: object) -> None:
    """Check the share of the encoder's frames that is left after similar neighbours are merged.

    Raises:
        OptionError: the share is not None, and no number from `MIN_KEPT_FRAMES` to 1.
    """
    if kept_frames is not None:
        checks.number("kept_frames", kept_frames, minimum=MIN_KEPT_FRAMES, maximum=1)


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
            to 64; 0: one on a CPU, and two on a GPU whose memory holds two batches of 8 rows with
            five beams. For onnxruntime and openvino: number of batches computed at a time, from
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
    if OpenVINO is installed or the compute type needs it. Otherwise, and on CUDA, "ctranslate2".

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
            raise OptionError(f"`{next(iter(given))}`: give this setting in the settings object")
        return cast("EngineSettings", engine), given
    if type(engine) is not str or engine not in {"auto", *SETTINGS}:
        hint = "; a settings class needs parentheses" if issubclass(type(engine), type) else ""
        raise OptionError(f"`engine={shown(engine)}` is none of auto, {', '.join(SETTINGS)}{hint}")
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
                f"`{name}={shown(value)}` has no effect with `engine={refusing!r}`; "
                f"give `engine={others}`"
            )
    settings = kind(**given)
    check_kept_frames(share)
    if share not in {None, 1}:
        raise OptionError(
            f"`kept_frames={share}`: `engine={engine!r}` keeps all frames; "
            "give `engine='onnxruntime'` or 'openvino', or leave out `kept_frames`"
        )
    return settings


def is_default(name: str, value: object) -> bool:
    """Return whether a value is the default of a setting; 0 is not the default False.

    "default" is CTranslate2's name for the compute type "auto".
    """
    if name == "compute_type" and is_same(value, "default"):
        return True
    return is_same(value, setting_parameters()[name].default)


def check_device(device: object) -> str:
    """Return the device as a str.

    Raises:
        OptionError: the value is not the name of a device.
    """
    device = plain(device)
    if type(device) is str and (hint := device_hint(device)):
        raise OptionError(
            f"`device={shown(device)}` is none of {', '.join(get_args(Device))}; {hint}"
        )
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
        spell = in_python({*names, "model", "device", "engine"}, "an option of transcribe")
        hint = hint_for(name, names, spell) or "help(whisperbatch.load) lists all keywords"
        raise OptionError(f"{one_line(name)} is not a keyword of load; {hint}")


def _fastest_engine(device: str, keywords: Mapping[str, Any]) -> str:
    """Return the engine that "auto" stands for with these keywords."""
    if is_cuda(device):
        return "ctranslate2"
    engine = "onnxruntime" if has_avx2() else "openvino"
    compute_type = keywords.get("compute_type", "auto")
    other = [name for name in keywords if name not in _names(engine)]
    if type(compute_type) is str and compute_type not in get_args(OnnxComputeType):
        other.append("compute_type")
    if other:
        log.info("engine: not %s, because of %s", engine, ", ".join(other))
        return "ctranslate2"
    # CTranslate2 lacks this type on a CPU
    is_sure = engine == "onnxruntime" or compute_type == "int8_bfloat16"
    return engine if is_sure or openvino_is_installed("the encoder") else "ctranslate2"


def is_cuda(device: str) -> bool:
    """Return whether "cuda" or "auto" is CUDA on this machine."""
    if device != "auto":
        return device == "cuda"
    import ctranslate2  # noqa: PLC0415 - heavy

    from whisperbatch.engines.ctranslate2.cuda import usable_device  # noqa: PLC0415 - heavy

    return bool(ctranslate2.get_cuda_device_count()) and usable_device(device, (0,)) != "cpu"


def _names(engine: str) -> set[str]:
    return {field.name for field in fields(SETTINGS[engine])}
