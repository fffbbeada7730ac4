"""The queue of waiting rows, and the choice of the rows of the next call.

    waiting   run A: a1 a2 b1 a3 a4 c1      rows with equal letters have equal keys
              run B: a5
    call      [a5 a1 a2 a3 a4]              B has had less of the engine, so its row is first

The run that has had least of the engine leads: the call has its first row, in the order of the
results. So the retries of a chunk do not wait for later chunks. Rows of all runs with the same key
fill the call; each place is given to the run that has had least (start-time fair
queueing: P. Goyal, H. Vin, H. Cheng, 1996).

Long pauses and retries make rows of many keys. A row that shares its key with few rows may be
passed over in favour of a fuller call, if this call also has rows of the same run. More rows with
its key come meanwhile. A run with few rows is therefore never delayed by a run with many rows. Rows
that the reading of a recording waits for are never passed over: the other rows would run out.

On a GPU, a small call takes nearly as long as a full call. There, first decodings wait for more
rows while the reading of their run brings more. The first row is computed at once, and each later
call of a run waits for `GROWTH` times as many rows as the run had before, until calls are full.
"""

import sys
import time
from bisect import insort
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, TypeAlias

from whisperbatch.options import SearchOptions
from whisperbatch.protocols import DecodeRequest
from whisperbatch.recording import Encoding

Position = tuple[int, int]
"""Number of a recording, and first sample of a chunk."""

FIRST: Final[Position] = (-1, 0)  # before all chunks
READING: Final[Position] = (-2, 0)  # before all other rows: until the result, no audio is read


@dataclass(eq=False, slots=True)
class RunShare:
    """The share of the engine that one run of the pipeline has had. Runs get fair shares.

    Attributes:
        weight: share of the engine, relative to the weights of the other runs.
        virtual_time: feature frames computed for this run, divided by the weight. The run with the
            lowest virtual time is next.
        rows: number of rows computed so far.
        interactive: whether people wait for each row: the call of another run pauses for it.
        expects_rows: returns whether the reading of a recording will soon bring more rows.
        added: when the last row began to wait, of `time.monotonic`.
        closed: whether the run has ended; its rows are no longer computed.
    """

    weight: float = 1.0
    virtual_time: float = 0.0
    rows: int = 0
    interactive: bool = False
    expects_rows: Callable[[], bool] = field(default=lambda: False)
    added: float = 0.0
    closed: bool = False


@dataclass(eq=False, slots=True)
class WaitingRow:
    """A row that waits for a result of the engine: its text, or its language.

    Attributes:
        key: rows with equal keys can share a call of the engine.
        row: the features or the encoder output.
        run: the run that the row belongs to.
        group: what the rows of the same thread share; after a failure, groups are computed alone.
        position: of the row in its run; rows that come first in the results are first.
        max_rows: maximum number of rows of the call.
        request: of a row that is decoded; None to detect the language.
        search: of a row that is decoded; equal for equal keys.
        hypotheses: beams, or sampled hypotheses, of a row that is decoded; equal for equal keys.
        result: the result for the row, or the error.
        passed_over: number of calls that were preferred although this row was next.
        is_first: whether it is the first decoding of a chunk, which may wait for other chunks.
        was_moved: whether the row waits for the second time, because a GPU broke in its call.
    """

    key: Hashable
    row: Encoding
    run: RunShare
    group: object
    position: Position
    max_rows: int
    request: DecodeRequest | None = None
    search: SearchOptions | None = None
    hypotheses: int = 1
    result: "Future[Any]" = field(default_factory=Future)
    passed_over: int = 0
    is_first: bool = False
    was_moved: bool = False


Limit: TypeAlias = Callable[[WaitingRow], int]
"""Returns the maximum number of rows of a call with a row; equal for equal keys."""


def no_limit(_: WaitingRow) -> int:
    """Return a number that no call reaches."""
    return sys.maxsize


class ResultStore(Protocol):
    """Results of rows that were computed before. Thread-safe."""

    def find(self, calls: Sequence[WaitingRow]) -> Mapping[WaitingRow, Any]:
        """Return the stored results; rows without a result are left out."""
        ...

    def keep(self, results: Mapping[WaitingRow, Any]) -> None:
        """Store the results of rows."""
        ...


MAX_PASSED_OVER: Final = 4  # calls; the segments of a passed-over row come later
GROWTH: Final = 3  # a call waits for so many times the rows that its run had before
PATIENCE: Final = 0.5  # seconds without a new row, after which a call no longer waits
BURST: Final = 0.02  # the same if no row is expected: threads may be about to add the last rows
BEGINNING: Final = 2  # calls of a run; until then, the rows of its first chunks are urgent


class CallQueue:
    """The rows that wait for the engine. Not thread-safe.

    Args:
        fills_calls: whether a call waits for more rows, because a small call takes nearly as long
            as a full call.
    """

    def __init__(self, *, fills_calls: bool = False) -> None:
        self._fills_calls = fills_calls
        self._waiting: dict[RunShare, list[WaitingRow]] = {}
        self._clock = 0.0  # virtual time of the run that led last

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def __len__(self) -> int:
        return sum(map(len, self._waiting.values()))

    def add(self, calls: Iterable[WaitingRow]) -> None:
        """Add rows. A run without waiting rows gets no credit for the time in which it had none."""
        for call in calls:
            if call.run not in self._waiting:
                self._waiting[call.run] = []
                call.run.virtual_time = max(call.run.virtual_time, self._clock)
            insort(self._waiting[call.run], call, key=lambda call: call.position)
            call.run.added = time.monotonic()

    def remove(self, run: RunShare) -> list[WaitingRow]:
        """Remove and return the waiting rows of a run."""
        return self._waiting.pop(run, [])

    def withdraw(self, call: WaitingRow) -> bool:
        """Remove a row. Return False if the row does not wait any more."""
        waiting = self._waiting.get(call.run, [])
        if call not in waiting:
            return False
        self._discard({call})
        return True

    def ready(self) -> Mapping[RunShare, Sequence[WaitingRow]]:
        """Return the rows that can be computed now: without those that wait for more rows."""
        if not self._fills_calls:
            return self._waiting
        now = time.monotonic()
        ready = {run: _ready(run, calls, now) for run, calls in self._waiting.items()}
        return {run: calls for run, calls in ready.items() if calls}

    def expects_rows(self) -> bool:
        """Return whether a run with waiting rows will soon have more, and calls wait for them."""
        return self._fills_calls and any(run.expects_rows() for run in self._waiting)

    def take(self, max_rows: Limit = no_limit, *, free: int = 1) -> list[WaitingRow]:
        """Remove and return the rows of the next call: at least one.

        Some rows must be `ready`.

        Args:
            max_rows: limit beside the limit of each row.
            free: number of workers without a call. If there are fewer full calls, they share the
                rows.
        """
        ready = self.ready()
        run = min(ready, key=_virtual_time)
        self._clock = max(self._clock, run.virtual_time)
        key = self._choose_key(run, ready, max_rows)
        limit = max_rows(next(call for call in ready[run] if call.key == key))
        if free > 1:
            limit = min(limit, _share(key, ready, ready[run][0].max_rows, free))
        return self._fill(run, key, ready, limit)

    def take_urgent(
        self,
        calls: Iterable[WaitingRow],
        max_rows: Limit = no_limit,
        *,
        only_interactive: bool = False,
    ) -> list[WaitingRow]:
        """Remove and return rows that come before the rows of a call in progress.

        Args:
            calls: the rows of the call.
            max_rows: see `take`.
            only_interactive: look for rows of interactive runs only.

        Returns:
            Rows of a run that has no row in this call, and has had less of the engine; rows that
            the reading of a run of this call waits for; or rows of a run that has just begun, if
            they come before its rows in this call. So the retries of the first chunk do not wait
            for the next chunks. Empty if there are no such rows.
        """
        earliest: dict[RunShare, Position] = {}
        for call in calls:
            earliest[call.run] = min(earliest.get(call.run, call.position), call.position)
        least = min(run.virtual_time for run in earliest)

        def is_urgent(call: WaitingRow) -> bool:
            run = call.run
            if run not in earliest:
                return run.virtual_time < least
            is_new = run.rows <= BEGINNING * call.max_rows
            return (is_new or call.position == READING) and call.position < earliest[run]

        urgent = {
            run: rows
            for run, waiting in self._waiting.items()
            if (run.interactive or not only_interactive)
            and (rows := [call for call in waiting if is_urgent(call)])
        }
        if not urgent:
            return []
        run = min(urgent, key=_virtual_time)
        first = urgent[run][0]
        return self._fill(run, first.key, urgent, max_rows(first))

    def _choose_key(
        self, run: RunShare, ready: Mapping[RunShare, Sequence[WaitingRow]], max_rows: Limit
    ) -> Hashable:
        """Return the key of the next call, which has rows of `run`."""
        calls = ready[run]
        leader = calls[0]
        # the first calls of a run are not filled: its first segments come soon
        full = 1 if self._fills_calls else leader.max_rows
        patience = min(MAX_PASSED_OVER, run.rows // full)
        if leader.position == READING or leader.passed_over >= patience:
            return leader.key
        small, large = Counter[Hashable](), Counter[Hashable]()
        for waiting in ready.values():
            (large if _is_large(waiting) else small).update(call.key for call in waiting)
        is_large = _is_large(calls)

        def filled(call: WaitingRow) -> float:
            """Return how full a call with the key of this row would be, from 0 to 1."""
            few, many = small[call.key], large[call.key]
            rows = few + (many if is_large else min(few, many))
            return min(rows / min(call.max_rows, max_rows(call)), 1.0)

        fullest = max(calls, key=filled)  # the first of the fullest
        if filled(fullest) > filled(leader):
            leader.passed_over += 1
            return fullest.key
        return leader.key

    def _fill(
        self,
        leader: RunShare,
        key: Hashable,
        waiting: Mapping[RunShare, Sequence[WaitingRow]],
        max_rows: int,
    ) -> list[WaitingRow]:
        """Remove and return rows with this key, each of the run with the lowest virtual time.

        Runs with many rows do not slow down the call of a run with few rows: they get at most half
        of its places.
        """
        matching = {
            run: [call for call in calls if call.key == key] for run, calls in waiting.items()
        }
        large = {run for run in matching if _is_large(waiting[run])}
        taken: list[WaitingRow] = []
        if leader in large:
            _take_fairly(taken, matching, max_rows)
        else:
            _take_fairly(taken, {f: c for f, c in matching.items() if f not in large}, max_rows)
            limit = min(2 * len(taken), max_rows)
            _take_fairly(taken, {f: c for f, c in matching.items() if f in large}, limit)
        self._discard(set(taken))
        return taken

    def _discard(self, taken: set[WaitingRow]) -> None:
        for run in {call.run for call in taken}:
            left = [call for call in self._waiting[run] if call not in taken]
            if left:
                self._waiting[run] = left
            else:
                del self._waiting[run]


def _take_fairly(
    taken: list[WaitingRow], matching: Mapping[RunShare, Sequence[WaitingRow]], max_rows: int
) -> None:
    """Add rows to `taken`, each of the run with the lowest virtual time, while they fit."""
    rows = {run: iter(calls) for run, calls in matching.items()}
    while rows:
        run = min(rows, key=_virtual_time)
        call = next(rows[run], None)
        limit = min([max_rows, *(other.max_rows for other in taken)])
        if call is None or len(taken) >= min(limit, call.max_rows if taken else limit):
            del rows[run]
            continue
        taken.append(call)
        run.virtual_time += call.row.frames / run.weight
        run.rows += 1


def _share(
    key: Hashable, ready: Mapping[RunShare, Sequence[WaitingRow]], limit: int, free: int
) -> int:
    """Return how many rows with this key a worker gets, if each free worker gets a call."""
    rows = Counter(call.key for calls in ready.values() for call in calls)
    others = sum(-(-count // limit) for other, count in rows.items() if other != key)
    return -(-rows[key] // max(free - others, 1))


def _ready(run: RunShare, calls: Sequence[WaitingRow], now: float) -> Sequence[WaitingRow]:
    """Return the rows of a run without first decodings, if these are few and more will come."""
    first = sum(call.is_first for call in calls)
    expects = run.expects_rows()
    enough = min(GROWTH * run.rows if expects else sys.maxsize, calls[0].max_rows)
    age = now - run.added
    if run.rows and first < enough and age < (PATIENCE if expects else BURST):
        return [call for call in calls if not call.is_first]
    return calls


def _is_large(calls: Sequence[WaitingRow]) -> bool:
    """Return whether the waiting rows of a run fill a call."""
    return len(calls) >= calls[0].max_rows


def _virtual_time(run: RunShare) -> float:
    return run.virtual_time
