"""The parts of a call of CTranslate2, and calls of several workers at a time.

    encode        rows of 30 s, with and without the memory pool of CUDA keeping its memory
    generate      the decoder: seconds, and milliseconds for each step
    align         the times of the texts, with the conversion of the results to arrays
    N workers     calls side by side, each on its own CUDA stream

The pool gives free memory back to CUDA at each synchronisation (its release threshold is 0), and an
encoder needs several GB in each call.
"""

import statistics
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, Final

import ctranslate2
import numpy as np

from benchmarks.gpu.machine import gpu_use
from benchmarks.gpu.running import Figures, Rows
from tests.contract.tiny_model import TOKEN_IDS
from whisperbatch.engines.ctranslate2.cuda import WITHOUT_LIMIT, set_release_threshold
from whisperbatch.engines.ctranslate2.engine import to_alignment
from whisperbatch.options import MAX_NEW_TOKENS

START: Final = [TOKEN_IDS[f"<|{name}|>"] for name in ("startoftranscript", "en", "transcribe")]
PROMPT: Final = [*START, TOKEN_IDS["<|notimestamps|>"]]
ROW: Final = 27.0  # seconds of audio in a row, on average
FRAMES: Final = 3000
MELS: Final = 128
ENCODED: Final = (64, 1, 8, 32, 128)  # rows
GENERATED: Final = ((64, 1), (64, 5), (8, 1), (1, 1))  # rows and beams
SIDE_BY_SIDE: Final = ((1, 64), (2, 64), (3, 64), (2, 32))  # workers and rows of a call
REPEATS: Final = 3


class Calls:
    """CTranslate2's own model, and calls with random features.

    Args:
        directory: of a model with random weights.
        device: "cuda", or "cpu" to try the program out.
        n_mels: mel bands of the model.
    """

    def __init__(self, directory: Path, device: str = "cuda", n_mels: int = MELS) -> None:
        workers = max(count for count, _ in SIDE_BY_SIDE)
        self._model = ctranslate2.models.Whisper(
            *(str(directory), device),
            compute_type="float16" if device == "cuda" else "default",
            inter_threads=workers,
            intra_threads=1,
        )
        self._type = np.float16 if device == "cuda" else np.float32
        self._n_mels = n_mels

    def features(self, rows: int) -> Any:  # noqa: ANN401 - untyped
        """Return random features of a number of rows."""
        shape = (rows, self._n_mels, FRAMES)
        return np.random.default_rng(0).standard_normal(shape, np.float32).astype(self._type)

    def encode(self, features: Any) -> Any:  # noqa: ANN401 - untyped
        """Return the encoder output of features, when it is complete."""
        return self._model.encode(ctranslate2.StorageView.from_array(features))

    def generate(self, output: Any, rows: int, beams: int) -> list[list[int]]:  # noqa: ANN401 - untyped
        """Return the tokens of each row."""
        results = self._model.generate(
            *(output, [PROMPT] * rows),
            beam_size=beams,
            max_length=len(PROMPT) + MAX_NEW_TOKENS,
            return_scores=True,
            return_no_speech_prob=True,
        )
        return [result.sequences_ids[0] for result in results]

    def align(self, output: Any, texts: Sequence[list[int]]) -> list[Any]:  # noqa: ANN401 - untyped
        """Return the alignments of texts, whose rows have different lengths."""
        frames = [FRAMES - 10 - 4 * (number % 60) for number in range(len(texts))]
        results: list[Any] = self._model.align(output, START, texts, frames)
        return results


def parts(calls: Calls, *, on_gpu: bool = True) -> Rows:
    """Yield the time of each part of a call.

    Args:
        calls: the model.
        on_gpu: whether there is a memory pool.
    """
    for keeps in (False, True) if on_gpu else (False,):
        state = keep_pool(keeps=keeps) if on_gpu else "no GPU"
        for rows in ENCODED:
            seconds = median_seconds(partial(calls.encode, calls.features(rows)))
            yield f"encode {rows} rows, pool keeps: {keeps}", {"s": seconds, "pool": state}
    for rows, beams in GENERATED:
        output = calls.encode(calls.features(rows))
        texts = calls.generate(output, rows, beams)
        yield f"generate {rows} rows, beam {beams}", _generated(calls, output, texts, beams)
        if beams == 1:
            yield f"align {rows} rows", _aligned(calls, output, texts)


def _generated(calls: Calls, output: Any, texts: Sequence[list[int]], beams: int) -> Figures:  # noqa: ANN401 - untyped
    seconds = median_seconds(lambda: calls.generate(output, len(texts), beams))
    steps = max(map(len, texts))
    return {
        "s": seconds,
        "steps": steps,
        "mean tokens": statistics.mean(map(len, texts)),
        "ms per step": 1000 * seconds / max(steps, 1),
    }


def _aligned(calls: Calls, output: Any, texts: Sequence[list[int]]) -> Figures:  # noqa: ANN401 - untyped
    results = calls.align(output, texts)
    return {
        "s": median_seconds(lambda: calls.align(output, texts)),
        "conversion s": median_seconds(lambda: list(map(to_alignment, results))),
    }


def side_by_side(calls: Calls) -> Rows:
    """Yield the speed of several workers, each of which computes its own calls."""

    def whole(features: Any) -> None:  # noqa: ANN401 - untyped
        output = calls.encode(features)
        calls.align(output, calls.generate(output, len(features), 1))

    for workers, rows in SIDE_BY_SIDE:
        features = calls.features(rows)
        with ThreadPoolExecutor(workers) as pool, gpu_use() as use:
            list(pool.map(whole, [features] * workers))
            started = time.perf_counter()
            list(pool.map(whole, [features] * (REPEATS * workers)))
            seconds = time.perf_counter() - started
        speed = REPEATS * workers * rows / seconds
        yield (
            f"{workers} workers, {rows} rows",
            {"rows per s": speed, "times real time": ROW * speed, **use.figures()},
        )


def median_seconds(function: Callable[[], object]) -> float:
    """Return the median time of some calls, after a call that warms up."""
    function()
    took = []
    for _ in range(REPEATS):
        started = time.perf_counter()
        function()
        took.append(time.perf_counter() - started)
    return statistics.median(took)


def keep_pool(*, keeps: bool) -> str:
    """Let CUDA's memory pool keep free memory, or give it back; return whether this worked."""
    try:
        set_release_threshold(0, WITHOUT_LIMIT if keeps else 0)
    except (OSError, AttributeError) as error:
        return f"failed: {error}"
    return "set"
