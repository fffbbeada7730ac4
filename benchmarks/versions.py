"""The machine and the versions of the packages, for files of figures."""

import platform
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from whisperbatch.runtimes.machine import available_cpus

PACKAGES = (
    *("whisperbatch", "faster-whisper", "ctranslate2", "openvino", "onnxruntime"),
    *("numpy", "av"),
    *("openai-whisper", "transformers", "torch", "pywhispercpp"),
)


def about() -> dict[str, Any]:
    """Return a description of the machine and the versions of the packages."""
    versions = {}
    for name in PACKAGES:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    return {"machine": platform.machine(), "cores": available_cpus(), "versions": versions}
