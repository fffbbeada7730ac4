"""The rows that wait for the engine, and the runs that they belong to."""

from collections.abc import Hashable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Final

import numpy.typing as npt

from whisperbatch.protocols import AlignRequest, DecodeRequest, Encoded

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
class SharedRow:
    """The features of a row; its encoder output is computed when it is needed.

    Attributes:
        features: shape (n_mels, n_frames), in the engine's `feature_type`; None when the encoder
            output is stored.
        frames: number of feature frames.
        encoded: encoder output of the row, if it is stored.
        stored: whether to store the encoder output, because another call needs it.
    """

    features: npt.NDArray[Any] | None
    frames: int
    encoded: Encoded | None = None
    stored: bool = False


@dataclass(eq=False, slots=True)
class RowCall:
    """A row that waits for a method of the engine.

    Attributes:
        method: "detect_language", "decode" or "align".
        key: rows with equal keys can share a call of the engine.
        row: the features or the encoder output.
        request: of `decode` or `align`; None for `detect_language`.
        arguments: arguments of the method after the requests; equal for equal keys.
        flow: the run.
        group: what the rows of the same thread share; after a failure, groups are computed alone.
        position: of the row in its run; rows that come first in the results are first.
        max_rows: maximum number of rows of the call.
        result: the result for the row, or the error.
        passed_over: number of calls that were preferred although this row was next.
    """

    method: str
    key: Hashable
    row: SharedRow
    request: DecodeRequest | AlignRequest | None
    arguments: tuple[Any, ...]
    flow: Flow
    group: object
    position: Position
    max_rows: int
    result: "Future[Any]" = field(default_factory=Future)
    passed_over: int = 0
