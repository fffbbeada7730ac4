"""Threads that work ahead of the consumer.

Every function here holds a bounded number of items and raises an error at the position of the item
that caused the error. If the consumer stops early, the function stops its threads, joins them, and
closes its sources.
"""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future
from contextlib import closing
from functools import partial
from typing import Final, Generic, TypeVar

from whisperbatch.errors import ClosedError
from whisperbatch.threads import JOIN_TIMEOUT, Pool, in_background, stop_at_exit

T = TypeVar("T")
L = TypeVar("L")
R = TypeVar("R")

CHECK_INTERVAL: Final = 0.1  # seconds between two checks of a condition that depends on time

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
    sources: Iterable[Iterable[T]],
    *,
    at_once: int,
    depth: int,
    ordered: bool,
    ended: int | None = None,
    may_start: Callable[[], bool] = lambda: True,
    changed: threading.Condition | None = None,
) -> Generator[T, None, None]:
    """Yield the items of many sources, which are read at the same time, each by its own thread.

    The items of each source stay in order. A slow source does not stop the reading of the others.

    Args:
        sources: taken one by one, when they are to be read; one is taken in advance.
        at_once: number of sources that are read at a time.
        depth: number of items that each source is read ahead.
        ordered: whether all items of a source come before the items of the next source. Otherwise
            an item comes as soon as it is ready; those of earlier sources first.
        ended: number of further sources that may have ended, and wait for an earlier source; None:
            three times `at_once`.
        may_start: whether to start a further source while others are being read.
        changed: notified when the result of `may_start` may have changed.
    """
    interleaver = _Interleaver(
        sources,
        at_once,
        depth,
        ordered=ordered,
        most_active=at_once + (3 * at_once if ended is None else ended),
        may_start=may_start,
        changed=changed or threading.Condition(),
    )
    try:
        while not interleaver.done():
            interleaver.wait()
            if interleaver.can_start():
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
    pool = Pool(function, workers)
    try:
        with closing(prefetch(_submit(pool, items), depth)) as futures:
            for future in futures:
                yield future.result()
    finally:
        pool.close()


def map_ahead(
    function: Callable[[T], R], items: Iterable[T], *, workers: int
) -> Generator[R, None, None]:
    """As `map_ordered`, but a single worker is the consumer's thread, which does not work ahead."""
    if workers == 1:
        return (function(item) for item in items)
    return map_ordered(function, items, workers=workers, depth=workers)


def _submit(pool: Pool[T, R], items: Iterable[T]) -> Generator[Future[R], None, None]:
    try:
        for item in items:
            yield pool.submit(item)
    finally:
        _close(items)


class Workers:
    """Threads that run tasks, until there is no task for them. They share a condition.

    Args:
        changed: held while a task is chosen; must be notified when there may be a task.
        next_task: waits on `changed` for a task; None ends the thread.
        count: number of threads.
    """

    def __init__(
        self,
        changed: threading.Condition,
        next_task: Callable[[], Callable[[], None] | None],
        count: int,
    ) -> None:
        self._changed, self._next_task, self._count = changed, next_task, count
        self._threads: set[threading.Thread] = set()

    def start(self) -> None:
        """Start the threads that are missing."""
        with self._changed:
            while len(self._threads) < self._count:
                self._threads.add(in_background(self._run, "whisperbatch-engine", waits=False))

    def replace(self) -> None:
        """Let the current thread end after its task, and start another thread in its place."""
        with self._changed:
            self._threads.discard(threading.current_thread())
            self.start()

    def threads(self) -> list[threading.Thread]:
        """Return the running threads."""
        with self._changed:
            return [*self._threads]

    def _run(self) -> None:
        try:
            while True:
                with self._changed:
                    if threading.current_thread() not in self._threads:  # replaced
                        return
                    task = self._next_task()
                    if task is None:  # under the lock: `start` sees that this thread ends
                        self._threads.discard(threading.current_thread())
                        return
                task()
                del task
        except BaseException:
            with self._changed:
                self._threads.discard(threading.current_thread())
            raise


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
        self._program_ends = False
        self._ended = False  # the producer has no more items
        self._error: BaseException | None = None
        stop_at_exit(self)
        self._thread = in_background(partial(_fill, source, self), "whisperbatch-prefetch")

    def has_item(self) -> bool:
        return bool(self._items)

    def has_ended(self) -> bool:
        """Whether all items were taken and no more will come."""
        return self._ended and not self._items

    def is_filled(self) -> bool:
        """Whether the producer thread has put its last item."""
        return self._ended

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
        if self._program_ends and error is None:
            error = ClosedError("the program ends")
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

    def stop_at_exit(self) -> None:
        """See `threads.Stoppable`. The consumer gets a ClosedError after the items."""
        self._program_ends = True
        self.request_stop()

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

    def __init__(
        self,
        sources: Iterable[Iterable[T]],
        at_once: int,
        depth: int,
        *,
        ordered: bool,
        most_active: int,
        may_start: Callable[[], bool],
        changed: threading.Condition,
    ) -> None:
        self._changed = changed
        self._upcoming = _Buffer(sources, 1, self._changed)
        self._active: list[_Buffer[T]] = []
        self._at_once, self._depth, self._most_active = at_once, depth, most_active
        self._ordered, self._may_start = ordered, may_start

    def wait(self) -> None:
        """Wait until there is something to do."""

        def any_due() -> bool:
            return self.can_start() or self.next_due() is not None or self.done()

        with self._changed:
            while not self._changed.wait_for(any_due, CHECK_INTERVAL):
                pass

    def can_start(self) -> bool:
        """Whether another source can be started, or its iteration has failed."""
        if self._upcoming.has_failed():
            return not self._active  # the items of all earlier sources come before the error
        if not self._upcoming.has_item():
            return False
        reading = sum(not buffer.is_filled() for buffer in self._active)
        has_place = reading < self._at_once and len(self._active) < self._most_active
        return not self._active or (has_place and self._may_start())

    def next_due(self) -> _Buffer[T] | None:
        """Return the first buffer that may be read and has an item or has ended."""
        candidates = self._active[:1] if self._ordered else self._active
        due = (buffer for buffer in candidates if buffer.has_item() or buffer.has_ended())
        return next(due, None)

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
