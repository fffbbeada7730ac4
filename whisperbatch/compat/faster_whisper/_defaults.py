"""Defaults of theirs that differ from ours, and how to tell them from the same value given.

Some of faster-whisper's defaults are not what gives the fewest errors here. So that they can be
left at "what is best" and still be honoured when a program asks for them, they are numbers and
flags that equal the plain ones, and look like them, but are not the same object.
"""

from typing import Any, TypeVar, cast

T = TypeVar("T", bool, int)


class _Number(int):
    """A whole number that nobody gave."""


class _Flag(int):
    """A True or False that nobody gave."""

    def __repr__(self) -> str:
        return repr(bool(self))


def unless_given(value: T) -> T:
    """A default that `is_given` tells from the same value given."""
    kind = _Flag if isinstance(value, bool) else _Number
    return cast("Any", kind(value))  # type: ignore[no-any-return]  # equal, and of its kind


def is_given(value: object) -> bool:
    """Whether a value is not the default left as it was."""
    return not isinstance(value, _Number | _Flag)
