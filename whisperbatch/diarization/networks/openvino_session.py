"""Runs a network of the diarizer on OpenVINO in bfloat16, on processors with AMX.

onnxruntime computes these networks in float32. In bfloat16, the segmentation takes half of the
time. Each call has the same number of rows, as OpenVINO rounds a single row otherwise than several
rows. So the result of a row does not depend on the other rows of a call.
"""

import logging
from collections.abc import Sequence
from pathlib import Path
from queue import Empty, LifoQueue
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from whisperbatch.errors import MissingExtraError
from whisperbatch.machine import available_cpus, has_amx
from whisperbatch.openvino_package import check_openvino

PRECISION: Final = "bf16"

log = logging.getLogger(__name__)


def openvino_is_faster() -> bool:
    """Return whether the processor has AMX, and OpenVINO is installed."""
    if not has_amx():
        return False
    try:
        check_openvino()
    except MissingExtraError as error:
        log.info("onnxruntime computes the segmentation in float32, because %s", error)
        return False
    return True


class OpenVinoSession:
    """A loaded network. Thread-safe: calls of several threads run at the same time.

    Args:
        path: .onnx file.
        shape: of the input of a call.

    Raises:
        RuntimeError: OpenVINO cannot load the file.
    """

    def __init__(self, path: Path, shape: Sequence[int]) -> None:
        import openvino  # noqa: PLC0415 - an extra

        core = openvino.Core()
        streams = available_cpus()
        settings = {
            "INFERENCE_PRECISION_HINT": PRECISION,
            "INFERENCE_NUM_THREADS": streams,  # one for each call
            "NUM_STREAMS": streams,
            "ENABLE_CPU_PINNING": False,  # the model's threads would wait for the same core
        }
        model = core.read_model(str(path))
        model.reshape(list(shape))
        self._shape = tuple(shape)
        self._compiled: Any = core.compile_model(model, "CPU", settings)
        self._free: LifoQueue[Any] = LifoQueue()

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
            request = self._compiled.create_infer_request()
        try:
            output: npt.NDArray[np.float32] = request.infer({0: filled})[0]
        finally:
            self._free.put(request)
        return output[: len(output) - missing]
