"""Work ahead in other threads: the only file that starts any.

Both functions keep order, raise an error where it happened, hold a bounded number of items, and,
when the consumer stops half way, stop too: they join their threads and close their source.
"""

import logging
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from typing import Final, Generic, TypeVar

T = TypeVar("T")
R = TypeVar("R")

PATIENCE: Final = 5.0  # seconds to wait for a thread that was told to stop: it may read a pipe

log = logging.getLogger(__name__)


def prefetch(source: Iterable[T], depth: int) -> Generator[T, None, None]:
    """The items of `source`, taken from it by another thread, up to `depth` of them ahead.

    The source is asked for an item only when there is room for it.
    """
    buffer = _Buffer[T](depth)
    thread = threading.Thread(
        target=_fill, args=(source, buffer), name="whisperbatch-prefetch", daemon=True
    )
    thread.start()
    try:
        while buffer.ready():
            yield buffer.take()
    finally:
        buffer.stop()
        if thread is not threading.current_thread():  # where the garbage collector may come by
            thread.join(PATIENCE)
            if thread.is_alive():
                log.warning("a source did not stop within %g s: left to end by itself", PATIENCE)


def map_ordered(
    function: Callable[[T], R], items: Iterable[T], *, workers: int, depth: int
) -> Generator[R, None, None]:
    """`function` of each item, in order, computed by `workers` threads.

    One more thread takes the items from their source, so that a slow source holds up no result.
    At most `depth` items are taken ahead of the result that is waited for.
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
    """A bounded queue between one producer and one consumer, either of which may stop."""

    def __init__(self, depth: int) -> None:
        self._items: deque[T] = deque()
        self._depth = depth
        self._changed = threading.Condition()
        self._stopped = False  # the consumer wants no more
        self._ended = False  # the producer has no more
        self._error: BaseException | None = None

    def room(self) -> bool:
        """Wait for room; False if the consumer has stopped."""
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
        """Wait for an item; False at the end, and the producer's error if it had one."""
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

    def stop(self) -> None:
        with self._changed:
            self._stopped = True
            self._changed.notify_all()


def _fill(source: Iterable[T], buffer: _Buffer[T]) -> None:
    try:
        iterator = iter(source)
        while buffer.room():
            try:
                item = next(iterator)
            except StopIteration:
                break
            buffer.put(item)
        _close(source)
    except BaseException as error:  # noqa: BLE001 - whatever it is, the consumer must see it
        buffer.end(error)
    else:
        buffer.end()


def _close(source: object) -> None:
    if isinstance(source, Generator):
        source.close()
