"""GPUs without GPUs: CTranslate2's Whisper on CUDA devices, as far as the engine uses it.

    gpus = FakeGpus(count=2)
    gpus.install(monkeypatch)
    engine = gpus.engine(tiny_model(tmp_path / "model"), device_index=(0, 1))

The fake keeps CUDA's rules: encoder output is used on the GPU that computed it, and it never goes
to the CPU; a thread uses one GPU only.
"""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.contract.tiny_model import TOKEN_IDS
from whisperbatch.engines.ctranslate2 import engine as engine_module
from whisperbatch.engines.ctranslate2 import replicas as replicas_module
from whisperbatch.engines.ctranslate2.engine import CTranslate2Engine
from whisperbatch.engines.model_info import ModelInfo
from whisperbatch.engines.settings import CTranslate2Settings

TEXT = (TOKEN_IDS["a"], TOKEN_IDS["b"])
LANGUAGES = (("<|en|>", 0.6), ("<|fr|>", 0.4))
Fail = Callable[["GpuCall"], None]


class FakeView:
    """Encoder output on a GPU. Unlike a `ctranslate2.StorageView`, it cannot go to the CPU."""

    def __init__(self, gpu: int, rows: int) -> None:
        self.gpu, self.rows = gpu, rows

    def __getattr__(self, name: str) -> object:
        raise AssertionError(f"encoder output goes to the CPU: {name}")


@dataclass(frozen=True)
class GpuCall:
    """A call of a method.

    Attributes:
        gpu: number of the GPU.
        method: "load", "encode", "detect_language", "generate", "align" or "unload_model".
        thread: that called.
        rows: of the batch.
        arguments: of the method, after the encoder output.
    """

    gpu: int
    method: str
    thread: threading.Thread
    rows: int = 0
    arguments: dict[str, Any] = field(default_factory=dict)


class FakeGpus:
    """A machine with GPUs, and the calls of CTranslate2's models on them.

    Attributes:
        calls: all calls, in order.
        loaded: the settings of each loaded model.
        fail: called with each call of `encode`, `detect_language`, `generate` and `align`; may
            raise the error of CTranslate2.
        failing: GPUs on which the driver reports an error.
        kept: GPUs whose memory pool keeps freed memory.
        returned: GPUs whose free memory was returned.
        seeds: arguments of `ctranslate2.set_random_seed`.
    """

    def __init__(self, count: int = 1, memory: int | None = 80 << 30) -> None:
        self.count, self.memory = count, memory
        self.calls: list[GpuCall] = []
        self.loaded: list[dict[str, Any]] = []
        self.fail: Fail = lambda call: None
        self.failing: set[int] = set()
        self.kept: list[int] = []
        self.returned: list[int] = []
        self.seeds: list[int] = []

    def install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Put the fake in the place of CTranslate2 and of NVIDIA's driver."""
        types = {"float16", "float32", "int8", "bfloat16"}
        monkeypatch.setattr("ctranslate2.models.Whisper", self._load)
        monkeypatch.setattr("ctranslate2.get_supported_compute_types", lambda *_: types)
        monkeypatch.setattr("ctranslate2.set_random_seed", self.seeds.append)
        monkeypatch.setattr(engine_module, "total_memory", lambda _: self.memory)
        monkeypatch.setattr(replicas_module, "keep_memory", self.kept.append)
        monkeypatch.setattr(replicas_module, "return_memory", self.returned.append)
        monkeypatch.setattr(replicas_module, "device_fails", lambda gpu: gpu in self.failing)

    def engine(self, directory: Path, **settings: Any) -> CTranslate2Engine:
        """Load a model on the GPUs."""
        model = ModelInfo.read(directory, "small")
        return CTranslate2Engine(model, device="cuda", settings=CTranslate2Settings(**settings))

    def of(self, method: str) -> list[GpuCall]:
        """The calls of a method."""
        return [call for call in self.calls if call.method == method]

    def record(self, call: GpuCall) -> None:
        """Note a call, and check that its thread uses one GPU only."""
        self.calls.append(call)
        gpus = {other.gpu for other in self.calls if other.thread is call.thread}
        assert gpus == {call.gpu}, "a thread uses two GPUs"
        if call.rows:
            self.fail(call)

    def _load(self, directory: str, **settings: Any) -> "FakeWhisper":
        self.loaded.append({"directory": directory, **settings})
        [gpu] = settings["device_index"]
        self.record(GpuCall(gpu, "load", threading.current_thread()))
        return FakeWhisper(self, gpu)


class FakeWhisper:
    """`ctranslate2.models.Whisper` on one GPU."""

    def __init__(self, gpus: FakeGpus, gpu: int) -> None:
        self._gpus, self._gpu = gpus, gpu

    def encode(self, features: Any, *, to_cpu: bool) -> FakeView:
        assert not to_cpu, "encoder output goes to the CPU"
        rows = features.shape[0]
        self._record("encode", rows)
        return FakeView(self._gpu, rows)

    def detect_language(self, output: FakeView) -> list[Any]:
        self._record_output("detect_language", output)
        return [LANGUAGES] * output.rows

    def generate(
        self, output: FakeView, prompts: Sequence[Sequence[int]], **settings: Any
    ) -> list[Any]:
        self._record_output("generate", output, prompts=prompts, **settings)
        assert len(prompts) == output.rows
        count = settings.get("num_hypotheses", 1)
        result = SimpleNamespace(
            sequences_ids=[list(TEXT)] * count, scores=[-0.2] * count, no_speech_prob=0.01
        )
        return [result] * output.rows

    def align(
        self,
        output: FakeView,
        start: Sequence[int],
        tokens: Sequence[Sequence[int]],
        frames: Sequence[int],
    ) -> list[Any]:
        self._record_output("align", output, start=tuple(start), tokens=tokens)
        assert len(tokens) == len(frames) == output.rows
        return [
            SimpleNamespace(
                alignments=[(step, step) for step in range(len(text) + 1)],
                text_token_probs=[0.9] * len(text),
            )
            for text in tokens
        ]

    def unload_model(self) -> None:
        self._record("unload_model", 0)

    def _record_output(self, method: str, output: FakeView, **arguments: Any) -> None:
        assert output.gpu == self._gpu, "encoder output is used on another GPU"
        self._record(method, output.rows, **arguments)

    def _record(self, method: str, rows: int, **arguments: Any) -> None:
        thread = threading.current_thread()
        self._gpus.record(GpuCall(self._gpu, method, thread, rows, arguments))
