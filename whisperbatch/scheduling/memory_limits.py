"""The size of calls after memory ran out.

    rows x hypotheses x feature frames                the size of a call: its memory grows with it
    encode           64 rows failed                   later calls encode at most 32 rows
    decode           12 rows of 5 beams failed        30 hypotheses: 6 rows of 5 beams, or 30 of one
    after some full calls that had enough memory      the limit doubles

The limits of the methods are separate: a search with many beams that needs too much memory says
nothing about the encoder, nor about the detection of languages. The memory may have been short for
a while only, because of another program on the same GPU. So a limit rises after `GOOD_CALLS` calls
that were as large as it allows. If a larger call then fails, the next trial takes twice as many.
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from whisperbatch.scheduling.call_queue import WaitingRow

Method: TypeAlias = Literal["encode", "detect_language", "decode"]

GOOD_CALLS: Final = 32  # a call that fails takes about as long as a good call: 3 % of the time


def method_of(call: WaitingRow) -> Method:
    """Return the method that computes the result of a row from its encoder output."""
    return "detect_language" if call.search is None else "decode"


@dataclass(slots=True)
class MemoryLimit:
    """The limit of a method.

    Attributes:
        size: rows times hypotheses times feature frames.
        patience: number of full calls until the limit rises.
        good_calls: full calls that succeeded since the limit was set.
        has_risen: whether the limit is a trial of larger calls.
    """

    size: int
    patience: int = GOOD_CALLS
    good_calls: int = 0
    has_risen: bool = False


class MemoryLimits:
    """The limits of all methods; at first there are none. Not thread-safe."""

    def __init__(self) -> None:
        self._limits: dict[Method, MemoryLimit] = {}

    def max_rows(self, call: WaitingRow) -> int:
        """Return the maximum number of rows of a call with this row: at least 1."""
        rows = [
            self._limits[method].size // _size_of_row(method, call)
            for method in ("encode", method_of(call))
            if method in self._limits
        ]
        return max(min(rows, default=sys.maxsize), 1)

    def lower(self, method: Method, calls: Sequence[WaitingRow]) -> None:
        """Limit later calls to half of a call for which the memory was too small.

        Args:
            method: that failed.
            calls: the rows of the call.
        """
        size = len(calls) // 2 * _size_of_row(method, calls[0])
        limit = self._limits.setdefault(method, MemoryLimit(size))
        limit.size, limit.good_calls = min(limit.size, size), 0
        if limit.has_risen:
            limit.patience, limit.has_risen = 2 * limit.patience, False

    def raise_after(self, calls: Sequence[WaitingRow]) -> bool:
        """Count a call that succeeded. Return whether a limit rose.

        Args:
            calls: the rows of the call.
        """
        rose = False
        for method in ("encode", method_of(calls[0])):
            row = _size_of_row(method, calls[0])
            limit = self._limits.get(method)
            if limit is None or (len(calls) + 1) * row <= limit.size:
                continue  # a call without another row says nothing about the limit
            limit.good_calls += 1
            if limit.good_calls >= limit.patience:
                limit.size, limit.good_calls, limit.has_risen = 2 * limit.size, 0, True
                rose = True
        return rose


def _size_of_row(method: Method, call: WaitingRow) -> int:
    return call.row.frames * (call.hypotheses if method == "decode" else 1)
