"""Runs a network of the diarizer on OpenVINO in bfloat16, on processors with AMX.

OpenVINO takes half of the time of onnxruntime, which computes the segmentation in float32 and the
products of the embeddings with 8-bit numbers. Each call has the same number of rows, as OpenVINO
rounds a single row otherwise than several rows. So the result of a row does not depend on the other
rows of a call.

The compiled networks are kept in the cache (openvino_cache.py). Loading them takes a third of the
time of compiling them (0.5 instead of 1.6 s), and less memory.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from queue import Empty, LifoQueue
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from whisperbatch.runtimes.openvino_cache import compiled_graphs_folder, load_compiled
from whisperbatch.runtimes.openvino_package import fastest_precision, open_core
from whisperbatch.threads import Lock, keep_in_children, reset_after_fork

SUBGRAPHS: Final = "SNIPPETS_MODE"  # of OpenVINO


class OpenVinoSession:
    """A loaded network. Thread-safe.

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

    def __call__(self, rows: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
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
            output: npt.NDArray[np.float32] = request.infer({0: filled})[0]
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
