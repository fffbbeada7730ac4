"""How threads of whisperbatch start, and what becomes of them when the process exits or forks.

No other file starts threads. All threads are daemons, so that they do not hold up a program that
ends. Python ends a process in this order, and never waits for daemons:

    the main thread ends -> other threads of the user end -> `atexit` functions -> Python is freed

Threads of the user may transcribe until they end. The `atexit` function of this file then stops
the work that is left, and joins the threads that do it: a daemon that runs C++ code while Python is
freed aborts the process.

A child of `os.fork` has one thread, the one that forked. Threads, locks that other threads held,
and queues of work are copied, and no thread of the child completes them. Objects that hold some of
these are `Inheritable`: they are reset in the child. Objects of C++ that own threads must not even
be freed there: their destructors wait for threads that the child does not have.
"""

import asyncio
import atexit
import contextvars
import ctypes
import importlib
import os
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import suppress
from queue import Empty, SimpleQueue
from sys import is_finalizing
from typing import Any, Final, Generic, Protocol, TypeVar, overload

from typing_extensions import Self

from whisperbatch.errors import ClosedError, EngineError

JOIN_TIMEOUT: Final = 5.0  # seconds to wait for a thread after a stop: it may be reading a pipe
IMPORT_TIMEOUT: Final = 5.0  # seconds that a fork waits for imports of other threads


class Stoppable(Protocol):
    """Work that goes on in threads."""

    def stop_at_exit(self) -> None:
        """Stop the work, without waiting for its end. Called once, when the process exits."""
        ...


class Inheritable(Protocol):
    """An object that a fork would copy in a broken state."""

    def _after_fork(self) -> None:
        """Reset the object. Called in the child, by its only thread."""
        ...


T = TypeVar("T")
R = TypeVar("R")


class _Living(Generic[T]):
    """The objects that were added and are not freed. Thread-safe, without a lock."""

    def __init__(self) -> None:
        self._references: dict[int, weakref.ref[T]] = {}

    def add(self, item: T) -> None:
        key = id(item)
        self._references[key] = weakref.ref(item, lambda _: self._references.pop(key, None))

    def clear(self) -> None:
        self._references.clear()

    def __iter__(self) -> Iterator[T]:
        for reference in list(self._references.values()):
            if (item := reference()) is not None:
                yield item


_threads: Final[set["_Thread"]] = set()  # that run
_stoppable: Final = _Living[Stoppable]()
_inheritable: Final = _Living[Inheritable]()
_native: Final = _Living[object]()
_of_thread: Final = threading.local()


class _Thread(threading.Thread):
    """A thread of whisperbatch.

    Args:
        function: runs in the thread, with the context variables of the thread that starts it.
        name: of the thread.
        waits: whether the thread may wait for input that never comes.
    """

    def __init__(self, function: Callable[[], None], name: str, *, waits: bool) -> None:
        super().__init__(name=name, daemon=True)
        self._function: Callable[[], None] | None = function
        self._context = contextvars.copy_context()
        self.waits = waits

    def run(self) -> None:
        _of_thread.is_ours = True
        function, self._function = self._function, None
        try:
            if function:
                self._context.run(function)
        finally:
            _threads.discard(self)


def in_background(
    function: Callable[[], None], name: str = "whisperbatch-submission", *, waits: bool = True
) -> threading.Thread:
    """Call a function in a new thread, and return the thread.

    Args:
        function: gets no arguments.
        name: of the thread.
        waits: whether the thread may wait for input that never comes. The exit of the process waits
            for such a thread for a few seconds only.

    Raises:
        RuntimeError: the system gives no more threads.
        EngineError: Python exits, and starts no more threads.
    """
    if is_finalizing():
        raise EngineError("the program ends, and Python starts no more threads")
    thread = _Thread(function, name, waits=waits)
    _threads.add(thread)
    try:
        thread.start()
    except KeyError as error:
        # a signal handler raised within `start`, which then could not undo its last step, because
        # the thread already runs
        raise error.__context__ or error from None
    except RuntimeError as error:
        _threads.discard(thread)
        if threading.main_thread().is_alive():
            raise
        raise EngineError(
            f"the program ends, and Python starts no more threads ({error}); end the work before "
            "the main thread ends"
        ) from error
    return thread


class Pool(Generic[T, R]):
    """Threads that call a function, each for one item at a time.

    Executors of `concurrent.futures` refuse work when the main thread has ended, although other
    threads of the user may go on.

    Args:
        function: called for each item.
        workers: maximum number of threads. A thread starts when all others have an item.
    """

    def __init__(self, function: Callable[[T], R], workers: int) -> None:
        self._function, self._workers = function, workers
        self._counting = threading.Lock()
        self._unfinished = 0  # items that wait, or that a thread works on
        self._tasks: SimpleQueue[tuple[Future[R], T] | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._closed = False
        stop_at_exit(self)

    def submit(self, item: T) -> Future[R]:
        """Let a thread call the function. One thread submits."""
        future: Future[R] = Future()
        with self._counting:
            self._unfinished += 1
            busy = self._unfinished
        self._tasks.put((future, item))
        if len(self._threads) < min(self._workers, busy):
            try:
                self._threads.append(in_background(self._run, "whisperbatch-worker", waits=False))
            except (EngineError, RuntimeError):
                if not self._threads:
                    raise
        if self._closed:
            self._refuse()
        return future

    def close(self) -> None:
        """Cancel the items that wait, and wait for the others. Call this after the last `submit`.

        Safe in a thread of the pool.
        """
        self.stop_at_exit()
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join()

    def stop_at_exit(self) -> None:
        """Give the items that wait a ClosedError. See `Stoppable`."""
        self._closed = True
        for _ in range(self._workers):
            self._tasks.put(None)

    def _run(self) -> None:
        while (task := self._tasks.get()) and not self._closed:
            future, item = task
            try:
                result = self._function(item)
            except BaseException as error:  # noqa: BLE001 - the consumer must see every error
                self._finish()
                future.set_exception(error)
            else:
                self._finish()
                future.set_result(result)
                del result
            del task, future, item
        if task:
            task[0].set_exception(ClosedError("the work was stopped"))
        self._refuse()

    def _finish(self) -> None:
        """Note, before the result is known, that this thread is free for another item."""
        with self._counting:
            self._unfinished -= 1

    def _refuse(self) -> None:
        with suppress(Empty):
            while True:
                if task := self._tasks.get_nowait():
                    task[0].set_exception(ClosedError("the work was stopped"))
        self._tasks.put(None)  # for the next thread


def in_new_thread(function: Callable[[], T]) -> T:
    """Return the result of a function that runs in a thread of its own.

    Raises:
        EngineError: Python exits, and starts no more threads.
        Exception: as the function raised it.
    """
    pool: Pool[Callable[[], T], T] = Pool(lambda call: call(), 1)
    try:
        return pool.submit(function).result()
    finally:
        pool.close()


def runs_in_our_thread() -> bool:
    """Return whether the current thread was started by `in_background`."""
    return bool(getattr(_of_thread, "is_ours", False))


def stop_at_exit(work: Stoppable) -> None:
    """Stop this work when the process exits. A reference to the work is not kept."""
    _stoppable.add(work)


def reset_after_fork(item: Inheritable) -> None:
    """Reset this object in every child of a fork. A reference to the object is not kept."""
    _inheritable.add(item)


def keep_in_children(*items: object) -> None:
    """Never free these objects of C++ in a child of a fork. A reference to them is not kept."""
    for item in items:
        with suppress(TypeError):  # an object without weak references is none of C++
            _native.add(item)


@atexit.register
def _stop_and_join() -> None:
    for work in _stoppable:
        work.stop_at_exit()
    deadline = time.monotonic() + JOIN_TIMEOUT
    joined: set[_Thread] = set()
    while waiting := _threads.copy() - joined:  # threads start further threads until they stop
        for thread in waiting:
            if thread.ident is not None:  # `start` was not interrupted
                thread.join(max(deadline - time.monotonic(), 0) if thread.waits else None)
        joined |= waiting


def _before_fork() -> None:
    """Wait until no other thread imports a module: a child would wait for this import for ever.

    Modules are imported by threads of a run where they are needed first. Python has no public
    function that tells who imports a module.
    """
    deadline = time.monotonic() + IMPORT_TIMEOUT
    locks = getattr(importlib._bootstrap, "_module_locks", {})  # noqa: SLF001 - see above
    while time.monotonic() < deadline:
        owners = {getattr(reference(), "owner", None) for reference in [*locks.values()]}
        if not owners - {None, threading.get_ident()}:
            return
        time.sleep(0.001)


def _after_fork() -> None:
    _threads.clear()
    _stoppable.clear()  # the parent stops its work
    _of_thread.is_ours = False
    for item in _native:  # a reference that is never given back
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(item))
    for item in _inheritable:
        item._after_fork()  # noqa: SLF001 - see `Inheritable`


if hasattr(os, "register_at_fork"):  # not on Windows, which cannot fork
    os.register_at_fork(before=_before_fork, after_in_child=_after_fork)


class Changes:
    """A condition that threads, and tasks of event loops, wait for.

    Attributes:
        condition: is held by who changes or reads the state.
    """

    def __init__(self) -> None:
        self.condition = threading.Condition()
        self._tasks: list[tuple[asyncio.AbstractEventLoop, asyncio.Future[None]]] = []

    def notify(self) -> None:
        """Wake all waiting threads and tasks. Call this while the condition is held."""
        self.condition.notify_all()
        tasks, self._tasks = self._tasks, []
        for loop, future in tasks:
            try:
                loop.call_soon_threadsafe(_wake, future)
            except RuntimeError:  # the event loop is closed, and the task with it
                continue

    async def until(self, is_due: Callable[[], bool]) -> None:
        """Wait in an event loop until a condition is true; it is checked at every change."""
        loop = asyncio.get_running_loop()
        while True:
            future: asyncio.Future[None] = loop.create_future()
            with self.condition:
                if is_due():
                    return
                self._tasks.append((loop, future))
            try:
                await future
            finally:
                with self.condition:
                    if (loop, future) in self._tasks:
                        self._tasks.remove((loop, future))


class Cancellable:
    """Work that is cancelled at the end of a `with` or `async with` block."""

    def cancel(self) -> None:
        """Stop the work. Safe to call twice."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.cancel()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.cancel()


def _wake(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)


class Lock:
    """A lock that is free in the child of a fork, whoever held it. For state that outlives runs."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        reset_after_fork(self)

    def _after_fork(self) -> None:
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()


class cached_property(Generic[T]):  # noqa: N801 - as in functools
    """A property that is computed at its first use. The class must have a `__dict__`.

    Before Python 3.12, `functools.cached_property` holds a lock of the class while the value is
    computed: threads wait for the values of other objects, and a fork copies the lock while a
    thread holds it. Here, threads that ask at the same time may compute the value twice.
    """

    def __init__(self, compute: Callable[[Any], T]) -> None:
        self._compute = compute
        self._name = compute.__name__
        self.__doc__ = compute.__doc__

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...
    @overload
    def __get__(self, instance: object, owner: type) -> T: ...
    def __get__(self, instance: object | None, owner: type) -> Self | T:
        """Compute and store the value; later, Python finds the stored value first."""
        if instance is None:
            return self
        value = self._compute(instance)
        instance.__dict__[self._name] = value
        return value
