"""OpenVINO: its installed version, its import, its `Core`, and its use beside onnxruntime.

Importing this file imports neither OpenVINO nor NumPy.
"""

import logging
import re
import threading
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Final, Literal, TypeAlias

from whisperbatch.errors import MissingExtraError
from whisperbatch.runtimes.machine import has_amx
from whisperbatch.runtimes.telemetry import hidden
from whisperbatch.threads import Lock

MIN_OPENVINO: Final = (2026, 4)
"""In older versions, the result of a row depends on the other rows of its batch."""

Precision: TypeAlias = Literal["bf16", "f32"]

_IMPORTING: Final = threading.Lock()
_OPENING: Final = Lock()

log = logging.getLogger(__name__)


def check_openvino() -> None:
    """Check that OpenVINO is installed, in a version whose results are reproducible.

    Raises:
        MissingExtraError: OpenVINO is missing or too old.
    """
    try:
        installed = version("openvino")
    except PackageNotFoundError:
        raise MissingExtraError(
            "OpenVINO is not installed: pip install 'whisperbatch[openvino]'"
        ) from None
    numbers = re.match(r"(\d+)\.(\d+)", installed)
    if numbers and tuple(map(int, numbers.groups())) < MIN_OPENVINO:
        needed = ".".join(map(str, MIN_OPENVINO))
        raise MissingExtraError(
            f"OpenVINO {installed} is older than {needed}: "
            "pip install --upgrade 'whisperbatch[openvino]'"
        )


def import_openvino() -> Any:  # noqa: ANN401 - OpenVINO is an extra
    """Return the module `openvino`, which is imported without its telemetry. Thread-safe.

    All other files import OpenVINO by this function: `import openvino` reports the import.
    """
    with _IMPORTING, hidden():
        return import_module("openvino")


def open_core() -> Any:  # noqa: ANN401 - OpenVINO is not imported here
    """Return a new `Core` of OpenVINO. Thread-safe.

    OpenVINO's binding looks for NumPy's functions when the data of a tensor are first read. Two
    threads that do this at the same time can wait for each other forever (OpenVINO 2026.4: in 9 of
    60 processes). Therefore the data of a tensor are read here, by one thread.
    """
    openvino = import_openvino()
    with _OPENING:
        import numpy as np  # noqa: PLC0415 - see above

        _ = openvino.Tensor(np.zeros(1, np.float32)).data
        return openvino.Core()


def openvino_is_faster(part: str) -> bool:
    """Return whether the processor has AMX, and OpenVINO is installed. See `openvino_is_installed`.

    The networks of the diarizer were measured on processors with AMX only.
    """
    return has_amx() and openvino_is_installed(part)


def openvino_is_installed(part: str) -> bool:
    """Return whether OpenVINO is installed in a usable version."""
    try:
        check_openvino()
    except MissingExtraError as error:
        log.info("OpenVINO does not compute %s: %s", part, error)
        return False
    return True


def fastest_precision(core: Any) -> Precision:  # noqa: ANN401 - OpenVINO is not imported here
    """Return bfloat16 if the processor supports it, otherwise float32."""
    capabilities = core.get_property("CPU", "OPTIMIZATION_CAPABILITIES")
    return "bf16" if "BF16" in capabilities else "f32"
