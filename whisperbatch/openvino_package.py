"""Checks the installed version of OpenVINO, without importing it."""

import re
from importlib.metadata import PackageNotFoundError, version
from typing import Final

from whisperbatch.errors import MissingExtraError

MIN_OPENVINO: Final = (2026, 4)
"""In older versions, the result of a row depends on the other rows of its batch."""


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
