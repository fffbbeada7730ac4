"""Whisper on PyTorch, from weights of CTranslate2 or of transformers: the extra `torch`."""

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
AT_ONCE: Final = {"cpu": 1, "cuda": 16}
"""Rows in the encoder, or placed, together: on a CPU one fills the cores, and then nothing about it
depends on the rows beside it."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, eq=False)
class _Encoded:
    rows: int
    output: Tensor  # (rows, positions, d_model)
    heard: Tensor | None = None  # by the draft model, likewise


class TorchEngine:
    """A Whisper model on PyTorch. See `protocols.Engine`.

    One batch at a time: a second caller waits. How many cores a batch has is PyTorch's setting,
    which belongs to the whole process.

    Args:
        directory: of CTranslate2 weights, or of transformers'.
        name: of the model, for messages.
        device: "cpu", "cuda", or "auto".
        device_index: of the CUDA device.
        compute_type: "float32", "bfloat16", "float16", or "auto".
        compiled: compile encoder and decoder when they are first used; for CUDA.
        quantization: "hqq4" or "int8" for the decoder, or None.
        group_size: for "hqq4": weights that share a scale, 32, 64 or 128.
        draft_model: directory of a smaller model, of the same vocabulary, that guesses in greedy
            search.

    Raises:
        OptionError: device, compute type, quantization or group size are not to be had here, or the
            draft_model has another vocabulary.
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
        chosen = choose_device(device, device_index)
        if compiled and chosen.type == "cpu":
            raise OptionError("compile=True needs CUDA: PyTorch 2.13 fails to compile it for a CPU")
        self._dtype = choose_dtype(compute_type, chosen)
        self.name = name
        self._directory, self._compiled = directory, compiled
        load = functools.partial(load_model, dtype=self._dtype, device=chosen, compiled=compiled)
        self._quantization, self._draft_model_directory = quantization, draft_model
        self._group_size = group_size
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
        self._device = chosen
        self._turn = threading.Lock()
        log.info("model %s on %s (%s), PyTorch", name, chosen, self._dtype)

    @functools.cached_property
    def fingerprint(self) -> str:
        """See `protocols.Engine`."""
        what = [f"{self._device.type} {self._dtype}", f"torch {torch.__version__}"]
        if self._quantization:
            what.append(f"decoder in {self._quantization}, {self._group_size}")
        what += ["compiled"] * self._compiled
        if self._draft_model_directory:
            what.append(f"assisted by {fingerprint(self._draft_model_directory)}")
        return ", ".join([fingerprint(self._directory), *what])

    def encode(self, features: npt.NDArray[np.float32]) -> Encoded:
        """See `protocols.Engine`."""
        with self._call() as model:
            given = torch.from_numpy(np.ascontiguousarray(features))
            parts = given.split(AT_ONCE[self._device.type])
            outputs = [
                torch.cat([one.network.encode(part.to(self._device)) for part in parts])
                for one in (model, self._draft_model)
                if one
            ]
        return _Encoded(len(features), *outputs)

    def split(self, encoded: Encoded) -> list[Encoded]:
        """See `protocols.Engine`."""
        own = _own(encoded)
        parts = [one.split(1) for one in (own.output, own.heard) if one is not None]
        return [_Encoded(1, *row) for row in zip(*parts, strict=True)]

    def join(self, rows: Sequence[Encoded]) -> Encoded:
        """See `protocols.Engine`."""
        own = [_own(row) for row in rows]
        heard = [row.heard for row in own if row.heard is not None]
        output = torch.cat([row.output for row in own])
        return _Encoded(len(output), output, torch.cat(heard) if heard else None)

    def detect_language(self, encoded: Encoded) -> list[dict[str, float]]:
        """See `protocols.Engine`."""
        if not self.is_multilingual:
            raise EngineError(f"model {self.name} is English-only: it cannot detect languages")
        with self._call() as model:
            return model.languages(_own(encoded).output)

    def generate(
        self,
        encoded: Encoded,
        prompts: Sequence[Sequence[int]],
        options: DecodeOptions,
        sampling: Sequence[Sampling] | None = None,
    ) -> list[Hypothesis]:
        """See `protocols.Engine`. Sampling does not use the draft model."""
        own = _own(encoded)
        with self._call() as model:
            if not self._draft_model or own.heard is None or sampling:
                return model.generate(own.output, prompts, options, sampling)
            if options.beam_size > 1:
                raise OptionError(
                    f"beam_size={options.beam_size}: a draft model guesses for greedy search only; "
                    "give beam_size=1, or no draft model"
                )
            return model.generate_with(own.output, self._draft_model, own.heard, prompts, options)

    def align(
        self,
        encoded: Encoded,
        prompts: Sequence[Sequence[int]],
        tokens: Sequence[Sequence[int]],
        frames: Sequence[int],
    ) -> list[Alignment]:
        """See `protocols.Engine`."""
        output = _own(encoded).output
        results = [_NOTHING] * len(prompts)
        spoken = [row for row in range(len(prompts)) if tokens[row]]
        at_once = AT_ONCE[self._device.type]
        with self._call() as model:
            for start in range(0, len(spoken), at_once):
                rows = spoken[start : start + at_once]
                placed = model.align(
                    output[rows],
                    [prompts[row] for row in rows],
                    [tokens[row] for row in rows],
                    [frames[row] for row in rows],
                )
                for row, one in zip(rows, placed, strict=True):
                    results[row] = one
        return results

    def close(self) -> None:
        """See `protocols.Engine`. Waits for the call that is going on."""
        with self._turn:
            self._model = self._draft_model = None

    @contextmanager
    def _call(self) -> Iterator[TorchModel]:
        """A call: alone, without gradients, and its errors as the library's own."""
        with self._turn:
            if self._model is None:
                raise ClosedError(f"model {self.name} is closed")
            try:
                with torch.inference_mode():
                    yield self._model
            except RuntimeError as error:
                raise EngineError(f"model {self.name}: {error}") from error


_NOTHING: Final = Alignment(np.zeros(0), np.zeros(0), np.zeros(0))


def choose_device(device: str, index: int) -> torch.device:
    """The device to run on: "auto" is CUDA where PyTorch sees a GPU.

    Raises:
        OptionError: an unknown device, or one that is not there.
    """
    if device not in ("auto", "cpu", "cuda"):
        raise OptionError(f"device={device!r} is none of auto, cpu, cuda")
    present = torch.cuda.device_count()
    if device == "cpu" or (device == "auto" and not present):
        if index:
            raise OptionError(f"device_index={index} needs CUDA; the CPU has no index")
        return torch.device("cpu")
    if not 0 <= index < present:
        seen = f"CUDA devices here are 0 to {present - 1}" if present else "PyTorch sees no GPU"
        raise OptionError(f"device='cuda' with device_index={index}: {seen}")
    return torch.device("cuda", index)


def check_quantization(quantization: str | None, group_size: int) -> None:
    """Refuse what there is not, and what has no effect.

    Raises:
        OptionError: see above.
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
    """Refuse a draft model whose vocabulary or features differ.

    Raises:
        OptionError: its vocabulary or its features are others.
    """
    words = (model.tokenizer.get_vocab(), draft_model.tokenizer.get_vocab())
    if model.size != draft_model.size or words[0] != words[1]:
        raise OptionError(
            f"draft_model={str(directory)!r}: its vocabulary of {draft_model.size} tokens is not "
            f"the model's, which has {model.size}"
        )
    if model.n_mels != draft_model.n_mels:
        raise OptionError(
            f"draft_model={str(directory)!r}: hears {draft_model.n_mels} mel bands, the model "
            f"{model.n_mels}"
        )


def choose_dtype(compute_type: str, device: torch.device) -> torch.dtype:
    """What to compute in: "auto" is float16 on CUDA, bfloat16 on a CPU that has it, else float32.

    Raises:
        OptionError: another one.
    """
    if compute_type == "auto":
        if device.type == "cuda":
            return torch.float16
        quick = torch.ops.mkldnn._is_mkldnn_bf16_supported()  # noqa: SLF001 - no other name
        return torch.bfloat16 if quick else torch.float32
    if compute_type not in COMPUTE_TYPES:
        raise OptionError(
            f"compute_type={compute_type!r} is none of PyTorch's: "
            f"give auto, {', '.join(COMPUTE_TYPES)}"
        )
    return COMPUTE_TYPES[compute_type]


def _own(encoded: Encoded) -> _Encoded:
    if not isinstance(encoded, _Encoded):
        raise EngineError("the encoder output comes from another engine")
    return encoded
