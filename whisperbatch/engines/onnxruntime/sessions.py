"""Loads ONNX graphs, and runs them."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from whisperbatch.models.files import one_line
from whisperbatch.runtimes.onnx_sessions import open_session


class Session:
    """A loaded graph. Thread-safe; releases the GIL while it works.

    Args:
        name: of the graph, for errors.
        content: of the .onnx file.
        threads: number of threads that compute a call, with the calling thread. Calls at the same
            time share all but their own threads.
        keep_memory: keep the memory of intermediate results for the next call.

    Raises:
        RuntimeError: onnxruntime cannot load the graph.
    """

    def __init__(
        self, name: str, content: bytes, threads: int, *, keep_memory: bool = False
    ) -> None:
        self._name = name
        try:
            self._session: Any = open_session(content, threads, keep_memory=keep_memory)
        except Exception as error:  # see `open_session`
            raise RuntimeError(f"onnxruntime cannot load {name}: {one_line(error)}") from error

    def __call__(self, inputs: Mapping[str, npt.NDArray[Any]]) -> list[npt.NDArray[Any]]:
        """Return the outputs.

        Args:
            inputs: by name; contiguous arrays are not copied.

        Raises:
            RuntimeError: onnxruntime cannot compute the graph.
        """
        contiguous = {name: np.ascontiguousarray(array) for name, array in inputs.items()}
        try:
            outputs: list[npt.NDArray[Any]] = self._session.run(None, contiguous)
        except Exception as error:  # as above
            message = f"onnxruntime cannot compute {self._name}: {one_line(error)}"
            raise RuntimeError(message) from error
        return outputs
