"""The values of flags: from the text of the command line to the type of an option."""

import types
from collections.abc import Callable
from typing import Any, Final, Union, get_args, get_origin

import typer

NONE: Final = object()
"""The value of a flag with the text "none". None itself means that the flag is not given."""


def parser_of(value_type: object, *, optional: bool) -> Callable[[str], Any]:
    """Return a function that parses the text of a flag.

    Args:
        value_type: a key of `PARSERS`.
        optional: whether "none" is a value.
    """

    def parse(text: str) -> Any:  # noqa: ANN401 - any type of an option
        if optional and text.lower() == "none":
            return NONE
        try:
            return PARSERS[value_type](text)
        except ValueError as error:
            raise typer.BadParameter(
                f"{text!r} is not of the form {metavar_of(value_type)}"
            ) from error

    return parse


def metavar_of(value_type: object) -> str:
    """Return the placeholder of a value on the help page: "N,N"."""
    return METAVARS.get(value_type, "TEXT")


def without_none(annotation: object) -> object:
    """Return a type without None; `str` if the type includes text."""
    if get_origin(annotation) not in (Union, types.UnionType):
        return annotation
    members = [member for member in get_args(annotation) if member is not type(None)]
    if str in members:
        return str
    union = members[0]
    for member in members[1:]:
        union |= member
    return union


def accepts_none(annotation: object) -> bool:
    """Return whether None is a value of a type."""
    return type(None) in get_args(annotation)


def _parse_integers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in _parts(text))


def _parse_devices(text: str) -> int | tuple[int, ...]:
    values = _parse_integers(text)
    return values if len(values) != 1 else values[0]


def _parse_temperatures(text: str) -> float | tuple[float, ...]:
    values = tuple(float(part) for part in _parts(text))
    return values if len(values) != 1 else values[0]


def _parse_ranges(text: str) -> tuple[tuple[float, float | None], ...]:
    """Parse "start,end,start,end,..."; the last end may be missing."""
    times: list[float | None] = [float(part) for part in _parts(text)]
    if len(times) % 2:
        times.append(None)
    starts = [0.0 if time is None else time for time in times[::2]]
    return tuple(zip(starts, times[1::2], strict=True))


def _parts(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


TEMPERATURES: Final = float | tuple[float, ...]
RANGES: Final = tuple[tuple[float, float | None], ...]

PARSERS: Final[dict[object, Callable[[str], Any]]] = {
    int: int,
    float: float,
    tuple[int, ...]: _parse_integers,
    tuple[str, ...]: lambda text: tuple(_parts(text)),
    int | tuple[int, ...]: _parse_devices,
    TEMPERATURES: _parse_temperatures,
    RANGES: _parse_ranges,
}

METAVARS: Final[dict[object, str]] = {
    int: "N",
    float: "X",
    tuple[int, ...]: "N,N",
    tuple[str, ...]: "A,B",
    int | tuple[int, ...]: "N,N",
    TEMPERATURES: "X,X",
    RANGES: "X,X",
}
"""Placeholders of values on the help page."""
