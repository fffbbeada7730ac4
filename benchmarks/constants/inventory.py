"""All constants of whisperbatch that decide about speech, text or languages, from its source.

A constant is a module-level number or tuple of numbers with the annotation `Final`. Its meaning is
the comment beside or above the assignment.
"""

import ast
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, Final, TypeAlias
from unittest import mock

import whisperbatch as wb
from whisperbatch.options import Options

Number: TypeAlias = int | float
LIBRARY: Final = Path(wb.__file__).parent
FOLDERS: Final = ("chunking", "decoding", "language", "second_opinion", "segmentation", "vad")
FILES: Final = ("rows.py",)
OPTION: Final = "options."  # the key of an option begins with it
OPTIONS: Final = Options(beam_size=1)


@dataclass(frozen=True, slots=True)
class Constant:
    """A constant of whisperbatch.

    Attributes:
        module: name of its module, without "whisperbatch.".
        name: name of the constant.
        value: its value.
        meaning: its comment; may be empty.
    """

    module: str
    name: str
    value: Number | tuple[Number, ...]
    meaning: str

    @property
    def key(self) -> str:
        """MODULE.NAME."""
        return f"{self.module}.{self.name}"


@cache
def constants() -> dict[str, Constant]:
    """Return all constants by key, in the order of files and lines."""
    paths = [path for folder in FOLDERS for path in sorted((LIBRARY / folder).rglob("*.py"))]
    found = [constant for path in (*paths, *(LIBRARY / f for f in FILES)) for constant in _of(path)]
    return {constant.key: constant for constant in found}


def _of(path: Path) -> Iterator[Constant]:
    """Yield the constants of a file."""
    source = path.read_text(encoding="utf-8")
    lines = source.splitlines()
    module = _module(path)
    for node in ast.parse(source).body:
        if not (isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)):
            continue
        if ast.unparse(node.annotation).partition("[")[0] != "Final":
            continue
        value = getattr(import_module(f"whisperbatch.{module}"), node.target.id)
        if _is_number(value) or (isinstance(value, tuple) and all(map(_is_number, value))):
            meaning = _comment(lines, node.lineno - 1, node.end_lineno or node.lineno)
            yield Constant(module, node.target.id, value, meaning)


def _module(path: Path) -> str:
    return ".".join(path.relative_to(LIBRARY).with_suffix("").parts)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _comment(lines: list[str], first: int, end: int) -> str:
    """Return the comment at the end of an assignment, or else the comment lines above it."""
    _, mark, comment = lines[end - 1].partition("#")
    if mark:
        return comment.strip()
    start = first
    while start and lines[start - 1].startswith("#"):
        start -= 1
    return " ".join(line.lstrip("# ") for line in lines[start:first])


@contextmanager
def setting(key: str, value: Number | None) -> Iterator[Options]:
    """Give a constant or an option another value; yield the options of the run.

    Args:
        key: of a constant, or "options." and the name of an option.
        value: the other value; None changes nothing.
    """
    if value is None:
        yield OPTIONS
    elif key.startswith(OPTION):
        values: dict[str, Any] = {key.removeprefix(OPTION): value}
        yield replace(OPTIONS, **values)
    else:
        with _changed(constants()[key], value):
            yield OPTIONS


def shipped(key: str) -> object:
    """Return the value of a constant or of an option."""
    if key.startswith(OPTION):
        return getattr(OPTIONS, key.removeprefix(OPTION))
    return constants()[key].value


@contextmanager
def _changed(constant: Constant, value: Number) -> Iterator[None]:
    """Give a constant another value, also in the modules that import it."""
    with ExitStack() as stack:
        for module in (constant.module, *_importers(constant.module, constant.name)):
            target = import_module(f"whisperbatch.{module}")
            stack.enter_context(mock.patch.object(target, constant.name, value))
        yield


@cache
def _importers(module: str, name: str) -> tuple[str, ...]:
    """Return the modules of whisperbatch that import a name from a module."""
    return tuple(
        _module(path)
        for path in sorted(LIBRARY.rglob("*.py"))
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.ImportFrom)
        and node.module == f"whisperbatch.{module}"
        and any(alias.name == name and alias.asname is None for alias in node.names)
    )
