"""The versions of the packages that whisperbatch calls, from the oldest to the newest tested."""

import re
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, requires, version
from types import MappingProxyType
from typing import Final

PACKAGES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "av": "av",
        "ctranslate2": "ctranslate2",
        "fastapi": "fastapi",
        "faster_whisper": "faster-whisper",
        "fsspec": "fsspec",
        "huggingface_hub": "huggingface-hub",
        "matplotlib": "matplotlib",
        "numpy": "numpy",
        "onnx": "onnx",
        "onnxruntime": "onnxruntime",
        "openvino": "openvino",
        "packaging": "packaging",
        "prometheus_client": "prometheus-client",
        "pydantic": "pydantic",
        "pydantic_settings": "pydantic-settings",
        "rich": "rich",
        "safetensors": "safetensors",
        "starlette": "starlette",
        "tokenizers": "tokenizers",
        "torch": "torch",
        "torchaudio": "torchaudio",
        "tqdm": "tqdm",
        "typer": "typer",
        "typing_extensions": "typing-extensions",
        "uvicorn": "uvicorn",
    }
)
"""Module -> package that contains the module."""

NEWEST: Final[Mapping[str, str]] = MappingProxyType(
    {
        "av": "19.0.2",
        "ctranslate2": "4.8.5",
        "fastapi": "0.165.0",
        "faster-whisper": "1.2.1",
        "fsspec": "2026.9.0",
        "huggingface-hub": "2.4.0",
        "matplotlib": "3.11.2",
        "numpy": "2.5.5",
        "onnx": "1.23.2",
        "onnxruntime": "1.32.0",
        "openvino": "2026.4.1",
        "packaging": "26.4",
        "prometheus-client": "0.26.0",
        "pydantic": "2.14.4",
        "pydantic-settings": "2.16.3",
        "rich": "15.0.0",
        "starlette": "1.10.0",
        "tokenizers": "0.23.3",
        "tqdm": "4.70.1",
        "typer": "0.29.2",
        "typing-extensions": "4.16.0",
        "uvicorn": "0.54.0",
    }
)
"""Package -> the newest version that `make newest` has passed with; the command says when a version
of this table is no longer the newest."""


def version_bounds(package: str) -> tuple[str, str]:
    """Return the oldest and the newest tested version of a package; "" if unknown.

    The oldest version is the lower bound that whisperbatch declares, which `make oldest` tests.

    Args:
        package: its name on the package index.
    """
    try:
        declared = requires("whisperbatch") or []
    except PackageNotFoundError:  # a clone that was not installed
        declared = []
    pattern = re.compile(rf"{re.escape(package)}\s*>=\s*([\w.]+)")
    oldest = next((match[1] for line in declared if (match := pattern.match(line))), "")
    return oldest, NEWEST.get(package, "")


def installed_version(package: str) -> str:
    """Return the installed version of a package; "" if unknown, as for a build with another name.

    Args:
        package: its name on the package index.
    """
    try:
        return version(package)
    except PackageNotFoundError:
        return ""
