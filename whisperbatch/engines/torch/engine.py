"""Whisper on PyTorch, with weights of CTranslate2 or transformers. Needs the extra `torch`."""

import functools
import logging
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
import torch

from whisperbatch.engines.torch.model import TorchModel, load_model
from whisperbatch.engines.torch.quantization import (
    GROUP_SIZE,
    GROUP_SIZES,
    QUANTIZATIONS,
    Quantization,
)
from whisperbatch.errors import ClosedError, EngineError, OptionError
from whisperbatch.models.model_bin import fingerprint
from whisperbatch.options import DecodeOptions
from whisperbatch.protocols import Alignment, Encoded, Sampling
from whisperbatch.types import Hypothesis

Tensor: TypeAlias = torch.Tensor

COMPUTE_TYPES: Final = {
    "float32": torch.float32,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
}
ROWS_PER_CALL: Final = {"cpu": 1, "cuda": 16}
"""Rows that are encoded or aligned in one call, by device. On a CPU one row uses all cores, and its
result then does not depend on the other rows of the batch."""

NO_TOKENS: Final = Alignment(np.zeros(0), np.zeros(0), np.zeros(0))

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, eq=False)
class _Encoded:
    rows: int
    output: Tensor  # (rows, positions, d_model)
    draft_encoder_output: Tensor | None = None  # (rows, positions, d_model) of the draft model


class TorchEngine:
    """A Whisper model on PyTorch. See `protocols.Engine`.

    The engine processes one batch at a time: a second caller waits. The number of threads is
    PyTorch's setting, which applies to the whole process.

    Args:
        directory: directory of CTranslate2 or transformers weights.
        name: name of the model, for messages.
        device: "cpu", "cuda", or "auto".
        device_index: number of the CUDA device.
        compute_type: "float32", "bfloat16", "float16", or "auto".
        compiled: compile encoder and decoder at their first use; for CUDA.
        quantization: "hqq4" or "int8" for the decoder, or None.
        group_size: for "hqq4": number of weights that share a scale, 32, 64 or 128.
        draft_model: directory of a smaller model with the same vocabulary, which guesses tokens in
            greedy search (speculative decoding).

    Raises:
        OptionError: the device, compute type, quantization or group size is not available, or the
            draft model has another vocabulary or another number of mel bands.
        ModelError: the weights do not load.
    """

    workers = 1

    def __init__(
        self,
        directory: Path,
        *,
        name: str,
        device: str = "auto",
        device_index: int = 0,
        compute_type: str = "auto",
        compiled: bool = False,
        quantization: Quantization | None = None,
        group_size: int = GROUP_SIZE,
        draft_model: Path | None = None,
    ) -> None:
        check_quantization(quantization, group_size)
        self._device = choose_device(device, device_index)
        if compiled and self._device.type == "cpu":
            raise OptionError(
                "compile=True needs CUDA: PyTorch 2.13 cannot compile the model for a CPU; "
                "leave out compile"
            )
        self._dtype = choose_dtype(compute_type, self._device)
        self.name = name
        self._directory, self._compiled = directory, compiled
        self._quantization, self._group_size = quantization, group_size
        self._draft_model_directory = draft_model
        load = functools.partial(
            load_model, dtype=self._dtype, device=self._device, compiled=compiled
        )
        self._model: TorchModel | None = load(
            directory, quantization=quantization, group_size=group_size
        )
        self._draft_model: TorchModel | None = None
        if draft_model:
            self._draft_model = load(draft_model)
            check_draft_model(self._model, self._draft_model, draft_model)
        self.tokenizer = self._model.tokenizer
        self.is_multilingual: bool = self._model.is_multilingual
        self.n_mels: int = self._model.n_mels
        self._lock = threading.Lock()
        log.info("model %s on %s (%s), PyTorch", name, self._device, self._dtype)

    @functools.cached_property
    def fingerprint(self) -> str:
        """See `protocols.Engine`."""
        parts = [
            fingerprint(self._directory),
            f"{self._device.type} {self._dtype}",
            f"torch {torch.__version__}",
        ]
        if self._quantization:
            parts.append(f"decoder in {self._quantization}, {self._group_size}")
        if self._compiled:
            parts.append("compiled")
        if self._draft_model_directory:
            parts.append(f"assisted by {fingerprint(self._draft_model_directory)}")
        return ", ".join(parts)

    def encode(self, features: npt.NDArray[np.float32]) -> Encoded:
        """See `protocols.Engine`."""
        with self._exclusive_model() as model:
            tensor = torch.from_numpy(np.ascontiguousarray(features))
            blocks = tensor.split(ROWS_PER_CALL[self._device.type])
            networks = [model.network]
            if self._draft_model:
                networks.append(self._draft_model.network)
            outputs = [
                torch.cat([network.encode(block.to(self._device)) for block in blocks])
                for network in networks
            ]
        return _Encoded(len(features), *outputs)

    def split(self, encoded: Encoded) -> list[Encoded]:
        """See `protocols.Engine`."""
        batch = _checked(encoded)
        outputs = [batch.output]
        if batch.draft_encoder_output is not None:
            outputs.append(batch.draft_encoder_output)
        rows = zip(*(output.split(1) for output in outputs), strict=True)
        return [_Encoded(1, *row) for row in rows]

    def join(self, rows: Sequence[Encoded]) -> Encoded:
        """See `protocols.Engine`."""
        batches = [_checked(row) for row in rows]
        output = torch.cat([batch.output for batch in batches])
        draft_outputs = [
            batch.draft_encoder_output
            for batch in batches
            if batch.draft_encoder_output is not None
        ]
        return _Encoded(len(output), output, torch.cat(draft_outputs) if draft_outputs else None)

    def detect_language(self, encoded: Encoded) -> list[dict[str, float]]:
        """See `protocols.Engine`."""
        if not self.is_multilingual:
            raise EngineError(f"model {self.name} is English-only: it cannot detect languages")
        with self._exclusive_model() as model:
            return model.detect_language(_checked(encoded).output)

    def generate(
        self,
        encoded: Encoded,
        prompts: Sequence[Sequence[int]],
        options: DecodeOptions,
        sampling: Sequence[Sampling] | None = None,
    ) -> list[Hypothesis]:
        """See `protocols.Engine`. Sampling does not use the draft model."""
        batch = _checked(encoded)
        with self._exclusive_model() as model:
            if not self._draft_model or batch.draft_encoder_output is None or sampling:
                return model.generate(batch.output, prompts, options, sampling)
            if options.beam_size > 1:
                raise OptionError(
                    f"beam_size={options.beam_size}: draft_model works with greedy search only; "
                    "give beam_size=1, or leave out draft_model"
                )
            return model.generate_speculatively(
                batch.output, self._draft_model, batch.draft_encoder_output, prompts, options
            )

    def align(
        self,
        encoded: Encoded,
        prompts: Sequence[Sequence[int]],
        tokens: Sequence[Sequence[int]],
        frames: Sequence[int],
    ) -> list[Alignment]:
        """See `protocols.Engine`."""
        output = _checked(encoded).output
        alignments = [NO_TOKENS] * len(prompts)
        rows_with_tokens = [row for row in range(len(prompts)) if tokens[row]]
        rows_per_call = ROWS_PER_CALL[self._device.type]
        with self._exclusive_model() as model:
            for start in range(0, len(rows_with_tokens), rows_per_call):
                rows = rows_with_tokens[start : start + rows_per_call]
                block = model.align(
                    output[rows],
                    [prompts[row] for row in rows],
                    [tokens[row] for row in rows],
                    [frames[row] for row in rows],
                )
                for row, alignment in zip(rows, block, strict=True):
                    alignments[row] = alignment
        return alignments

    def close(self) -> None:
        """See `protocols.Engine`. Waits for the call that is in progress."""
        with self._lock:
            self._model = self._draft_model = None

    @contextmanager
    def _exclusive_model(self) -> Iterator[TorchModel]:
        """Give the model to one caller at a time, without gradients.

        Raises:
            ClosedError: `close` was called.
            EngineError: PyTorch raised a RuntimeError.
        """
        with self._lock:
            if self._model is None:
                raise ClosedError(f"model {self.name} is closed")
            try:
                with torch.inference_mode():
                    yield self._model
            except RuntimeError as error:
                raise EngineError(f"model {self.name}: {error}") from error


def choose_device(device: str, index: int) -> torch.device:
    """Return the device to run on. "auto" is CUDA if PyTorch finds a GPU, else the CPU.

    Raises:
        OptionError: the device is unknown or does not exist.
    """
    if device not in ("auto", "cpu", "cuda"):
        raise OptionError(f"device={device!r} is none of auto, cpu, cuda")
    gpu_count = torch.cuda.device_count()
    if device == "cpu" or (device == "auto" and not gpu_count):
        if index:
            raise OptionError(
                f"device_index={index} needs CUDA, but the model would run on the CPU; "
                "leave out device_index"
            )
        return torch.device("cpu")
    if not 0 <= index < gpu_count:
        available = (
            f"give a device_index from 0 to {gpu_count - 1}"
            if gpu_count
            else "PyTorch finds no GPU; give device='cpu'"
        )
        raise OptionError(f"device='cuda' with device_index={index}: {available}")
    return torch.device("cuda", index)


def check_quantization(quantization: str | None, group_size: int) -> None:
    """Check the values of the two options, and that they do not contradict each other.

    Raises:
        OptionError: a value is unknown, or `group_size` has no effect.
    """
    if quantization not in (None, *QUANTIZATIONS):
        raise OptionError(
            f"quantization={quantization!r} is none of None, {', '.join(QUANTIZATIONS)}"
        )
    if group_size not in GROUP_SIZES:
        raise OptionError(
            f"group_size={group_size!r} is none of {', '.join(map(str, GROUP_SIZES))}"
        )
    if quantization != "hqq4" and group_size != GROUP_SIZE:
        raise OptionError(f"group_size={group_size} has no effect without quantization='hqq4'")


def check_draft_model(model: TorchModel, draft_model: TorchModel, directory: Path) -> None:
    """Check that the draft model has the model's vocabulary and number of mel bands.

    Raises:
        OptionError: the vocabulary or the number of mel bands differs.
    """
    same_tokens = model.tokenizer.get_vocab() == draft_model.tokenizer.get_vocab()
    if model.vocabulary_size != draft_model.vocabulary_size or not same_tokens:
        raise OptionError(
            f"draft_model={str(directory)!r}: its vocabulary of {draft_model.vocabulary_size} "
            f"tokens differs from the model's of {model.vocabulary_size}; "
            "give a model with the same vocabulary"
        )
    if model.n_mels != draft_model.n_mels:
        raise OptionError(
            f"draft_model={str(directory)!r}: it needs {draft_model.n_mels} mel bands, the model "
            f"{model.n_mels}; give a model with the same number"
        )


def choose_dtype(compute_type: str, device: torch.device) -> torch.dtype:
    """Return the type to compute in.

    "auto" is float16 on CUDA, bfloat16 on a CPU that supports it, and float32 on other CPUs.

    Raises:
        OptionError: the compute type is unknown.
    """
    if compute_type == "auto":
        if device.type == "cuda":
            return torch.float16
        supports_bfloat16 = torch.ops.mkldnn._is_mkldnn_bf16_supported()  # noqa: SLF001 - no public name
        return torch.bfloat16 if supports_bfloat16 else torch.float32
    if compute_type not in COMPUTE_TYPES:
        raise OptionError(
            f"compute_type={compute_type!r} is none of PyTorch's: "
            f"give auto, {', '.join(COMPUTE_TYPES)}"
        )
    return COMPUTE_TYPES[compute_type]


def _checked(encoded: Encoded) -> _Encoded:
    if not isinstance(encoded, _Encoded):
        raise EngineError(
            "the encoder output comes from another engine; encode the features with this engine"
        )
    return encoded
