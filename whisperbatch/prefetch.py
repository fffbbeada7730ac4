"""Threads that work ahead of the consumer. No other file of the pipeline starts threads.

Every function here holds a bounded number of items and raises an error at the position of the item
that caused the error. If the consumer stops early, the function stops its threads, joins them, and
closes its sources.
"""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from typing import Final, Generic, TypeVar

T = TypeVar("T")
L = TypeVar("L")
R = TypeVar("R")

JOIN_TIMEOUT: Final = 5.0  # seconds to wait for a thread after a stop: it may be reading a pipe

TURN_TIMEOUT: Final = 0.25  # seconds to wait for the first source; a chunk of a file takes 0.1 s

log = logging.getLogger(__name__)


def prefetch(source: Iterable[T], depth: int) -> Generator[T, None, None]:
    """Yield the items of `source`; another thread reads them, up to `depth` items ahead.

    The thread takes an item from the source only when the buffer has room for the item.
    """
    buffer = _Buffer(source, depth)
    try:
        while buffer.ready():
            yield buffer.take()
    finally:
        buffer.stop()


def interleave(
    sources: Iterable[Iterable[T]], *, at_once: int, depth: int, idle: L
) -> Generator[T | L, None, None]:
    """Yield the items of many sources; the items of each source stay in order.

    `at_once` sources are read at the same time, each by its own thread, up to `depth` items ahead.
    When a source ends, the next source is started. Items of the first source have priority. If the
    first source has no item for `TURN_TIMEOUT`, items of the other sources are yielded, so that a
    slow source does not delay them. If no source has an item, `idle` is yielded, once until the
    next item.
    """
    interleaver = _Interleaver(sources, at_once, depth)
    is_idle = False
    try:
        while not interleaver.done():
            is_idle = not interleaver.wait(forever=is_idle)
            if is_idle:
                yield idle
            elif interleaver.can_start():
                interleaver.start()
            elif buffer := interleaver.next_due():
                if buffer.ready():
                    yield buffer.take()
                else:
                    interleaver.end(buffer)
    finally:
        interleaver.stop()


def map_ordered(
    function: Callable[[T], R], items: Iterable[T], *, workers: int, depth: int
) -> Generator[R, None, None]:
    """Yield `function(item)` for each item, in order, computed by `workers` threads.

    Another thread takes the items from their source, so that a slow source does not delay results
    that are ready. At most `depth` items are taken ahead of the next result.
    """
    pool = ThreadPoolExecutor(workers, thread_name_prefix="whisperbatch-worker")
    try:
        with closing(prefetch(_submit(pool, function, items), depth)) as futures:
            for future in futures:
                yield future.result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _submit(
    pool: ThreadPoolExecutor, function: Callable[[T], R], items: Iterable[T]
) -> Generator[Future[R], None, None]:
    try:
        for item in items:
            yield pool.submit(function, item)
    finally:
        _close(items)


class _Buffer(Generic[T]):
    """A bounded queue between a producer thread, which reads the source, and a consumer.

    Producer and consumer may both stop at any time.

    Args:
        source: read by the producer thread.
        depth: maximum number of items in the queue.
        changed: notified at every change; buffers may share a condition.
    """

    def __init__(
        self, source: Iterable[T], depth: int, changed: threading.Condition | None = None
    ) -> None:
        self._items: deque[T] = deque()
        self._depth = depth
        self._changed = changed or threading.Condition()
        self._stopped = False  # the consumer wants no more items
        self._ended = False  # the producer has no more items
        self._error: BaseException | None = None
        self._thread = threading.Thread(
            target=_fill, args=(source, self), name="whisperbatch-prefetch", daemon=True
        )
        self._thread.start()

    def has_item(self) -> bool:
        return bool(self._items)

    def has_ended(self) -> bool:
        """Whether all items were taken and no more will come."""
        return self._ended and not self._items

    def has_failed(self) -> bool:
        return self.has_ended() and self._error is not None

    def wait_for_room(self) -> bool:
        """Wait until there is room for an item. Return False if the consumer has stopped."""
        with self._changed:
            self._changed.wait_for(lambda: self._stopped or len(self._items) < self._depth)
            return not self._stopped

    def put(self, item: T) -> None:
        with self._changed:
            self._items.append(item)
            self._changed.notify_all()

    def end(self, error: BaseException | None = None) -> None:
        with self._changed:
            self._ended, self._error = True, error
            self._changed.notify_all()

    def ready(self) -> bool:
        """Wait for an item. Return False at the end, or raise the producer's error."""
        with self._changed:
            self._changed.wait_for(lambda: self._ended or self._items)
            if not self._items and self._error:
                raise self._error
            return bool(self._items)

    def take(self) -> T:
        with self._changed:
            item = self._items.popleft()
            self._changed.notify_all()
            return item

    def request_stop(self) -> None:
        with self._changed:
            self._stopped = True
            self._changed.notify_all()

    def stop(self, deadline: float | None = None) -> None:
        """Stop the producer thread and wait for its end, until `deadline` (monotonic seconds)."""
        self.request_stop()
        if self._thread is threading.current_thread():  # called by the garbage collector
            return
        self._thread.join(JOIN_TIMEOUT if deadline is None else max(deadline - time.monotonic(), 0))
        if self._thread.is_alive():
            log.warning(
                "a source did not stop within %g s; its thread ends when the source returns",
                JOIN_TIMEOUT,
            )


class _Interleaver(Generic[T]):
    """The buffers of the active sources, in order, and a buffer with the next source to start."""

    def __init__(self, sources: Iterable[Iterable[T]], at_once: int, depth: int) -> None:
        self._changed = threading.Condition()
        self._upcoming = _Buffer(sources, 1, self._changed)
        self._active: list[_Buffer[T]] = []
        self._at_once, self._depth = at_once, depth
        self._slow: _Buffer[T] | None = None  # the first buffer, if it has missed its turn

    def wait(self, *, forever: bool) -> bool:
        """Wait until there is something to do, with priority for the first source.

        Returns:
            False if there is nothing to do after `TURN_TIMEOUT`; never with `forever`.
        """

        def any_due() -> bool:
            return self.can_start() or self.next_due() is not None or self.done()

        def first_due() -> bool:
            return self.can_start() or _first_due(self._active[:1]) is not None or self.done()

        with self._changed:
            first_is_slow = bool(self._active) and self._active[0] is self._slow
            if self._changed.wait_for(any_due if first_is_slow else first_due, TURN_TIMEOUT):
                if _first_due(self._active[:1]):
                    self._slow = None
                return True
            self._slow = self._active[0] if self._active else None
            return self._changed.wait_for(any_due) if forever else any_due()

    def can_start(self) -> bool:
        """Whether another source can be started, or its iteration has failed."""
        if self._upcoming.has_failed():
            return not self._active  # the items of all earlier sources come before the error
        return len(self._active) < self._at_once and self._upcoming.has_item()

    def next_due(self) -> _Buffer[T] | None:
        """Return the first buffer that has an item or has ended."""
        return _first_due(self._active)

    def done(self) -> bool:
        return not self._active and self._upcoming.has_ended() and not self._upcoming.has_failed()

    def start(self) -> None:
        if self._upcoming.ready():
            self._active.append(_Buffer(self._upcoming.take(), self._depth, self._changed))

    def end(self, buffer: _Buffer[T]) -> None:
        self._active.remove(buffer)
        buffer.stop()

    def stop(self) -> None:
        self._upcoming.request_stop()
        for buffer in self._active:
            buffer.request_stop()
        deadline = time.monotonic() + JOIN_TIMEOUT
        self._upcoming.stop(deadline)
        for buffer in self._active:
            buffer.stop(deadline)


def _first_due(buffers: Sequence[_Buffer[T]]) -> _Buffer[T] | None:
    return next((buffer for buffer in buffers if buffer.has_item() or buffer.has_ended()), None)


def _fill(source: Iterable[T], buffer: _Buffer[T]) -> None:
    try:
        iterator = iter(source)
        while buffer.wait_for_room():
            try:
                item = next(iterator)
            except StopIteration:
                break
            buffer.put(item)
        _close(source)
    except BaseException as error:  # noqa: BLE001 - the consumer must see every error
        buffer.end(error)
    else:
        buffer.end()


def _close(source: object) -> None:
    if isinstance(source, Generator):
        source.close()
