"""A finding: the result of a check, in one line, with its fix."""

from collections.abc import Mapping
from dataclasses import dataclass, field
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
