"""Work apart from the thread of the caller, which only waits for results.

Python raises the exceptions of signal handlers (Ctrl-C, a time limit) in the main thread between
any two of its instructions, and `PyThreadState_SetAsyncExc` does the same in other threads. In the
middle of our work, such an exception would leave a generator running or a lock held, and could not
be told from an error of the recording. So the work has its own thread:

    thread of the caller     request -> wait -> item -> request -> wait -> an exception: stop
    thread of the work                  next item ->       next item -> ...             -> close

The caller's thread holds no lock, and calls only functions of C, which an exception cannot leave
half done. The exception reaches the caller as it is; then the work has ended.
"""

import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack
from contextvars import ContextVar
from functools import wraps
from queue import Empty, SimpleQueue
from sys import is_finalizing
from types import TracebackType
from typing import Any, Final, TypeVar

from typing_extensions import ParamSpec

from whisperbatch.errors import ClosedError, EngineError
from whisperbatch.threads import (
    JOIN_TIMEOUT,
    in_background,
    reset_after_fork,
    runs_in_our_thread,
    stop_at_exit,
)

T = TypeVar("T")
P = ParamSpec("P")

CHECK_INTERVAL: Final = 0.1  # seconds; several threads may wait for the end of the same work

_NEXT: Final = object()
_END: Final = object()  # the answer after the last item
_stops: Final[ContextVar[ExitStack | None]] = ContextVar("stops", default=None)


def _nothing() -> None:
    """Stop nothing."""


class ClosingGenerator(Generator[T, None, None]):
    """A generator whose `throw` closes it. Subclasses have `__next__` and `close`."""

    def send(self, value: None) -> T:  # noqa: ARG002 - of `Generator`
        """Return the next item."""
        return next(self)

    def throw(
        self,
        kind: Any,  # noqa: ANN401 - as `Generator` has it
        value: BaseException | object = None,
        traceback: TracebackType | None = None,
    ) -> T:
        """Close the generator, and raise an exception."""
        self.close()
        error = value if isinstance(value, BaseException) else kind
        if isinstance(error, type):
            error = error() if value is None else error(value)
        raise error.with_traceback(traceback)


class Apart(ClosingGenerator[T]):
    """A generator that runs in its own thread. It goes on only when the next item is requested.

    The thread starts with the first request. An exception in the thread that waits for an item
    closes the generator. Thread-safe.

    Args:
        items: the generator; called in its thread.
        stop: ends the waits of the generator, so that it can be closed. Called in another thread.
        patience: seconds that `close` waits for the generator; None for no limit.
    """

    def __init__(
        self,
        items: Callable[[], Iterator[T]],
        stop: Callable[[], None] = _nothing,
        *,
        patience: float | None = None,
    ) -> None:
        self._work = _Work(items, stop, waits=patience is not None)
        self._patience = patience

    def __next__(self) -> T:
        work = self._work
        try:
            work.request()
            item, error = work.answer()
            if error:
                raise error  # noqa: TRY301 - closes as every other exception does
        except BaseException:
            self.close()
            raise
        finally:
            error = None  # the traceback refers to this frame
        if item is _END:
            self.close()
            raise StopIteration
        return item  # type: ignore[no-any-return]

    def close(self) -> None:
        """Stop the work, and wait until its thread has ended. Safe to call twice.

        If another thread waits for an item, `close` does not wait: that thread does.
        """
        self._work.close(self._patience)

    def __del__(self) -> None:
        if hasattr(self, "_work"):
            self.close()


class _Work:
    """What the thread of the work and the callers share.

    The flags are set by one side before it reads those of the other side, so that at least one of
    them sees that the work is to end.
    """

    def __init__(
        self, items: Callable[[], Iterator[Any]], stop: Callable[[], None], *, waits: bool
    ) -> None:
        self._waits = waits
        self._items: Callable[[], Iterator[Any]] | None = items
        self._stop: Callable[[], None] = stop
        self._requests: SimpleQueue[object] = SimpleQueue()  # `_NEXT`, or None to end
        self._answers: SimpleQueue[tuple[Any, BaseException | None]] = SimpleQueue()
        self._ends: SimpleQueue[None] = SimpleQueue()
        self._tickets: SimpleQueue[None] = SimpleQueue()  # for the start of the thread
        self._tickets.put(None)
        self._thread: threading.Thread | None = None
        self._waiting = 0  # identity of a thread that waits for an answer
        self._closing = self._busy = self._ended = False
        self._is_inherited = self._program_ends = False
        reset_after_fork(self)
        stop_at_exit(self)

    def request(self) -> None:
        """Request an item, in the thread of the caller.

        Raises:
            EngineError: the thread of the work is in another process, or cannot be started.
        """
        if self._is_inherited:
            raise EngineError(
                "this work was begun before a fork, and its threads are in the parent process; "
                "begin the work in the process that needs the result"
            )
        if self._closing:
            return
        self._requests.put(_NEXT)
        try:
            self._tickets.get_nowait()
        except Empty:
            return
        in_background(self._run, "whisperbatch-run", waits=self._waits)

    def answer(self) -> tuple[Any, BaseException | None]:
        """Wait for the item of a request; `_END` after the last."""
        self._waiting = threading.get_ident()
        try:
            if self._closing and self._thread is None:
                return _END, None
            item, error = self._answers.get()
            if item is _END:
                self._answers.put((_END, None))  # for other threads, and later requests
            return item, error
        finally:
            self._waiting = 0

    def close(self, patience: float | None) -> None:
        """Stop the work and wait for its end, in the thread of a caller."""
        self._closing = True
        self._requests.put(None)
        thread = self._thread
        if thread is None or self._is_inherited or thread is threading.current_thread():
            return  # a thread that has just been started ends at once
        if self._busy and not self._ended:
            self._stop_apart()
        if self._waiting not in (0, threading.get_ident()):
            return
        waited = 0.0
        while not self._ended and (patience is None or waited < patience):
            try:
                self._ends.get(timeout=CHECK_INTERVAL)
            except Empty:
                waited += CHECK_INTERVAL
        if self._ended:
            thread.join(JOIN_TIMEOUT)

    def stop_at_exit(self) -> None:
        """See `threads.Stoppable`. A thread that waits for an item gets a ClosedError."""
        self._program_ends = True
        self._closing = True
        self._requests.put(None)
        if self._busy and not self._ended:
            self._stop()

    def _after_fork(self) -> None:
        self._is_inherited = True

    def _stop_apart(self) -> None:
        """Stop the work in another thread, because stopping needs locks."""
        try:
            in_background(self._stop, "whisperbatch-stop")
        except (EngineError, RuntimeError):  # Python exits, or the system gives no more threads
            self._stop()

    def _run(self) -> None:
        """Compute the items that are requested, in the thread of the work."""
        self._thread = threading.current_thread()
        error: BaseException | None = None
        items: Iterator[Any] | None = None
        try:
            while not self._closing and self._requests.get():
                self._busy = True
                if self._closing:
                    break
                if items is None and self._items:
                    items = iter(self._items())
                self._answers.put((next(items), None))  # type: ignore[arg-type]
                self._busy = False
        except StopIteration:
            pass
        except BaseException as raised:  # noqa: BLE001 - the caller must see every error
            error = raised
        self._busy = True
        error = _close(items) or error
        if self._program_ends and error is None:
            error = ClosedError("the program ends")
        self._items, self._stop = None, _nothing
        self._ended = True
        self._answers.put((_END, error))
        self._ends.put(None)


def call_apart(function: Callable[[], T], *, patience: float | None = JOIN_TIMEOUT) -> T:
    """Return the result of a function that runs in its own thread.

    An exception in the thread of the caller calls the functions of `on_stop`, and waits for the end
    of the function, up to `patience` seconds (None: no limit). In a thread of ours, the function is
    called directly.
    """
    if runs_in_our_thread() or is_finalizing():  # Python is freed, and runs no other thread
        return function()
    stops = ExitStack()

    def call() -> Iterator[T]:
        _stops.set(stops)
        try:
            result = function()
        finally:
            stops.pop_all()  # the call has ended, and its result stays in use
        yield result

    items = Apart(call, stops.close, patience=patience)
    try:
        return next(items)
    finally:
        items.close()


def runs_apart(function: Callable[P, T]) -> Callable[P, T]:
    """Decorate a function: it runs as in `call_apart`."""

    @wraps(function)
    def called(*arguments: P.args, **keywords: P.kwargs) -> T:
        return call_apart(lambda: function(*arguments, **keywords))

    return called


def items_apart(items: Callable[[], Iterator[T]], stop: Callable[[], None]) -> Iterator[T]:
    """Return a generator that runs in its own thread; in a thread of ours, the generator itself."""
    return items() if runs_in_our_thread() else Apart(items, stop, patience=JOIN_TIMEOUT)


def on_stop(stop: Callable[[], None]) -> None:
    """Call a function when the `call_apart` of this thread is to end soon."""
    if stops := _stops.get():
        stops.callback(stop)


def _close(items: object) -> BaseException | None:
    if isinstance(items, Generator):
        try:
            items.close()
        except BaseException as error:  # noqa: BLE001 - the caller must see every error
            return error
    return None
