"""Default values that can be told apart from the same value passed by a program.

Some of faster-whisper's defaults do not give the fewest errors here. Where a program leaves one of
these parameters at its default, whisperbatch uses its own best setting; where the program passes
the value, the value is used. Each of these defaults is therefore a number or flag that equals
faster-whisper's and prints the same, but has a different type.
"""

from typing import Any, TypeVar, cast

T = TypeVar("T", bool, int)


class _ImplicitInt(int):
    """An integer default."""


class _ImplicitBool(int):
    """A True or False default."""

    def __repr__(self) -> str:
        return repr(bool(self))


def implicit(value: T) -> T:
    """Return a default that equals `value` and that `is_explicit` recognizes as a default."""
    implicit_type = _ImplicitBool if isinstance(value, bool) else _ImplicitInt
    return cast("Any", implicit_type(value))  # type: ignore[no-any-return]  # equal to `value`


def is_explicit(value: object) -> bool:
    """Return whether a program passed the value: it is not a default made by `implicit`."""
    return not issubclass(type(value), _ImplicitInt | _ImplicitBool)
