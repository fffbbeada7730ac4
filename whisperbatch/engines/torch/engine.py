"""Whisper on PyTorch, with weights of CTranslate2 or transformers. Needs the extra `torch`."""

import functools
import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import torch

from whisperbatch.engines.alignment import NO_TOKENS
from whisperbatch.engines.calls import check_encoded
from whisperbatch.engines.devices import choose_device
from whisperbatch.engines.memory import MemoryUse, choose_batch_size
from whisperbatch.engines.model_info import ModelInfo
from whisperbatch.engines.settings import TorchSettings
from whisperbatch.engines.torch.model import TorchModel, load_model
from whisperbatch.engines.torch.modules import check_rows, request_equal_rows
from whisperbatch.errors import ClosedError, EngineError, OptionError
from whisperbatch.models.model_bin import fingerprint
from whisperbatch.models.registry import loaded_revision
from whisperbatch.options import DEFAULT_BATCH_SIZE, SearchOptions
from whisperbatch.protocols import (
    Alignment,
    AlignRequest,
    Decoded,
    DecodeRequest,
    Encoded,
    FeatureType,
)
from whisperbatch.text.messages import description, shown
from whisperbatch.threads import Lock, cached_property

Tensor: TypeAlias = torch.Tensor

COMPUTE_TYPES: Final = {
    "float32": torch.float32,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
}
ROWS_PER_CALL: Final = {"cpu": 1, "cuda": 16}
"""Rows that are encoded or aligned in one call, by device. On a CPU one row uses all cores, and its
result then does not depend on the other rows of the batch."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, eq=False)
class _Encoded:
    rows: int
    output: Tensor  # (rows, positions, d_model)
    draft_encoder_output: Tensor | None = None  # (rows, positions, d_model) of the draft model


class TorchEngine:
    """A Whisper model on PyTorch. See `protocols.Engine`.

    The engine processes one batch at a time: a second caller waits. The number of threads is
    PyTorch's setting, which applies to the whole process. On a CPU in float32, the engine sets a
    variable of MKL for the process (`modules`).

    Args:
        directory: directory of CTranslate2 or transformers weights.
        name: name of the model, for messages.
        device: "cpu", "cuda", or "auto".
        settings: see `TorchSettings`.
        draft_model: directory of the draft model that `settings` names.

    Attributes:
        feature_type: float16 on CUDA, if the model computes in float16: half as many bytes are then
            copied to the GPU.

    Raises:
        OptionError: the device or a setting is not available, or the draft model has another
            vocabulary or another number of mel bands.
        ModelError: the weights do not load.
    """

    workers = 1

    def __init__(
        self,
        directory: Path,
        *,
        name: str,
        device: str = "auto",
        settings: TorchSettings | None = None,
        draft_model: Path | None = None,
    ) -> None:
        self._settings = settings = settings or TorchSettings()
        kind = choose_device(
            device,
            (settings.device_index,),
            device_count=torch.cuda.device_count(),
            library="PyTorch",
        )
        self._device = torch.device("cpu" if kind == "cpu" else f"cuda:{settings.device_index}")
        if settings.compile and kind == "cpu":
            raise OptionError(
                "`compile=True` needs CUDA: PyTorch 2.13 cannot compile the model for a CPU; "
                "leave out `compile`"
            )
        self._dtype = choose_dtype(settings.compute_type, self._device)
        if kind == "cpu" and self._dtype == torch.float32:
            request_equal_rows()
            check_rows()
        in_float16 = kind == "cuda" and self._dtype == torch.float16
        self.feature_type: FeatureType = np.float16 if in_float16 else np.float32
        self.name = name
        self._directory = directory
        self._draft_model_directory = draft_model
        load = functools.partial(
            load_model, dtype=self._dtype, device=self._device, compiled=settings.compile
        )
        self._model: TorchModel | None = load(
            directory, quantization=settings.quantization, group_size=settings.group_size
        )
        self._draft_model: TorchModel | None = None
        if draft_model:
            self._draft_model = load(draft_model)
            check_draft_model(self._model.info, self._draft_model.info, draft_model)
        info = self._model.info
        self._memory_use = self._memory_of(info)
        if self._draft_model:
            self._memory_use += self._memory_of(self._draft_model.info)
        self.tokenizer = info.tokenizer
        self.is_multilingual: bool = info.is_multilingual
        self.can_translate: bool = info.can_translate
        self.n_mels: int = info.n_mels
        self._lock = Lock()
        log.info("model %s on %s (%s), PyTorch", name, self._device, self._dtype)

    def __repr__(self) -> str:
        return description(self, shown(self.name), str(self._device), str(self._dtype))

    @property
    def device(self) -> str:
        """See `protocols.EngineTraits`."""
        return str(self._device.type)

    def _memory_of(self, info: ModelInfo) -> MemoryUse:
        size = self._dtype.itemsize
        return MemoryUse.of(info.architecture, weight_bytes=size, value_bytes=size)

    @cached_property
    def fingerprint(self) -> str:
        """See `protocols.Engine`."""
        parts = [
            fingerprint(self._directory),
            f"{self._device.type} {self._dtype}",
            f"torch {torch.__version__}",
        ]
        if self._settings.quantization:
            parts.append(f"decoder in {self._settings.quantization}, {self._settings.group_size}")
        if self._settings.compile:
            parts.append("compiled")
        if self._draft_model_directory:
            parts.append(f"drafted by {fingerprint(self._draft_model_directory)}")
        if revision := loaded_revision(self._directory):
            parts.append(f"revision {revision}")
        return ", ".join(parts)

    def default_batch_size(self, hypotheses: int) -> int:
        """See `protocols.Engine`. Quantized weights count as if they were not quantized."""
        if self._device.type == "cpu":
            return DEFAULT_BATCH_SIZE
        memory = torch.cuda.get_device_properties(self._device).total_memory
        return choose_batch_size([memory], self._memory_use, hypotheses=hypotheses)

    def check(self, options: SearchOptions) -> None:
        """See `protocols.Engine`. A draft model needs greedy search."""
        self._settings.check(options)

    def encode(self, features: npt.NDArray[np.floating[Any]]) -> Encoded:
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
        batch = check_encoded(encoded, _Encoded)
        outputs = [batch.output]
        if batch.draft_encoder_output is not None:
            outputs.append(batch.draft_encoder_output)
        rows = zip(*(output.split(1) for output in outputs), strict=True)
        return [_Encoded(1, *row) for row in rows]

    def join(self, rows: Sequence[Encoded]) -> Encoded:
        """See `protocols.Engine`."""
        batches = [check_encoded(row, _Encoded) for row in rows]
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
            return model.detect_language(check_encoded(encoded, _Encoded).output)

    def decode(
        self, encoded: Encoded, requests: Sequence[DecodeRequest], options: SearchOptions
    ) -> list[Decoded]:
        """See `protocols.Engine`. Sampling and beam search do not use the draft model."""
        batch = check_encoded(encoded, _Encoded)
        with self._exclusive_model() as model:
            draft_model, draft_output = self._draft_model, batch.draft_encoder_output
            is_greedy = options.beam_size == 1 and requests[0].sampling is None
            if draft_model and draft_output is not None and is_greedy:
                hypotheses = model.generate_speculatively(
                    batch.output, draft_model, draft_output, requests, options
                )
            else:
                hypotheses = model.generate(batch.output, requests, options)
            texts = list(map(model.special.text_of, requests, hypotheses))
            alignments = self._align(model, batch.output, texts)
        return list(map(Decoded, hypotheses, alignments))

    def align(self, encoded: Encoded, texts: Sequence[AlignRequest]) -> list[Alignment]:
        """See `protocols.Engine`."""
        output = check_encoded(encoded, _Encoded).output
        with self._exclusive_model() as model:
            return self._align(model, output, texts)

    def _align(
        self, model: TorchModel, output: Tensor, texts: Sequence[AlignRequest]
    ) -> list[Alignment]:
        """Align the texts of encoder output (rows, positions, d_model)."""
        alignments = [NO_TOKENS] * len(texts)
        rows_with_tokens = [row for row, text in enumerate(texts) if text.tokens]
        rows_per_call = ROWS_PER_CALL[self._device.type]
        for start in range(0, len(rows_with_tokens), rows_per_call):
            rows = rows_with_tokens[start : start + rows_per_call]
            block = model.align(output[rows], [texts[row] for row in rows])
            for row, alignment in zip(rows, block, strict=True):
                alignments[row] = alignment
        return alignments

    def close(self) -> None:
        """See `protocols.Engine`. Waits for the call that is in progress."""
        with self._lock:
            self._model = self._draft_model = None
            if self._device.type == "cuda":
                torch.cuda.empty_cache()

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


def check_draft_model(model: ModelInfo, draft_model: ModelInfo, directory: Path) -> None:
    """Check that the draft model has the model's vocabulary and number of mel bands.

    Raises:
        OptionError: the vocabulary or the number of mel bands differs.
    """
    same_tokens = model.tokenizer.get_vocab() == draft_model.tokenizer.get_vocab()
    if model.vocabulary_size != draft_model.vocabulary_size or not same_tokens:
        raise OptionError(
            f"`draft_model={str(directory)!r}`: its vocabulary of {draft_model.vocabulary_size} "
            f"tokens differs from the model's of {model.vocabulary_size}; "
            "give a model with the same vocabulary"
        )
    if model.n_mels != draft_model.n_mels:
        raise OptionError(
            f"`draft_model={str(directory)!r}`: it needs {draft_model.n_mels} mel bands, the model "
            f"{model.n_mels}; give a model with the same number"
        )


def choose_dtype(compute_type: str, device: torch.device) -> torch.dtype:
    """Return the type to compute in.

    "auto" is float16 on CUDA, bfloat16 on a CPU that supports it, and float32 on other CPUs.

    Args:
        compute_type: a checked setting (`TorchSettings`).
        device: to compute on.
    """
    if compute_type != "auto":
        return COMPUTE_TYPES[compute_type]
    if device.type == "cuda":
        return torch.float16
    supports_bfloat16 = torch.ops.mkldnn._is_mkldnn_bf16_supported()  # noqa: SLF001 - no public name
    return torch.bfloat16 if supports_bfloat16 else torch.float32
