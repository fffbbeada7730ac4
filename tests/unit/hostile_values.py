"""Values that no option expects, to check that each is accepted or refused with a clear message."""

import collections
import decimal
import enum
import fractions
import itertools
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NoReturn

import numpy as np

Call = Callable[[Any], object]


class Unfriendly:
    """An object whose methods all raise."""

    def _raise(self, *_: object) -> NoReturn:
        raise RuntimeError("unfriendly\nobject")

    __repr__ = __str__ = __bool__ = __len__ = __iter__ = __eq__ = __hash__ = _raise
    __lt__ = __le__ = __gt__ = __ge__ = __int__ = __float__ = __index__ = __getitem__ = _raise
    __contains__ = __add__ = __fspath__ = __array__ = _raise


class Talkative:
    """An object whose repr is huge, has several lines, and cannot be encoded."""

    def __repr__(self) -> str:
        return "talk\n\r\u2028\ud800" * 100_000


class Number(enum.IntEnum):
    ONE = 1


class Text(str, enum.Enum):
    TEXT = "text"


class Pair(tuple):  # type: ignore[type-arg]  # noqa: SLOT001 - any tuple
    def __iter__(self) -> NoReturn:
        raise RuntimeError("unfriendly")


def _recursive() -> list[Any]:
    value: list[Any] = []
    value += [value, {"self": value}]
    return value


def _dead() -> object:
    return weakref.proxy(Unfriendly())


HOSTILE: Final[tuple[Any, ...]] = (
    *(None, True, False, 0, 1, -1, 10**30, -(10**30), 10**5000, -(10**5000), 10**29, 2**31, 2**64),
    *(0.0, -0.0, 0.5, -1.5, 1e308, 1e-320, float("inf"), -float("inf"), float("nan"), 1j),
    *("", " ", "text", "\ud800", "a\nb", "\0", "x" * 1_000_000, "1", "nan", "٣"),
    *(b"", b"auto", bytearray(b"x"), memoryview(b"abcdef")[::2]),
    *((), [], {}, set(), (None,), [1], {"a": 1}, {1, 2}, (1, 2), ((1, 2),), ("\ud800",)),
    *((10**5000,), (float("nan"),), ((0, 10**5000),), ((0, 1e-9),), (-1,) * 3, (True,), ("a", 1)),
    *((0.0, 0.1) * 50, tuple(range(60_000)), [10**5000] * 3),
    *(np.int8(1), np.int64(5), np.uint64(2**63), np.float32(0.5), np.float64("nan"), np.float16(1)),
    *(
        np.bool_(1),
        np.str_("text"),
        np.timedelta64(1, "s"),
        np.datetime64("2024-01-01"),
        np.longdouble(1),
    ),
    *(np.zeros(0), np.zeros(1), np.arange(5), np.zeros((3, 3)), np.array(1), np.array(["a", "b"])),
    *(np.array([10**5000], object), np.ma.masked, np.zeros(1, "i4,f4")),
    *(Unfriendly(), Talkative(), Unfriendly, Number.ONE, Text.TEXT, Pair((1, 2)), _recursive()),
    *(_dead(), object(), int, len, lambda: 1, Ellipsis, NotImplemented, slice(1, 2), range(3)),
    *(decimal.Decimal("0.5"), decimal.Decimal("NaN"), fractions.Fraction(1, 2), Path("text")),
    *(Path("\ud800"), itertools.count(), iter(()), iter([1]), collections.deque([1]), Exception()),
)
"""Values of every kind; most of them are wrong for every option."""


def keyword(function: Callable[..., object], name: str, *args: object, **others: object) -> Call:
    """Return a function that calls `function` with a value for one of its keywords."""

    def call(value: object) -> object:
        return function(*args, **{**others, name: value})

    return call
