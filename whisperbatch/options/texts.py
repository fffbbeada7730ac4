"""Values of options as text, on a command line or in a form: "5", "true", "0,0.2", "none"."""

import types
from collections.abc import Callable
from typing import Any, Final, Literal, Union, get_args, get_origin

from whisperbatch.options.speakers import KnownSpeakers, parse_pairs

TRUTH_VALUES: Final = {"true": True, "false": False}


def parse_text(annotation: object, text: str) -> object:
    """Return the value of an option that has this type.

    Args:
        annotation: declared type of the option.
        text: the value as text; "none" is None if the type includes None.

    Raises:
        ValueError: the text is not of the form `metavar_of` the type.
    """
    if accepts_none(annotation) and text.lower() == "none":
        return None
    value_type = without_none(annotation)
    if value_type is bool:
        if text.lower() not in TRUTH_VALUES:
            raise ValueError(f"{text!r} is neither true nor false")
        return TRUTH_VALUES[text.lower()]
    if value_type is str or get_origin(value_type) is Literal:
        return text
    return PARSERS[value_type](text)


def metavar_of(value_type: object) -> str:
    """Return the placeholder of a value on the help page: "N,N"."""
    if value_type is bool:
        return "true or false"
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
    KnownSpeakers: parse_pairs,
}

METAVARS: Final[dict[object, str]] = {
    int: "N",
    float: "X",
    tuple[int, ...]: "N,N",
    tuple[str, ...]: "A,B",
    int | tuple[int, ...]: "N,N",
    TEMPERATURES: "X,X",
    RANGES: "X,X",
    KnownSpeakers: "NAME=FILE,NAME=FILE",
}
"""Placeholders of values on the help page."""
