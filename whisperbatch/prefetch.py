"""Work ahead in other threads: the only file that starts any.

All functions raise an error where it happened, hold a bounded number of items, and, when the
consumer stops half way, stop too: they join their threads and close their sources.
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

PATIENCE: Final = 5.0  # seconds to wait for a thread that was told to stop: it may read a pipe

MOMENT: Final = 0.25  # seconds: a chunk of a file is ready in 0.1

log = logging.getLogger(__name__)


def prefetch(source: Iterable[T], depth: int) -> Generator[T, None, None]:
    """The items of `source`, taken from it by another thread, up to `depth` of them ahead.

    The source is asked for an item only when there is room for it.
    """
    buffer = _Buffer(source, depth)
    try:
        while buffer.ready():
            yield buffer.take()
    finally:
        buffer.stop()


def side_by_side(
    sources: Iterable[Iterable[T]], *, at_once: int, depth: int, lull: L
) -> Generator[T | L, None, None]:
    """Items of many sources, each source's in order.

    `at_once` sources are read at a time, up to `depth` items ahead, each by a thread of its own;
    the next one is taken when one has ended. It is the first one's turn; only if it has nothing
    for a moment, that of another: a slow source holds up no other. Where none has, there is a
    `lull`, once until the next item.
    """
    many = _Many(sources, at_once, depth)
    quiet = False
    try:
        while not many.done():
            quiet = not many.wait(forever=quiet)
            if quiet:
                yield lull
            elif many.more():
                many.start()
            elif one := many.due():
                if one.ready():
                    yield one.take()
                else:
                    many.end(one)
    finally:
        many.stop()


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
    """A bounded queue between one producer and one consumer, either of which may stop.

    The producer is a thread that takes the items from a source.
    """

    def __init__(
        self, source: Iterable[T], depth: int, changed: threading.Condition | None = None
    ) -> None:
        self._items: deque[T] = deque()
        self._depth = depth
        self._changed = changed or threading.Condition()
        self._stopped = False  # the consumer wants no more
        self._ended = False  # the producer has no more
        self._error: BaseException | None = None
        self._thread = threading.Thread(
            target=_fill, args=(source, self), name="whisperbatch-prefetch", daemon=True
        )
        self._thread.start()

    def has_item(self) -> bool:
        return bool(self._items)

    def has_ended(self) -> bool:
        """There will be no item more."""
        return self._ended and not self._items

    def has_failed(self) -> bool:
        return self.has_ended() and self._error is not None

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

    def want_no_more(self) -> None:
        with self._changed:
            self._stopped = True
            self._changed.notify_all()

    def stop(self, until: float | None = None) -> None:
        """Want no more, and see the thread off."""
        self.want_no_more()
        if self._thread is threading.current_thread():  # where the garbage collector may come by
            return
        self._thread.join(PATIENCE if until is None else max(until - time.monotonic(), 0))
        if self._thread.is_alive():
            log.warning("a source did not stop within %g s: left to end by itself", PATIENCE)


class _Many(Generic[T]):
    """Buffers of sources that are read side by side, and one of the sources still to come."""

    def __init__(self, sources: Iterable[Iterable[T]], at_once: int, depth: int) -> None:
        self._changed = threading.Condition()
        self._coming = _Buffer(sources, 1, self._changed)
        self._going: list[_Buffer[T]] = []
        self._at_once, self._depth = at_once, depth
        self._slow: _Buffer[T] | None = None  # the first one, if it has let a moment pass

    def wait(self, *, forever: bool) -> bool:
        """Wait for something to do, first of all for the first one; False: there is nothing."""

        def something() -> bool:
            return self.more() or self.due() is not None or self.done()

        def first() -> bool:
            return self.more() or _is_due(self._going[:1]) is not None or self.done()

        with self._changed:
            known = bool(self._going) and self._going[0] is self._slow
            if self._changed.wait_for(something if known else first, MOMENT):
                if _is_due(self._going[:1]):
                    self._slow = None
                return True
            self._slow = self._going[0] if self._going else None
            return self._changed.wait_for(something) if forever else something()

    def more(self) -> bool:
        """Whether another source can be started, or has failed to come."""
        if self._coming.has_failed():
            return not self._going  # all that came before it comes first
        return len(self._going) < self._at_once and self._coming.has_item()

    def due(self) -> _Buffer[T] | None:
        """The first that has an item, or has ended."""
        return _is_due(self._going)

    def done(self) -> bool:
        return not self._going and self._coming.has_ended() and not self._coming.has_failed()

    def start(self) -> None:
        if self._coming.ready():
            self._going.append(_Buffer(self._coming.take(), self._depth, self._changed))

    def end(self, one: _Buffer[T]) -> None:
        self._going.remove(one)
        one.stop()

    def stop(self) -> None:
        self._coming.want_no_more()
        for one in self._going:
            one.want_no_more()
        until = time.monotonic() + PATIENCE
        self._coming.stop(until)
        for one in self._going:
            one.stop(until)


def _is_due(buffers: Sequence[_Buffer[T]]) -> _Buffer[T] | None:
    return next((one for one in buffers if one.has_item() or one.has_ended()), None)


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
