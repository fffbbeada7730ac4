"""Measure the time of each stage of the pipeline, next to this machine's lower limit.

python -m benchmarks.stages
python -m benchmarks.stages --beam 5 --recording dense:en:600:0

The limits of the machine are measured first: multiplications per second in bfloat16 and float32,
and bytes read per second. The limit of a stage is the time of its multiplications or of reading its
data, whichever is longer. The limits assume that the library multiplies in bfloat16 or float32.

    seconds     wall-clock time of all calls; stages of different threads overlap
    CPU         CPU time of the calling thread, without OpenVINO's other threads
    least       the limit of all calls
"""

import argparse
import os
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import numpy as np

import whisperbatch as wb
from benchmarks import corpora, recordings
from benchmarks.stage_times import timed_methods
from whisperbatch.engines.alignment import DecodingTrace
from whisperbatch.engines.onnx.decoder import Decoder
from whisperbatch.engines.onnx.decoder_layers import DecoderLayers, DecoderSessions
from whisperbatch.engines.onnx.encoder import Encoder, group_count
from whisperbatch.features.measures import share_to_keep
from whisperbatch.features.whisper import WhisperFeatures
from whisperbatch.runtimes.openvino_package import import_openvino
from whisperbatch.vad.silero import SileroVad

ROUNDS: Final = 12  # repetitions; the fastest counts
GIGA: Final = 1e9


def rate(precision: str) -> float:
    """Return the multiplications and additions per second of matrices of the encoder's size."""
    openvino = import_openvino()
    ops, rng = openvino.opset13, np.random.default_rng(0)
    rows, size, layers = 1500, 512, 6
    inputs = hidden = ops.parameter([rows, size], np.float32)
    for _ in range(layers):
        for shape in ((4 * size, size), (size, 4 * size)):
            weights = ops.constant(rng.standard_normal(shape).astype(np.float32))
            hidden = ops.matmul(hidden, weights, transpose_a=False, transpose_b=True)
    compiled = openvino.Core().compile_model(
        openvino.Model([ops.result(hidden)], [inputs], "rate"),
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
    """Return the bytes that `threads` threads read per second."""
    arrays = [np.ones(50_000_000, np.float32) for _ in range(threads)]
    took = []
    with ThreadPoolExecutor(threads) as pool:
        for _ in range(ROUNDS):
            started = time.perf_counter()
            list(pool.map(np.sum, arrays))
            took.append(time.perf_counter() - started)
    return sum(array.nbytes for array in arrays) / min(took)


class Limits:
    """Lower limits of the time of a call, in seconds; see the module."""

    def __init__(self, decoder: Decoder, mels: int) -> None:
        self._bf16, self._f32 = rate("bf16"), rate("f32")
        self._bytes = bandwidth(len(os.sched_getaffinity(0)))
        self._layout, self._mels = decoder.layout, mels
        self._vocabulary = decoder.vocabulary_size

    def __str__(self) -> str:
        return (
            f"{self._bf16 / GIGA:.0f} GFLOP/s bfloat16, {self._f32 / GIGA:.0f} float32, "
            f"{self._bytes / GIGA:.0f} GB/s"
        )

    def encoder(self, encoder: Any, features: Any) -> float:  # noqa: ANN401 - arguments of a wrapped method
        """Return the limit of the encoder: convolutions, matrices and attention.

        After the first layer, the groups of merged positions are computed.
        """
        frames, d, layers = features.shape[2], self._layout.d_model, self._layout.layers
        positions, operations = frames // 2, 0.0
        for row in features:
            share = share_to_keep(row, encoder._kept_frames)  # noqa: SLF001 - a measurement
            operations += frames * self._mels * d * 6 + positions * d * d * 6
            for length, count in ((positions, 1), (group_count(positions, share), layers - 1)):
                operations += count * (length * 24 * d * d + 4 * length**2 * d)
        return operations / self._bf16

    def cross(self, *arguments: Any) -> float:  # noqa: ANN401 - arguments of a wrapped method
        """Return the limit of the keys and values of the encoder output, for all layers."""
        positions, d = sum(map(len, arguments[2].states)), self._layout.d_model
        return float(positions * self._layout.layers * 4 * d * d / self._bf16)

    def body(self, graphs: Any, embedded: Any, *_: Any) -> float:  # noqa: ANN401 - arguments of a wrapped method
        """Return the limit of a decoder step: all matrices once, and each row's keys and values."""
        d, layers = self._layout.d_model, self._layout.layers
        kept = sum(int(array.nbytes) for array in graphs._key_values)  # noqa: SLF001 - a measurement
        matrices = layers * 14 * d * d
        computed = float(embedded.size) / d * 2 * matrices / self._bf16
        return max(computed, (kept + matrices) / self._bytes)

    def words(self, _: Any, hidden: Any, *__: Any) -> float:  # noqa: ANN401 - arguments of a wrapped method
        """Return the limit of the output projection: the vocabulary's matrix once."""
        size = self._vocabulary * self._layout.d_model
        rows = float(hidden.size // self._layout.d_model)
        return max(rows * 2 * size / self._bf16, size / self._bytes)


def main() -> None:
    """Measure all stages of a transcription and print a table."""
    parser = argparse.ArgumentParser(description="Measure the time of each stage of the pipeline.")
    parser.add_argument("--model", default="base")
    parser.add_argument("--engine", choices=("openvino", "onnxruntime"), default="onnxruntime")
    parser.add_argument("--beam", type=int, default=1)
    parser.add_argument("--recording", type=corpora.argument, default="prompts:en:600:0")
    options = parser.parse_args()
    recording = corpora.build(options.recording)
    with (
        tempfile.TemporaryDirectory() as directory,
        wb.load(options.model, device="cpu", engine=options.engine) as asr,
    ):
        engine: Any = asr.engine
        limits = Limits(engine._decoder, engine.n_mels)  # noqa: SLF001 - a measurement
        path = recordings.write(recording, Path(directory, "recording.wav"))
        asr.transcribe(np.zeros(16000, np.float32), language="en")
        with timed_methods(
            [
                ("reading and VAD", SileroVad, "__call__", None),
                ("features", WhisperFeatures, "__call__", None),
                ("encoder", Encoder, "__call__", limits.encoder),
                ("keys and values", DecoderLayers, "__init__", limits.cross),
                ("decoder's layers", DecoderLayers, "read", limits.body),
                ("vocabulary", DecoderSessions, "project", limits.words),
                ("alignment", DecodingTrace, "alignment", None),
                ("all decoding", Decoder, "decode", None),
            ]
        ) as times:
            started, cpu = time.perf_counter(), time.process_time()
            transcript = asr.transcribe(path, language="en", beam_size=options.beam)
            took, cpu = time.perf_counter() - started, time.process_time() - cpu
    print(f"{limits}; {recording.duration:.0f} s in {took:.1f} s, {recording.duration / took:.1f}")
    print(f"times real time; CPU {cpu:.1f} s; {transcript.chunks} rows, beam {options.beam}")
    print(f"{'':18} {'calls':>6} {'seconds':>8} {'CPU':>6} {'least':>6}")
    for stage, spent in times.items():
        limit = f"{spent.limit:6.2f}" if spent.limit else f"{'':6}"
        print(f"{stage:18} {spent.calls:6} {spent.seconds:8.2f} {spent.cpu:6.2f} {limit}")


if __name__ == "__main__":
    main()
