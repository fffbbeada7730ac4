"""The time of each stage of a run, measured by wrapping the methods that compute the stages.

seconds     wall-clock time of all calls; stages of different threads overlap
cpu         processor time of the calling thread, with the stages that the call runs inside
own         the same without these stages: the sum over all stages counts nothing twice

Only the thread that calls a method is measured: threads that the method starts do not count.
"""

import functools
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

T = TypeVar("T")
Limit: TypeAlias = Callable[..., float] | None
Method: TypeAlias = tuple[str, Any, str, Limit]  # stage, class or module, name, limit of a call


@dataclass
class StageTime:
    """The time of all calls of a stage, in seconds; see the module.

    Attributes:
        calls: number of calls; the items of an iterator belong to the call that returned it.
        seconds: wall-clock time.
        cpu: processor time with inner stages.
        own: processor time without inner stages.
        limit: lower limit of `seconds` on this machine.
    """

    calls: int = 0
    seconds: float = 0.0
    cpu: float = 0.0
    own: float = 0.0
    limit: float = 0.0


class _Nested(threading.local):
    """Processor time of the stages inside the stage that runs in this thread."""

    def __init__(self) -> None:
        self.cpu = 0.0


class _StageTimes:
    """Measures calls of any thread."""

    def __init__(self) -> None:
        self.times: dict[str, StageTime] = defaultdict(StageTime)
        self._nested = _Nested()
        self._lock = threading.Lock()

    def run(self, stage: str, function: Callable[[], T]) -> T:
        """Return the result of a function, and add its time to a stage."""
        outer, self._nested.cpu = self._nested.cpu, 0.0
        started, cpu = time.perf_counter(), time.thread_time()
        try:
            return function()
        finally:
            used, seconds = time.thread_time() - cpu, time.perf_counter() - started
            with self._lock:
                found = self.times[stage]
                found.seconds += seconds
                found.cpu += used
                found.own += used - self._nested.cpu
            self._nested.cpu = outer + used

    def items(self, stage: str, items: Iterator[T]) -> Iterator[T]:
        """Yield the items of an iterator, and add the time that each takes to a stage."""
        end = object()
        while (item := self.run(stage, lambda: next(items, end))) is not end:
            yield item  # type: ignore[misc]  # not `end`

    def begin(self, stage: str, limit: float) -> None:
        with self._lock:
            self.times[stage].calls += 1
            self.times[stage].limit += limit


@contextmanager
def timed_methods(stages: Sequence[Method]) -> Iterator[dict[str, StageTime]]:
    """Measure methods until the end of a `with` block. Thread-safe.

    Args:
        stages: the methods. If one returns an iterator, the time of its items counts, too.

    Yields:
        The times by stage, in the order of the first calls.
    """
    times = _StageTimes()
    originals = [(owner, name, owner.__dict__[name]) for _, owner, name, _ in stages]
    for stage, owner, name, limit in stages:
        setattr(owner, name, _timed(getattr(owner, name), times, stage, limit))
    try:
        yield times.times
    finally:
        for owner, name, method in originals:
            setattr(owner, name, method)


def _timed(
    method: Callable[..., Any], times: _StageTimes, stage: str, limit: Limit
) -> Callable[..., Any]:
    @functools.wraps(method)
    def timed(*arguments: Any, **keywords: Any) -> Any:  # noqa: ANN401 - any method
        times.begin(stage, limit(*arguments) if limit else 0.0)
        result = times.run(stage, lambda: method(*arguments, **keywords))
        return times.items(stage, result) if isinstance(result, Iterator) else result

    return timed
