"""The settings of each engine, declared once.

`load` accepts a settings object, or an engine's name and single settings as keywords
(engines/keywords.py). The declaration of a setting is a field of its class: name, type, default,
an entry under "Attributes" and a check. `make declarations` writes the texts that repeat a part of
it: the types of keywords (keyword_types.py), the docstring of `load` and docs/reference/options.md.
"""

from dataclasses import dataclass
from os import PathLike
from typing import Any, ClassVar, Final, Literal, TypeAlias, cast, get_args

from whisperbatch.errors import OptionError
from whisperbatch.options import SearchOptions, checks, convert_fields
from whisperbatch.text.messages import shown
from whisperbatch.text.revisions import check_revision

Quantization: TypeAlias = Literal["hqq4", "int8"]
GroupSize: TypeAlias = Literal[32, 64, 128]
OnnxRuntimeComputeType: TypeAlias = Literal["auto", "int8", "int8_bfloat16"]
OpenVinoComputeType: TypeAlias = Literal["auto", "int8", "int8_float32", "bfloat16", "float32"]
TorchComputeType: TypeAlias = Literal["auto", "float32", "bfloat16", "float16"]

GROUP_SIZE: Final = 64  # the default
MAX_DEVICE: Final = 1023  # number of a CUDA device
MAX_INTER_THREADS: Final = 64  # batches at a time: more wait for each other, and need more memory
MIN_KEPT_FRAMES: Final = 0.25  # frame_merging.MIN_SHARE: no row can be merged further
MAX_INTRA_THREADS: Final = 1024  # more than any machine's cores


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

    Attributes:
        device_index: number of the CUDA device, or several numbers. Each device gets a copy of the
            weights.
        compute_type: type of the weights and of the arithmetic: "int8", "float16", "float32", or
            another type of CTranslate2. "auto": float16 on CUDA and int8 on a CPU, if the device
            supports the type.
        inter_threads: number of batches computed at a time on each device, from 0 to 64; 0: one.
        intra_threads: CPU threads for each batch, from 0 to 1024; 0 divides the cores between the
            batches. Refused on CUDA.
        flash_attention: compute attention with the Flash Attention 2 kernels, on CUDA only.
        kept_frames: 1.0 or None: this engine keeps all of the encoder's frames.
        revision: a commit, branch or tag of the model's repository on the Hugging Face hub. None is
            the branch "main", in the version that is in the cache, if there is one.

    Raises:
        OptionError: a value has the wrong type or is out of range.
    """

    device_index: int | tuple[int, ...] = 0
    compute_type: str = "auto"
    inter_threads: int = 0
    intra_threads: int = 0
    flash_attention: bool = False
    kept_frames: float | None = None
    revision: str | None = None

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
        _check_kept_frames(self.kept_frames)
        check_revision(self.revision)

    @property
    def devices(self) -> tuple[int, ...]:
        """The numbers of the CUDA devices."""
        indexes = cast("Any", self.device_index)
        return indexes if type(indexes) is tuple else (indexes,)


@dataclass(frozen=True, kw_only=True)
class OnnxRuntimeSettings(EngineSettings):
    """Settings of the engine "onnxruntime", the fastest on a CPU with AMX or without AVX-512.

    Attributes:
        compute_type: "int8": large products are computed with numbers of 8 bits. "int8_bfloat16":
            OpenVINO (an extra) computes the encoder in bfloat16, or in float32 if the processor
            does not support bfloat16. "auto": int8_bfloat16 if the processor has AMX and OpenVINO
            is installed, otherwise int8.
        inter_threads: number of batches computed at a time, from 0 to 64; 0: two, each on half of
            the cores, or one if there is one core or `intra_threads` is given.
        intra_threads: CPU threads for each batch, from 0 to 1024; 0 divides the cores between the
            batches.
        kept_frames: the share of the encoder's frames that is left after similar neighbours are
            merged, as for "openvino".
        revision: a commit, branch or tag of the model's repository on the Hugging Face hub. None is
            the branch "main", in the version that is in the cache, if there is one.

    Raises:
        OptionError: a value has the wrong type or is out of range.
    """

    compute_type: OnnxRuntimeComputeType = "auto"
    inter_threads: int = 0
    intra_threads: int = 0
    kept_frames: float | None = None
    revision: str | None = None

    def __post_init__(self) -> None:
        convert_fields(self, OnnxRuntimeSettings)
        checks.choice("compute_type", self.compute_type, get_args(OnnxRuntimeComputeType))
        _check_threads(self.inter_threads, self.intra_threads)
        _check_kept_frames(self.kept_frames)
        check_revision(self.revision)


@dataclass(frozen=True, kw_only=True)
class OpenVinoSettings(EngineSettings):
    """Settings of the engine "openvino" (an extra), the fastest with AVX-512 and without AMX.

    Attributes:
        compute_type: "int8" stores the weights in 8 bits; "bfloat16" stores the weights as they
            are. Both compute in bfloat16 if the processor supports bfloat16, otherwise in float32.
            "int8_float32" and "float32" always compute in float32. "auto": int8.
        inter_threads: number of batches computed at a time, from 0 to 64; 0: one.
        intra_threads: CPU threads for each batch, from 0 to 1024; 0 divides the cores between the
            batches.
        kept_frames: the share of the encoder's frames that is left after similar neighbours are
            merged, from 0.25 to 1.0. The number of frames is rounded, by at most 3 %. Fewer frames
            take less time; 1.0 merges none. Chunks with noise always keep all frames. None: 0.7 for
            the models base and tiny.en, for which this was measured, and 1.0 for other models.
        revision: a commit, branch or tag of the model's repository on the Hugging Face hub. None is
            the branch "main", in the version that is in the cache, if there is one.

    Raises:
        OptionError: a value has the wrong type or is out of range.
    """

    compute_type: OpenVinoComputeType = "auto"
    inter_threads: int = 0
    intra_threads: int = 0
    kept_frames: float | None = None
    revision: str | None = None

    def __post_init__(self) -> None:
        convert_fields(self, OpenVinoSettings)
        checks.choice("compute_type", self.compute_type, get_args(OpenVinoComputeType))
        _check_threads(self.inter_threads, self.intra_threads)
        _check_kept_frames(self.kept_frames)
        check_revision(self.revision)


@dataclass(frozen=True, kw_only=True)
class TorchSettings(EngineSettings):
    """Settings of the engine "torch", for CPU and CUDA. Needs the extra `torch`.

    Attributes:
        device_index: number of the CUDA device.
        compute_type: "float32", "bfloat16" or "float16". "auto": float16 on CUDA, bfloat16 on a CPU
            that supports bfloat16, otherwise float32.
        inter_threads: 0 or 1: this engine computes one batch at a time.
        quantization: store the decoder's weights in 4 bits ("hqq4") or 8 bits ("int8").
        group_size: for "hqq4": number of weights that share a scale: 32, 64 or 128. Smaller groups
            are more accurate and need more memory.
        draft_model: a smaller model with the same vocabulary, which guesses tokens in greedy search
            (speculative decoding). Needs `beam_size=1`.
        compile: compile the encoder and the decoder at their first use, on CUDA only.
        kept_frames: 1.0 or None: this engine keeps all of the encoder's frames.
        revision: a commit, branch or tag of the model's repository on the Hugging Face hub. None is
            the branch "main", in the version that is in the cache, if there is one.

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
    kept_frames: float | None = None
    revision: str | None = None

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
        _check_kept_frames(self.kept_frames)
        check_revision(self.revision)
        check_all_frames_kept(self.kept_frames, "torch")

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


def _check_threads(inter_threads: object, intra_threads: object) -> None:
    checks.integer("inter_threads", inter_threads, minimum=0, maximum=MAX_INTER_THREADS)
    checks.integer("intra_threads", intra_threads, minimum=0, maximum=MAX_INTRA_THREADS)


def _check_kept_frames(kept_frames: object) -> None:
    if kept_frames is not None:
        checks.number("kept_frames", kept_frames, minimum=MIN_KEPT_FRAMES, maximum=1)


def check_all_frames_kept(kept_frames: float | None, engine: str) -> None:
    """Refuse to merge frames, for an engine that keeps all of them.

    Raises:
        OptionError: the share is not 1.0.
    """
    if kept_frames not in {None, 1}:
        raise OptionError(
            f"kept_frames={kept_frames}: engine='{engine}' keeps all frames; "
            "give engine='onnxruntime' or 'openvino', or leave out kept_frames"
        )
