"""Findings: the results of checks, as text or as JSON; and the fixes for messages of libraries."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from textwrap import indent
from typing import Final, Literal, TypeAlias

Level: TypeAlias = Literal["ok", "warning", "problem"]


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of a check.

    Attributes:
        level: "ok": as it should be. "warning": transcription works, but slower or without a part.
            "problem": transcription fails or its text is wrong, at least with one engine.
        subject: the part that was checked: "packages", "machine", "storage" and so on.
        message: the result, in one line.
        fix: how to fix a warning or problem, in one line.
        details: the messages of libraries, in several lines.
        measured: quantities with their unit in the name, such as "times_real_time".
    """

    level: Level
    subject: str
    message: str
    fix: str = ""
    details: str = ""
    measured: Mapping[str, float] = field(default_factory=dict)


def line(finding: Finding, *, details: bool = False) -> str:
    """Return a finding as one line, with its fix."""
    text = f"{finding.level:<8} {finding.subject}: {finding.message}"
    if finding.fix:
        text += f". Fix: {finding.fix}"
    text = " ".join(text.split("\n")).rstrip()
    if details and finding.details:
        text += "\n" + indent(finding.details, " " * 9)
    return text


def summary(findings: Sequence[Finding]) -> str:
    """Return the numbers of problems and warnings, in one line."""
    counts = []
    for level in ("problem", "warning"):
        number = sum(finding.level == level for finding in findings)
        counts.append(f"{number or 'no'} {level}{'' if number == 1 else 's'}")
    return f"{' and '.join(counts)} in {len(findings)} checks"


def has_problems(findings: Sequence[Finding]) -> bool:
    """Return whether transcription fails or its text is wrong, at least with one engine."""
    return any(finding.level == "problem" for finding in findings)


def to_json(findings: Sequence[Finding]) -> str:
    """Return all findings as a JSON object.

    The keys are "ok" (whether there is no problem) and "findings" (the attributes of `Finding`).
    """
    listed = [asdict(finding) for finding in findings]
    content = {"ok": not has_problems(findings), "findings": listed}
    return json.dumps(content, indent=2, ensure_ascii=False)


FIXES: Final = {
    r"CUBLAS_STATUS_NOT_SUPPORTED": (
        "the GPU or this version of cuBLAS lacks the compute type: give another compute_type"
    ),
    r"cudnn": (
        "install one cuDNN 9 with pip install --upgrade nvidia-cudnn-cu12, and remove other "
        "copies from LD_LIBRARY_PATH"
    ),
    r"cublas": (
        "pip install --upgrade nvidia-cublas-cu12, and remove other copies from LD_LIBRARY_PATH"
    ),
    r"no kernel image|not compiled for|unsupported gpu architecture": (
        "this build does not support the GPU: pip install --upgrade ctranslate2, or for "
        "PyTorch install a build for a newer CUDA"
    ),
    r"driver version is insufficient|cuda driver": "install a newer NVIDIA driver",
    r"out of memory|bad_alloc|cannot allocate|SIGKILL|MemoryError": (
        "free memory, use a smaller model, or on a GPU a smaller compute_type such as int8"
    ),
    r"cannot enable executable stack": (
        "pip install --upgrade ctranslate2: new kernels refuse the libraries of old versions"
    ),
    r"NumPy 1\.x|_ARRAY_API|numpy\.core\.multiarray|dtype size changed|binary incompat": (
        "the package was built for another NumPy: pip install --upgrade --force-reinstall it"
    ),
    r"GLIBC(XX)?_[\d.]+": (
        "the package was built for a newer Linux: install an older version of the package, or "
        "use a newer Linux"
    ),
    r"DLL load failed": (
        "install the Microsoft Visual C++ Redistributable, then reinstall the package"
    ),
    r"SIGILL": (
        "the processor lacks an instruction that the library uses: install an older version"
    ),
    r"No space left|disk quota exceeded": "free space on the disk",
}
"""Pattern of a message (letter case is ignored), and the fix."""


def known_fix(message: str) -> str:
    """Return the fix for a message of a library: that of the first pattern in it; "" if unknown."""
    found = (fix for pattern, fix in FIXES.items() if re.search(pattern, message, re.IGNORECASE))
    return next(found, "")
