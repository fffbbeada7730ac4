"""The scheduler, whose threads compute the waiting rows; and the model as one run uses it."""

import logging
import threading
import traceback
from collections.abc import Callable, Hashable, Iterator, Sequence
from concurrent.futures import wait
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np

from whisperbatch.errors import BrokenDeviceError, ClosedError
from whisperbatch.options import Options, SearchOptions
from whisperbatch.prefetch import Workers
from whisperbatch.protocols import Decoded, DecodeRequest, Encoded, Engine, EngineTraits
from whisperbatch.recording import GPU_WINDOW_STEP, MIN_PADDING, WINDOW_STEP, Encoding, Row
from whisperbatch.runtimes.failures import is_out_of_memory
from whisperbatch.scheduling.call_queue import (
    FIRST,
    CallQueue,
    Position,
    ResultStore,
    RunShare,
    WaitingRow,
)
from whisperbatch.scheduling.memory_limits import MemoryLimits, Method, method_of
from whisperbatch.threads import stop_at_exit

log = logging.getLogger(__name__)

CHECK_INTERVAL: Final = 1.0  # seconds between two looks at the queue, beside notifications
GROWING_INTERVAL: Final = 0.01  # seconds between two looks at a call that waits for more rows
JOIN_INTERVAL: Final = 0.1  # seconds between two checks whether another run needs the threads


@dataclass(frozen=True, slots=True)
class Activity:
    """The work of a model until now.

    Attributes:
        waiting_rows: number of rows that wait for the engine.
        rows: number of rows computed; a row counts again for each retry.
        calls: number of calls of the engine that computed these rows.
    """

    waiting_rows: int
    rows: int
    calls: int


@dataclass(frozen=True, slots=True)
class Failure:
    """A call that failed.

    Attributes:
        calls: its rows.
        method: that failed.
        error: the error.
    """

    calls: Sequence[WaitingRow]
    method: Method
    error: BaseException


class WithdrawnError(Exception):
    """A row was withdrawn, because it waited longer than its thread has patience."""


class Scheduler:
    """Shares an engine between all runs of a Transcriber. Thread-safe.

    A call starts as soon as the engine is free and a row waits. The result of a row does not depend
    on the other rows of its call, so it does not depend on the other recordings.

    If a call fails, the rows of each thread are computed again, apart from the other rows, and only
    the threads whose rows fail again get the error. If memory runs out, the call is divided, and
    later calls are smaller (`memory_limits`). If a GPU breaks and the engine has another, its rows
    wait for a thread of the other. Each of these is logged.

    Args:
        engine: runs the model. It computes `engine.workers` calls at a time.
        store: is asked for the result of a row before the row is computed.
    """

    def __init__(self, engine: Engine, store: ResultStore | None = None) -> None:
        self.engine = engine
        self._store = store
        traits = EngineTraits.of(engine)
        self._encodes_rows_alone = traits.encodes_rows_alone and not traits.encodes_again
        self._encodes_again = traits.encodes_again
        self._queue = CallQueue(fills_calls=traits.on_gpu)
        self._decode_with_pauses = traits.decode_with_pauses
        self._runs: set[RunShare] = set()
        self._limits = MemoryLimits()
        self._rows = self._calls = 0
        self._idle = 0  # workers that wait for rows
        self._changed = threading.Condition()
        self._workers = Workers(self._changed, self._next_task, engine.workers)
        stop_at_exit(self)

    @property
    def activity(self) -> Activity:
        """The work until now."""
        with self._changed:
            return Activity(len(self._queue), self._rows, self._calls)

    @property
    def has_free_worker(self) -> bool:
        """Whether a row would be computed at once: a worker waits for rows."""
        with self._changed:
            return self._idle > 0 and not self._queue

    @property
    def runs(self) -> int:
        """Number of open runs."""
        return len(self._runs)

    @contextmanager
    def running(self, run: RunShare) -> Iterator[None]:
        """Run the threads until the end of a `with` block, which may compute rows of a share."""
        with self._changed:
            self._runs.add(run)
            self._workers.start()
        try:
            yield
        finally:
            threads = self._workers.threads()
            self.abandon(run)
            for thread in threads:
                while not self._runs and thread is not threading.current_thread():
                    thread.join(JOIN_INTERVAL)
                    if not thread.is_alive():
                        break

    def abandon(self, run: RunShare) -> None:
        """End a run: its waiting rows get a ClosedError. Thread-safe; safe to call twice.

        If no other run is left, the threads end after the calls in progress.
        """
        with self._changed:
            run.closed = True
            self._runs.discard(run)
            abandoned = self._queue.remove(run)
            self._changed.notify_all()
        for call in abandoned:
            call.result.set_exception(ClosedError("the run has ended"))

    def stop_at_exit(self) -> None:
        """End all shares, so that the threads end. See `threads.Stoppable`."""
        for run in list(self._runs):
            self.abandon(run)

    def compute(self, calls: Sequence[WaitingRow], patience: float | None = None) -> list[Any]:
        """Wait for the results of rows, and return them in order.

        Args:
            calls: the rows.
            patience: seconds after which a single row is withdrawn if no call has it yet.

        Raises:
            WithdrawnError: the row was withdrawn.
            ClosedError: the share has ended, or the engine is closed.
            Exception: as the engine raised it.
        """
        waiting = self._without_stored(calls)
        with self._changed:
            if any(call.run.closed for call in calls):
                raise ClosedError("the run has ended")
            self._queue.add(waiting)
            self._changed.notify_all()
        if patience is not None and wait([calls[0].result], patience).not_done:
            with self._changed:
                if self._queue.withdraw(calls[0]):
                    raise WithdrawnError
        wait(call.result for call in calls)
        return [call.result.result() for call in calls]

    def _without_stored(self, calls: Sequence[WaitingRow]) -> Sequence[WaitingRow]:
        """Give the stored results to their rows, and return the other rows."""
        if self._store is None or any(call.run.closed for call in calls):
            return calls
        stored = self._store.find(calls)
        for call, result in stored.items():
            call.result.set_result(result)
        return [call for call in calls if call not in stored]

    def _next_task(self) -> Callable[[], None] | None:
        """Wait for rows, and return the next call; None if no run is open."""
        while not self._queue.ready():
            if not self._runs:
                return None
            self._idle += 1
            try:
                self._changed.wait(GROWING_INTERVAL if self._queue else CHECK_INTERVAL)
            finally:
                self._idle -= 1
        free = 1 if self._queue.expects_rows() else self._idle + 1
        return partial(self._run, self._queue.take(self._limits.max_rows, free=free))

    def _run(self, calls: Sequence[WaitingRow]) -> None:
        if failure := self._try(calls):
            forget_variables(failure.error)
            parts = self._divide(failure)
            del failure
            for part in parts:
                self._run(part)

    def _try(self, calls: Sequence[WaitingRow]) -> Failure | None:
        """Compute the rows of a call, and give them their results."""
        method: Method = "encode"
        try:
            if self._encodes_rows_alone:
                self._encode_one_by_one(calls)
            calls = without_closed(calls)
            if not calls:
                return None
            encoded = encode(self.engine, [call.row for call in calls], again=self._encodes_again)
            method = method_of(calls[0])
            results = dict(zip(calls, self._compute(calls, encoded), strict=True))
            if self._store:
                self._store.keep(results)
        except BaseException as error:  # noqa: BLE001 - the threads that wait get every error
            return Failure(calls, method, error)
        with self._changed:
            self._calls += 1
            self._rows += len(calls)
            if self._limits.raise_after(calls):
                log.info("calls of the engine may be larger again: there was enough memory")
        for call, result in results.items():
            call.result.set_result(result)
        return None

    def _encode_one_by_one(self, calls: Sequence[WaitingRow]) -> None:
        """Encode the rows of a call, except the last; urgent rows do not wait for all of them."""
        for call in calls:
            call.row.keep = True  # costs nothing, and retries need the output
        for call in calls[:-1]:
            if call.row.output is None and not call.run.closed:
                encode(self.engine, [call.row])
                self._run_urgent(calls, only_interactive=is_interactive(calls))

    def _compute(self, calls: Sequence[WaitingRow], encoded: Encoded) -> Sequence[Any]:
        """Return the result of each row, computed in one call of the engine."""
        if (search := calls[0].search) is None:
            return self.engine.detect_language(encoded)
        requests = [call.request for call in calls if call.request]
        if self._decode_with_pauses is None or is_interactive(calls):
            return self.engine.decode(encoded, requests, search)
        return self._decode_with_pauses(encoded, requests, search, partial(self._pause, calls))

    def _pause(self, calls: Sequence[WaitingRow]) -> None:
        """Compute the rows of interactive runs before the next step of a call.

        Raises:
            ClosedError: all runs of the call have ended, so that nobody needs its result.
        """
        if all(call.run.closed for call in calls):
            raise ClosedError("the run has ended")
        while self._run_urgent(calls, only_interactive=True):
            pass

    def _run_urgent(self, calls: Sequence[WaitingRow], *, only_interactive: bool) -> bool:
        """Compute rows that come before the rows of a call. Return whether there were any."""
        with self._changed:
            urgent = self._queue.take_urgent(
                calls, self._limits.max_rows, only_interactive=only_interactive
            )
        if urgent:
            self._run(urgent)
        return bool(urgent)

    def _divide(self, failure: Failure) -> list[Sequence[WaitingRow]]:
        """Return smaller calls for the rows of a failed call; they get the error if none helps."""
        calls, error = failure.calls, failure.error
        groups = list(dict.fromkeys(call.group for call in calls))
        if isinstance(error, BrokenDeviceError):
            calls = self._move(calls) if error.has_others else calls
        elif is_out_of_memory(error) and len(calls) > 1:
            self._limit(failure)
            half = len(calls) // 2
            return [calls[:half], calls[half:]]
        elif len(groups) > 1 and not isinstance(error, ClosedError):
            log.warning(
                "a call with %d rows failed; the rows of each of its %d threads are now alone: %s",
                *(len(calls), len(groups), error),
            )
            return [[call for call in calls if call.group is group] for group in groups]
        for call in calls:
            call.result.set_exception(error)
        return []

    def _limit(self, failure: Failure) -> None:
        """Limit later calls, because memory ran out."""
        calls = failure.calls
        with self._changed:
            self._limits.lower(failure.method, calls)
            rows = self._limits.max_rows(calls[0])
        hypotheses = f" of {calls[0].hypotheses} hypotheses" if calls[0].hypotheses > 1 else ""
        log.warning(
            "the device is out of memory (%s, %d rows%s); these rows are computed in smaller "
            "calls, and later calls of this kind have at most %d rows: %s",
            *(failure.method, len(calls), hypotheses, rows, failure.error),
        )

    def _move(self, calls: Sequence[WaitingRow]) -> Sequence[WaitingRow]:
        """Let rows wait for another thread, because the GPU of this thread is broken.

        Rows that were moved before are left: they may be the reason why GPUs break.

        Returns:
            The rows that are left.
        """
        left = [call for call in calls if call.was_moved]
        with self._changed:
            moved = without_closed([call for call in calls if not call.was_moved])
            for call in moved:
                call.was_moved = True
            self._queue.add(moved)
            self._workers.replace()
            self._changed.notify_all()
        return left


def forget_variables(error: BaseException) -> None:
    """Free the variables of the functions that an error has ended: the arrays of a failed call."""
    cause: BaseException | None = error
    while cause is not None:
        traceback.clear_frames(cause.__traceback__)
        cause = cause.__cause__ or cause.__context__


def without_closed(calls: Sequence[WaitingRow]) -> Sequence[WaitingRow]:
    """Return the rows of open runs. The rows of runs that have ended get a ClosedError."""
    rows = []
    for call in calls:
        if call.run.closed:
            call.result.set_exception(ClosedError("the run has ended"))
        else:
            rows.append(call)
    return rows


def is_interactive(calls: Sequence[WaitingRow]) -> bool:
    """Return whether people wait for a row of a call: rows of recordings do not interrupt it."""
    return any(call.run.interactive for call in calls)


def encode(engine: Engine, rows: Sequence[Encoding], *, again: bool = False) -> Encoded:
    """Return the encoder output of rows, and keep the outputs that later calls need.

    Only rows without an output are encoded, each once, although it may occur several times.

    Args:
        engine: encodes.
        rows: of a call, in order.
        again: encode all rows, and keep nothing. See `EngineTraits.encodes_again`.
    """
    # the features first: another thread may set the output, and then free the features
    features = {row: row.features for row in rows}
    if again:
        every = (features[row] for row in rows)
        return engine.encode(np.stack([values for values in every if values is not None]))
    new = {row: values for row, values in features.items() if row.output is None}
    if not new:
        return engine.join([row.output for row in rows if row.output is not None])
    output = engine.encode(np.stack([values for values in new.values() if values is not None]))
    parts: dict[Encoding, Encoded] = {}
    kept = [row for row in new if row.keep]
    if kept or len(new) < len(rows):
        parts = dict(zip(new, engine.split(output), strict=True))
    for row in kept:
        row.output, row.features = parts[row], None
    for row in new:
        row.keep = True  # if it is encoded again
    if len(new) == len(rows):
        return output
    outputs = [parts.get(row, row.output) for row in rows]
    return engine.join([each for each in outputs if each is not None])


class SharedModel:
    """Detects the languages of rows, and decodes rows, for one run. Thread-safe.

    The thread that calls a method waits. Rows of other threads that can share a call of the engine
    are computed with its rows. A row is encoded in the first call that needs its encoder output.
    Its thread pads its features and converts them to the engine's type, so that the engine is busy
    meanwhile.

    Args:
        scheduler: computes the rows.
        run: the share of the engine of this run.
        options: limit the number of rows of a call. A call with more hypotheses for each row
            (beams, or sampled hypotheses) than the first decoding has fewer rows, because the
            engine holds keys and values for each hypothesis. The memory of a call therefore does
            not grow.
        position: of rows outside a block of `at`. By default, they come before all chunks, because
            chunks and languages depend on them.

    Attributes:
        is_multilingual: see `protocols.Engine`.
        n_mels: see `protocols.Engine`.
        tokenizer: see `protocols.Engine`.
        on_gpu: see `protocols.EngineTraits`.
    """

    def __init__(
        self, scheduler: Scheduler, run: RunShare, options: Options, position: Position = FIRST
    ) -> None:
        engine = scheduler.engine
        self.is_multilingual, self.n_mels = engine.is_multilingual, engine.n_mels
        self.tokenizer = engine.tokenizer
        traits = EngineTraits.of(engine)
        self._feature_type = traits.feature_type
        self.on_gpu = traits.on_gpu
        self._window_step = GPU_WINDOW_STEP if self.on_gpu else WINDOW_STEP
        self._no_timestamps = engine.tokenizer.token_to_id("<|notimestamps|>")
        self._scheduler, self._share, self._position = scheduler, run, position
        self._batch_size = options.chosen_batch_size
        self._hypotheses = options.hypotheses
        self._thread = threading.local()

    @contextmanager
    def at(self, position: Position) -> Iterator[None]:
        """Give the position of a chunk to the rows of this thread until the end of a `with` block.

        Outside the block, rows have the position of the constructor.
        """
        self._thread.position = position
        try:
            yield
        finally:
            del self._thread.position

    @contextmanager
    def first_decoding(self) -> Iterator[None]:
        """Say that rows of this thread are first decodings, until the end of a `with` block.

        On a GPU, they may wait for the rows of other chunks. Retries do not.
        """
        self._thread.is_first = True
        try:
            yield
        finally:
            del self._thread.is_first

    @contextmanager
    def withdrawn_after(self, seconds: float) -> Iterator[None]:
        """Withdraw rows of this thread that no call takes in time, until the end of a `with` block.

        The methods then raise `WithdrawnError`, and the thread comes back with newer audio. A row
        whose call has begun is not withdrawn. Each method gets one row.
        """
        self._thread.patience = seconds
        try:
            yield
        finally:
            del self._thread.patience

    def prepare(self, row: Row, window: int) -> None:
        """Give a row an encoder window of its own.

        Args:
            row: of which nothing was computed yet.
            window: feature frames, even, at most those of 30 s.
        """
        row.prepare(self._feature_type, window)

    def detect_languages(
        self, rows: Sequence[Row], window: int | None = None
    ) -> list[dict[str, float]]:
        """Return the probability of each language, one dict per row, in order.

        Args:
            rows: rows of any encoder windows.
            window: feature frames in the encoder window of all rows; None for their own windows.

        Raises:
            ClosedError: the run has ended, or the engine is closed.
            EngineError: the engine failed.
        """
        group = object()
        return self._compute([self._call(row, group, window=window) for row in rows])

    def decode(self, requests: Sequence[tuple[Row, DecodeRequest, SearchOptions]]) -> list[Decoded]:
        """Decode rows, and align their texts. Return one result per request, in order.

        Args:
            requests: rows of any encoder windows, prompt lengths and searches; a row may occur
                several times.

        Raises:
            ClosedError: the run has ended, or the engine is closed.
            EngineError: the engine failed.
        """
        group = object()
        calls = [self._call(row, group, request, search) for row, request, search in requests]
        return self._compute(calls)

    def _compute(self, calls: Sequence[WaitingRow]) -> list[Any]:
        return self._scheduler.compute(calls, getattr(self._thread, "patience", None))

    def _call(
        self,
        row: Row,
        group: object,
        request: DecodeRequest | None = None,
        search: SearchOptions | None = None,
        window: int | None = None,
    ) -> WaitingRow:
        window = window or row.padded_window(MIN_PADDING, self._window_step)
        encoding = row.prepare(self._feature_type, window)
        max_rows, hypotheses = self._batch_size, 1
        key: Hashable = encoding.frames
        if request and search:
            hypotheses = request.sampling.best_of if request.sampling else search.beam_size
            max_rows = max(max_rows * min(self._hypotheses, hypotheses) // hypotheses, 1)
            key = (encoding.frames, self._decode_key(request), search)
        position = getattr(self._thread, "position", self._position)
        share = self._share
        return WaitingRow(
            key,
            encoding,
            share,
            group,
            position,
            max_rows,
            request,
            search,
            hypotheses,
            is_first=getattr(self._thread, "is_first", False),
        )

    def _decode_key(self, request: DecodeRequest) -> Hashable:
        """Return what the requests of a call must have in common."""
        sampling = request.sampling
        return (
            len(request.prompt),
            len(request.start),
            len(request.prefix),
            self._no_timestamps in request.prompt,
            sampling and (sampling.temperature, sampling.best_of),
        )
