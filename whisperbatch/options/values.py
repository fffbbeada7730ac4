"""Values of options in Python's own types: numbers of NumPy and derived types are converted.

Programs pass `np.int64(5)`, `np.float32(0.5)`, `np.bool_(True)` or a member of a `StrEnum` where
an option needs an int, a float, a bool or a str. All options accept these values. The conversion
is the first step: later checks see only exact types, so no method of a foreign class is called.
"""

import sys
from collections.abc import Callable, Iterator
from dataclasses import fields
from typing import Any, Final, TypeAlias, cast

NESTED: Final = 2  # levels of tuples: clip_timestamps is a tuple of pairs

Converter: TypeAlias = Callable[[Any], object]


def plain(value: object, levels: int = NESTED) -> object:
    """Return a value of bool, int, float, str or tuple in exactly this type.

    Args:
        value: any value; NumPy's numbers and values of derived types are converted.
        levels: levels of tuples whose items are converted, too.

    Returns:
        The converted value; a value of another type is returned unchanged.
    """
    kind = type(value)
    if kind in {bool, int, float, str, type(None)}:
        return value
    if issubclass(kind, tuple) and levels:
        items = tuple.__iter__(cast("tuple[object, ...]", value))
        return tuple(plain(item, levels - 1) for item in items)
    for foreign, convert in _converters():
        if issubclass(kind, foreign):
            return convert(value)
    return value


def _converters() -> Iterator[tuple[type, Converter]]:
    """Yield types, each with the function that converts their values."""
    yield int, int.__int__  # the methods of the built-in types, not those of a derived type
    yield float, float.__float__
    yield str, str.__str__
    if numpy := sys.modules.get("numpy"):  # if it is not imported, no value is of its types
        yield numpy.timedelta64, _unchanged  # a derived type of numpy.integer, but no number
        yield numpy.bool_, bool
        yield numpy.integer, int
        yield numpy.floating, float


def _unchanged(value: object) -> object:
    return value


def is_number(value: object, number: float) -> bool:
    """Return whether any value equals a number; False and True are no numbers."""
    converted = plain(value)
    return type(converted) in {int, float} and converted == number


def is_same(value: object, other: object) -> bool:
    """Return whether any value equals a value of Python's own type; 0 is not the same as False."""
    converted = plain(value)
    return type(converted) is type(other) and converted == other


def convert_fields(group: object, declared_in: type) -> None:
    """Convert the values of a frozen dataclass with `plain`.

    Args:
        group: the value that is being made.
        declared_in: its class, or a base class: only the fields of this class are converted.
    """
    for field in fields(declared_in):
        value = getattr(group, field.name)
        converted = plain(value)
        if converted is not value:
            object.__setattr__(group, field.name, converted)
