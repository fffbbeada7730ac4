"""Findings: the results of checks, as lines of text or as JSON."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from textwrap import indent
from typing import Literal, TypeAlias

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
    """Return a finding as one line, with its fix.

    Args:
        finding: the finding.
        details: whether to add the messages of libraries in further, indented lines.
    """
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
    content = {
        "ok": not has_problems(findings),
        "findings": [{**asdict(finding)} for finding in findings],
    }
    return json.dumps(content, indent=2, ensure_ascii=False)
