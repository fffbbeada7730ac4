"""The settings of each engine, each declared and checked as a field of its class.

`load` accepts a settings object, or an engine's name and single settings as keywords
(engines/keywords.py). `EngineKeywords` describes them all: most engines have the same.
"""

from dataclasses import dataclass
from os import PathLike
from typing import Any, ClassVar, Final, Literal, TypeAlias, cast, get_args

from whisperbatch.errors import OptionError
from whisperbatch.options import SearchOptions, checks, convert_fields
from whisperbatch.text.messages import check_revision, shown

Quantization: TypeAlias = Literal["hqq4", "int8"]
GroupSize: TypeAlias = Literal[32, 64, 128]
OnnxRuntimeComputeType: TypeAlias = Literal["auto", "int8", "int8_bfloat16"]
OpenVinoComputeType: TypeAlias = Literal["auto", "int8", "int8_bfloat16"]
TorchComputeType: TypeAlias = Literal["auto", "float32", "bfloat16", "float16"]

GROUP_SIZE: Final = 64  # the default
MAX_DEVICE: Final = 1023  # number of a CUDA device
MAX_INTER_THREADS: Final = 64  # batches at a time: more wait for each other, and need more memory
MIN_KEPT_FRAMES: Final = 0.25  # onnx.frame_merging.MIN_SHARE: no row can be merged further
MAX_INTRA_THREADS: Final = 1024  # more than any machine's cores

OTHER_ENGINES: Final = {
    "int8_float32": "'ctranslate2'",
    "float32": "'ctranslate2' or 'torch'",
    "bfloat16": "'torch'",
}
"""Compute types without 8-bit products, and the engines that have them on a CPU."""


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

    def __post_init__(self) -> None:
        indexes = cast("Any", self.device_index)
        if type(indexes) is list:
            object.__setattr__(self, "device_index", tuple(indexes))
        convert_fields(self, CTranslate2Settings)
        for index in self.devices:
            checks.integer("device_index", index, minimum=0, maximum=MAX_DEVICE)
        if not self.devices or len(set(self.devices)) < len(self.devices):
            raise OptionError(
                f"device_index={shown(self.device_index)} must be a device number, or several "
                "different numbers"
            )
        if type(self.compute_type) is not str:
            raise OptionError(
                f"compute_type={shown(self.compute_type)} must be a name such as 'int8'"
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

    compute_type: OnnxRuntimeComputeType = "auto"
    inter_threads: int = 0
    intra_threads: int = 0
    kept_frames: float | None = None

    def __post_init__(self) -> None:
        convert_fields(self, OnnxRuntimeSettings)
        self._check_compute_type()
        _check_threads(self.inter_threads, self.intra_threads)
        check_kept_frames(self.kept_frames)
        check_revision(self.revision)

    def _check_compute_type(self) -> None:
        _check_8_bits("onnxruntime", self.compute_type, OnnxRuntimeComputeType)


@dataclass(frozen=True, kw_only=True)
class OpenVinoSettings(OnnxRuntimeSettings):
    """Settings of the engine "openvino" (an extra): "onnxruntime", with OpenVINO's encoder.

    The fields are keywords of `load`, which describes them.

    Raises:
        OptionError: a value has the wrong type or is out of range.
    """

    compute_type: OpenVinoComputeType = "auto"

    def _check_compute_type(self) -> None:
        _check_8_bits("openvino", self.compute_type, OpenVinoComputeType)


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

    def __post_init__(self) -> None:
        convert_fields(self, TorchSettings)
        if type(self.device_index) is not int:
            raise OptionError(
                f"device_index={shown(self.device_index)}: engine='torch' runs on one device; "
                "give its number"
            )
        checks.integer("device_index", self.device_index, minimum=0, maximum=MAX_DEVICE)
        checks.choice("compute_type", self.compute_type, get_args(TorchComputeType))
        checks.integer("inter_threads", self.inter_threads, minimum=0, maximum=MAX_INTER_THREADS)
        if self.inter_threads > 1:
            raise OptionError(
                f"inter_threads={self.inter_threads} has no effect with engine='torch', which "
                "computes one batch at a time; give engine='ctranslate2' or 'onnxruntime' or "
                "'openvino'"
            )
        if self.quantization is not None:
            checks.choice("quantization", self.quantization, get_args(Quantization))
        checks.choice("group_size", self.group_size, get_args(GroupSize))
        if self.quantization != "hqq4" and self.group_size != GROUP_SIZE:
            raise OptionError(
                f"group_size={self.group_size} has no effect without quantization='hqq4'"
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
                f"beam_size={options.beam_size}: draft_model works with greedy search only; "
                "give beam_size=1, or leave out draft_model"
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


def _check_8_bits(engine: str, given: Any, compute_types: object) -> None:  # noqa: ANN401 - of the user
    if type(given) is str and given in OTHER_ENGINES:
        raise OptionError(
            f"compute_type={given!r}: the decoder of engine={engine!r} computes with numbers of "
            f"8 bits; give engine={OTHER_ENGINES[given]}, or leave out compute_type"
        )
    checks.choice("compute_type", given, get_args(compute_types))


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
