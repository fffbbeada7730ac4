"""The cases of the fuzz program. The seed, the kind and the number of a case determine the case."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Literal, TypeAlias, get_args

Kind = Literal["file", "option", "request", "run", "session"]
Note: TypeAlias = Callable[[str], None]
"""Adds a line to the description of the case, which is known even if the case crashes."""


class Failure(Exception):  # noqa: N818 - a verdict of this program, not an error of the library
    """The library broke a rule; the message says which."""


def check(condition: object, rule: str) -> None:
    """Raise a Failure if a rule is broken."""
    if not condition:
        raise Failure(rule)


@dataclass(frozen=True, slots=True)
class Case:
    """One call, or a few calls, of the library with generated input."""

    seed: int
    kind: Kind
    number: int

    @property
    def name(self) -> str:
        """The name that `--only` accepts."""
        return f"{self.kind}-{self.number}"

    def random(self) -> Random:
        """The random numbers of this case, the same in every version of Python."""
        return Random(f"{self.seed}/{self.name}")  # noqa: S311 - not a secret

    @classmethod
    def named(cls, seed: int, name: str) -> "Case":
        """Raise a ValueError if there is no such case."""
        kind, _, number = name.partition("-")
        for known in get_args(Kind):
            if kind == known and number.isdecimal():
                return cls(seed, known, int(number))
        kinds = ", ".join(f"{known}-NUMBER" for known in get_args(Kind))
        raise ValueError(f"{name!r} is no case; cases are {kinds}")


@dataclass(frozen=True, slots=True)
class Result:
    """How a case ended that broke no rule."""

    verdict: str  # "transcript", "chunks", ..., or the type of the error
    message: str = ""  # of the error
    container: str = ""
    audio_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Environment:
    """What a case may use."""

    folder: Path  # an empty folder, removed after the case
    note: Note
    begin: Callable[..., None]  # `worker.Before.take`, to be called before the calls of the library
    engine: str | None = None  # the engine of all cases; None: each case chooses


Runner: TypeAlias = Callable[[Case, Environment], Result]


@dataclass(slots=True)
class Record:
    """The result of a case with its measurements, as the worker reports it."""

    case: str
    verdict: str
    message: str = ""
    failed: bool = False
    notes: tuple[str, ...] = ()
    container: str = ""
    seconds: float = 0.0
    audio_seconds: float = 0.0
    memory: float = 0.0  # MiB, resident after the case
    loading: float = 0.0  # MiB, by which loading models before the case raised the memory
    frees_model: bool = False  # whether the case loaded a model and freed it
    peak: float = 0.0  # MiB by which the peak during the case exceeded the memory before it
    process: int = 0  # of the worker
