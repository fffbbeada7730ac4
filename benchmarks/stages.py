"""Where the time goes, stage by stage, beside what this machine could do it in.

python -m benchmarks.stages
python -m benchmarks.stages --beam 5 --recording dense:en:600:0

The machine's limits are measured first: multiplications a second in bfloat16 and float32, and bytes
read a second. A stage's limit is the time that its multiplications or the bytes that it must read
take at that rate, whichever is longer. Encoder and decoder are OpenVINO's.

    seconds     between a stage's beginning and its end, added up; stages of several threads overlap
    CPU         of the thread itself; OpenVINO's other threads are not in it
"""

import argparse
import functools
import os
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

import whisperbatch as wb
from benchmarks import corpora, recordings
from whisperbatch.engines.openvino.decoder import Decoding, OpenVinoDecoder
from whisperbatch.engines.openvino.encoder import OpenVinoEncoder
from whisperbatch.engines.search.alignment import Trace
from whisperbatch.features.whisper import WhisperFeatures
from whisperbatch.vad.silero import SileroVad

ROUNDS: Final = 12
GIGA: Final = 1e9


@dataclass
class Spent:
    """What a stage has taken, and what it could have."""

    calls: int = 0
    seconds: float = 0.0
    cpu: float = 0.0
    least: float = 0.0


def rate(precision: str) -> float:
    """Multiplications and additions a second, of matrices of the encoder's size."""
    import openvino  # noqa: PLC0415 - an extra

    ops, rng = openvino.opset13, np.random.default_rng(0)
    rows, size, layers = 1500, 512, 6
    given = hidden = ops.parameter([rows, size], np.float32)
    for _ in range(layers):
        for shape in ((4 * size, size), (size, 4 * size)):
            weights = ops.constant(rng.standard_normal(shape).astype(np.float32))
            hidden = ops.matmul(hidden, weights, transpose_a=False, transpose_b=True)
    compiled = openvino.Core().compile_model(
        openvino.Model([ops.result(hidden)], [given], "rate"),
        "CPU",
        {"INFERENCE_PRECISION_HINT": precision},
    )
    samples = rng.standard_normal((rows, size)).astype(np.float32)
    took = []
    for _ in range(ROUNDS):
        started = time.perf_counter()
        compiled([samples])
        took.append(time.perf_counter() - started)
    return 2 * rows * size * 4 * size * 2 * layers / min(took)


def bandwidth(threads: int) -> float:
    """Bytes read a second."""
    arrays = [np.ones(50_000_000, np.float32) for _ in range(threads)]
    took = []
    with ThreadPoolExecutor(threads) as pool:
        for _ in range(ROUNDS):
            started = time.perf_counter()
            list(pool.map(np.sum, arrays))
            took.append(time.perf_counter() - started)
    return sum(array.nbytes for array in arrays) / min(took)


class Limits:
    """The least time that a call can take: see the module."""

    def __init__(self, decoder: OpenVinoDecoder, mels: int) -> None:
        self._bf16, self._f32 = rate("bf16"), rate("f32")
        self._bytes = bandwidth(len(os.sched_getaffinity(0)))
        self._layout, self._mels = decoder.layout, mels
        self._vocabulary = decoder.vocabulary

    def __str__(self) -> str:
        return (
            f"{self._bf16 / GIGA:.0f} GFLOP/s bfloat16, {self._f32 / GIGA:.0f} float32, "
            f"{self._bytes / GIGA:.0f} GB/s"
        )

    def encoder(self, _: Any, features: Any) -> float:  # noqa: ANN401 - a wrapped method's
        """Convolutions, matrices and attention."""
        rows, _, frames = features.shape
        d, layers, positions = self._layout.d_model, self._layout.layers, frames // 2
        each = layers * (positions * 24 * d * d + 4 * positions**2 * d)
        each += frames * self._mels * d * 6 + positions * d * d * 6
        return float(rows * each / self._bf16)

    def cross(self, *given: Any) -> float:  # noqa: ANN401 - likewise
        """Keys and values of all layers."""
        rows, positions, d = given[3].shape
        return float(rows * positions * self._layout.layers * 4 * d * d / self._bf16)

    def body(self, decoding: Any, tokens: Any, *_: Any) -> float:  # noqa: ANN401 - likewise
        """Matrices once a call, and keys and values of every row."""
        d, layers = self._layout.d_model, self._layout.layers
        kept = sum(int(array.nbytes) for array in decoding._kept)  # noqa: SLF001 - a measurement
        matrices = layers * 14 * d * d
        computed = int(tokens.size) * 2 * matrices / self._bf16
        return max(computed, (kept + matrices) / self._bytes)

    def words(self, _: Any, hidden: Any, *__: Any) -> float:  # noqa: ANN401 - likewise
        """The vocabulary once a call."""
        size = self._vocabulary * self._layout.d_model
        rows = float(hidden.size // self._layout.d_model)
        return max(rows * 2 * size / self._bf16, size / self._bytes)


@contextmanager
def watched(stages: list[tuple[str, Any, str, Callable[..., float] | None]]) -> Iterator[Any]:
    """Times of methods: (stage, class, method, least time of a call)."""
    spent: dict[str, Spent] = defaultdict(Spent)
    whole = [(owner, name, getattr(owner, name)) for _, owner, name, _ in stages]
    for stage, owner, name, least in stages:
        setattr(owner, name, _timed(getattr(owner, name), spent, stage, least))
    try:
        yield spent
    finally:
        for owner, name, method in whole:
            setattr(owner, name, method)


def _timed(
    method: Callable[..., Any],
    spent: dict[str, Spent],
    stage: str,
    least: Callable[..., float] | None,
) -> Callable[..., Any]:
    def add(started: float, cpu: float) -> None:
        one = spent[stage]
        one.seconds += time.perf_counter() - started
        one.cpu += time.thread_time() - cpu

    @functools.wraps(method)
    def timed(*given: Any) -> Any:  # noqa: ANN401 - any method
        spent[stage].calls += 1
        if least:
            spent[stage].least += least(*given)
        started, cpu = time.perf_counter(), time.thread_time()
        found = method(*given)
        add(started, cpu)
        return _each(found, add) if stage == "reading and VAD" else found

    return timed


def _each(items: Iterator[Any], add: Callable[[float, float], None]) -> Iterator[Any]:
    while True:
        started, cpu = time.perf_counter(), time.thread_time()
        item = next(items, None)
        add(started, cpu)
        if item is None:
            return
        yield item


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="Where the time goes.")
    parser.add_argument("--model", default="base")
    parser.add_argument("--beam", type=int, default=1)
    parser.add_argument("--recording", type=corpora.argument, default="prompts:en:600:0")
    chosen = parser.parse_args()
    recording = corpora.build(chosen.recording)
    with (
        tempfile.TemporaryDirectory() as directory,
        wb.load(chosen.model, device="cpu", encoder="openvino", decoder="openvino") as asr,
    ):
        engine: Any = asr._engine  # noqa: SLF001 - a measurement
        limits = Limits(engine._openvino.decoder, engine.n_mels)  # noqa: SLF001 - likewise
        path = recordings.write(recording, Path(directory, "recording.wav"))
        asr.transcribe(np.zeros(16000, np.float32), language="en")
        with watched(
            [
                ("reading and VAD", SileroVad, "__call__", None),
                ("features", WhisperFeatures, "__call__", None),
                ("encoder", OpenVinoEncoder, "__call__", limits.encoder),
                ("keys and values", Decoding, "__init__", limits.cross),
                ("decoder's layers", Decoding, "_run", limits.body),
                ("vocabulary", Decoding, "_predict", limits.words),
                ("placing", Trace, "alignment", None),
                ("all decoding", OpenVinoDecoder, "generate", None),
            ]
        ) as spent:
            started, cpu = time.perf_counter(), time.process_time()
            found = asr.transcribe(path, language="en", beam_size=chosen.beam)
            took, cpu = time.perf_counter() - started, time.process_time() - cpu
    print(f"{limits}; {recording.duration:.0f} s in {took:.1f} s, {recording.duration / took:.1f}")
    print(f"times real time; CPU {cpu:.1f} s; {found.chunks} rows, beam {chosen.beam}")
    print(f"{'':18} {'calls':>6} {'seconds':>8} {'CPU':>6} {'least':>6}")
    for stage, one in spent.items():
        least = f"{one.least:6.2f}" if one.least else f"{'':6}"
        print(f"{stage:18} {one.calls:6} {one.seconds:8.2f} {one.cpu:6.2f} {least}")


if __name__ == "__main__":
    main()
