"""The rows that wait for the engine, and the runs that they belong to."""

from collections.abc import Hashable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from whisperbatch.options import SearchOptions
from whisperbatch.protocols import DecodeRequest
from whisperbatch.rows import Encoding

Position = tuple[int, int]
"""Number of a recording, and first sample of a chunk."""

FIRST: Final[Position] = (-1, 0)  # before all chunks
READING: Final[Position] = (-2, 0)  # before all other rows: until the result, no audio is read


@dataclass(eq=False, slots=True)
class Flow:
    """The row calls of one run of the pipeline. Runs get fair shares of the engine.

    Attributes:
        weight: share of the engine, relative to the weights of the other runs.
        virtual_time: feature frames computed for this run, divided by the weight. The run with the
            lowest virtual time is next.
        rows: number of rows computed so far.
        closed: whether the run has ended; its rows are no longer computed.
    """

    weight: float = 1.0
    virtual_time: float = 0.0
    rows: int = 0
    closed: bool = False


@dataclass(eq=False, slots=True)
class RowCall:
    """A row that waits for a result of the engine: its text, or its language.

    Attributes:
        key: rows with equal keys can share a call of the engine.
        row: the features or the encoder output.
        flow: the run.
        group: what the rows of the same thread share; after a failure, groups are computed alone.
        position: of the row in its run; rows that come first in the results are first.
        max_rows: maximum number of rows of the call.
        request: of a row that is decoded; None to detect the language.
        search: of a row that is decoded; equal for equal keys.
        result: the result for the row, or the error.
        passed_over: number of calls that were preferred although this row was next.
    """

    key: Hashable
    row: Encoding
    flow: Flow
    group: object
    position: Position
    max_rows: int
    request: DecodeRequest | None = None
    search: SearchOptions | None = None
    result: "Future[Any]" = field(default_factory=Future)
    passed_over: int = 0


class ResultStore(Protocol):
    """Results of rows that were computed before. Thread-safe."""

    def find(self, calls: Sequence[RowCall]) -> Mapping[RowCall, Any]:
        """Return the stored results; rows without a result are left out."""
        ...

    def keep(self, results: Mapping[RowCall, Any]) -> None:
        """Store the results of rows."""
        ...
