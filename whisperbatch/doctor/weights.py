"""Checks of a model: its weights are complete, and there is enough memory for them."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from whisperbatch.doctor.findings import Finding
from whisperbatch.doctor.processes import run_probe
from whisperbatch.doctor.remedies import remedy_for
from whisperbatch.machine import available_memory

BASE_MEMORY: Final = 250e6  # bytes
MEMORY_PER_BYTE: Final = 1.3
"""Bytes of memory for each byte of the weights in float16. The clip takes 329 MB with tiny.en
(76 MB) and 435 MB with base (145 MB) on OpenVINO, and 267 and 379 MB on CTranslate2 in int8."""


@dataclass(frozen=True, slots=True)
class Weights:
    """The weights of a model that were found.

    Attributes:
        name: name of the model.
        directory: contains the weights.
        ctranslate2: whether they are in CTranslate2's format, not in that of transformers.
    """

    name: str
    directory: str
    ctranslate2: bool


def check_weights(
    model: str, *, revision: str | None = None, root: Path, time_limit: float
) -> tuple[Weights | None, list[Finding]]:
    """Find the weights, check their files, and compare their size with the memory.

    Args:
        model: a name, directory or repository; "" is the default model or another local model.
        revision: of the model on the hub; None for the cached or the newest one.
        root: folder that contains `proc` and `sys`.
        time_limit: seconds, which include a download.

    Returns:
        The weights, None if they cannot be used; and the findings.
    """
    result = run_probe("find_weights", time_limit=time_limit, model=model, revision=revision)
    if result.failure:
        finding = Finding(
            "problem",
            "weights",
            f"{result.failure}",
            result.fix or remedy_for(result.details) or "choose another model with --model",
            result.details,
        )
        return None, [finding]
    values = result.values
    weights = Weights(values["model"], values["directory"], values["ctranslate2"])
    findings = [
        Finding(
            "ok",
            "weights",
            f"{weights.name}: {values['bytes'] / 1e6:.0f} MB, complete, in {weights.directory}",
        ),
        *_check_memory(weights.name, values["bytes"], root),
    ]
    return weights, findings


def _check_memory(name: str, size: int, root: Path) -> Iterator[Finding]:
    """Compare the memory that weights of `size` bytes need with the available memory."""
    memory, needed = available_memory(root), BASE_MEMORY + MEMORY_PER_BYTE * size
    if memory is None:  # macOS and Windows
        return
    message = f"{memory / 1e9:.1f} GB are available, and {name} needs about {needed / 1e9:.1f} GB"
    measured = {"available_bytes": float(memory), "needed_bytes": needed}
    if memory < needed:
        yield Finding(
            "warning",
            "memory",
            message,
            "stop other programs, raise the memory limit of the container, or use a smaller model",
            measured=measured,
        )
    else:
        yield Finding("ok", "memory", message, measured=measured)
