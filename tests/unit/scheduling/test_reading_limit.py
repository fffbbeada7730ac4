"""The audio that is read, but not decoded: how much there is, and who may read on."""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from queue import SimpleQueue
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.counting_source import TIMEOUT
from tests.unit.scheduling.row_calls import Caller, CountedCondition
from whisperbatch.scheduling import ReadingLimit, reading_limit

pytestmark = pytest.mark.usefixtures("no_threads_added")


class ObservedLimit(ReadingLimit):
    """A limit whose test can wait until a thread waits."""

    def __init__(self, limit: int, first_limit: int | None = None) -> None:
        super().__init__(limit, first_limit)
        self.changed = self._condition = CountedCondition()

    def wait_for_wait(self) -> None:
        """Wait until a thread waits: for the first time, or again after a notification."""
        self._condition.wait_for_waits(1)

    def admit(self, recording: int, samples: int) -> bool:
        """Acquire a chunk; the test fails if the chunk is not admitted at once."""
        return Caller(lambda: self.acquire(recording, samples)).result()

    def waiting(self, recording: int, samples: int) -> Caller[bool]:
        """Start a thread that acquires a chunk, and wait until it waits."""
        caller = Caller(lambda: self.acquire(recording, samples))
        self.wait_for_wait()
        return caller


def test_the_first_chunk_of_each_recording_is_admitted() -> None:
    limit = ObservedLimit(10)
    assert all(limit.admit(recording, 100) for recording in range(5))


def test_the_next_chunk_of_a_recording_without_undecoded_audio_is_admitted() -> None:
    limit = ObservedLimit(10)
    for recording in range(2):
        assert limit.admit(recording, 100)
    limit.release(1, 100)
    assert limit.admit(1, 100)


def test_chunks_are_admitted_up_to_the_limit() -> None:
    limit = ObservedLimit(10)
    assert [limit.admit(0, 4), limit.admit(1, 4), limit.admit(0, 2)] == [True] * 3
    caller = limit.waiting(1, 1)
    limit.release(0, 1)
    assert caller.result()


def test_a_chunk_waits_until_there_is_room_for_all_of_it() -> None:
    limit = ObservedLimit(10)
    limit.admit(0, 5)
    limit.admit(1, 5)
    caller = limit.waiting(1, 3)
    limit.release(0, 2)
    limit.wait_for_wait()  # 2 samples are not enough
    limit.release(0, 1)
    assert caller.result()


def test_the_first_limit_ends_when_a_chunk_has_been_decoded() -> None:
    limit = ObservedLimit(10, first_limit=4)
    limit.admit(0, 4)
    caller = limit.waiting(0, 5)
    limit.release(0, 1)
    assert caller.result()
    limit.admit(0, 2)


def test_the_first_limit_is_at_most_the_limit() -> None:
    limit = ObservedLimit(3, first_limit=4)
    limit.admit(0, 3)
    caller = limit.waiting(0, 1)
    limit.release(0, 1)
    assert caller.result()


def test_a_chunk_that_is_longer_than_the_limit_waits_only_for_its_own_recording() -> None:
    limit = ObservedLimit(10)
    limit.admit(0, 5)
    limit.admit(1, 5)
    caller = limit.waiting(1, 50)
    limit.release(1, 5)
    assert caller.result()


def test_the_earliest_recording_is_first() -> None:
    limit = ObservedLimit(10)
    admitted: SimpleQueue[int] = SimpleQueue()
    for recording, samples in enumerate((4, 2, 2, 2)):
        limit.admit(recording, samples)

    def acquire(recording: int) -> None:
        limit.acquire(recording, 2)
        admitted.put(recording)

    callers = []
    for recording in (3, 1, 2):
        callers.append(Caller(partial(acquire, recording)))
        limit.wait_for_wait()
    order = []
    for recording in (0, 0, 1):
        limit.release(recording, 2)  # there is room for one chunk
        order.append(admitted.get(timeout=TIMEOUT))
    assert order == [1, 2, 3]
    for caller in callers:
        caller.result()


def test_a_later_recording_with_a_shorter_chunk_does_not_overtake() -> None:
    limit = ObservedLimit(10)
    limit.admit(0, 5)
    limit.admit(1, 5)
    earlier = limit.waiting(0, 4)
    later = limit.waiting(1, 1)
    limit.release(1, 2)
    limit.wait_for_wait()
    limit.wait_for_wait()  # both wait again
    limit.release(1, 2)
    assert earlier.result()
    limit.release(0, 1)
    assert later.result()


def test_the_next_recording_follows_as_soon_as_the_earliest_is_admitted() -> None:
    limit = ObservedLimit(10)
    limit.admit(0, 5)
    limit.admit(1, 5)
    later = limit.waiting(1, 1)
    earlier = limit.waiting(0, 1)
    with limit.changed:  # as in `release`, but only one thread looks at the room at first
        limit._undecoded[0] -= 2
        limit.changed.notify()
    limit.wait_for_wait()  # recording 1 waits for recording 0
    with limit.changed:
        limit.changed.notify()  # recording 0
    assert earlier.result()
    assert later.result()


def test_the_end_of_a_recording_releases_all_of_its_chunks() -> None:
    limit = ObservedLimit(10)
    limit.admit(0, 3)
    limit.admit(0, 3)
    limit.admit(1, 4)
    caller = limit.waiting(1, 6)
    limit.end(0)
    assert caller.result()


def test_chunks_that_are_decoded_after_the_end_are_not_subtracted_again() -> None:
    limit = ObservedLimit(10)
    limit.admit(0, 5)
    limit.admit(1, 5)
    limit.end(0)
    limit.release(0, 5)
    assert limit.admit(1, 5)
    caller = limit.waiting(1, 1)
    limit.stop()
    assert not caller.result()


def test_a_stop_ends_all_waits() -> None:
    limit = ObservedLimit(10)
    for recording in range(3):
        limit.admit(recording, 5)
    callers = [limit.waiting(recording, 5) for recording in range(3)]
    limit.stop()
    assert [caller.result() for caller in callers] == [False] * 3
    assert not limit.admit(0, 1)
    assert not limit.admit(9, 1)


def test_a_wait_ends_when_its_condition_is_false() -> None:
    limit, conditions = ObservedLimit(10), {"waits": True}
    limit.wait_while(lambda: False)
    caller = Caller(lambda: limit.wait_while(lambda: conditions["waits"]))
    limit.wait_for_wait()
    limit.notify()
    limit.wait_for_wait()  # the condition is true
    conditions["waits"] = False
    limit.notify()
    caller.result()


def test_a_wait_ends_after_its_time_or_with_the_run() -> None:
    limit = ObservedLimit(10)
    limit.wait_while(lambda: True, 0.01)
    limit.wait_for_wait()
    caller = Caller(lambda: limit.wait_while(lambda: True))
    limit.wait_for_wait()
    limit.stop()
    caller.result()
    limit.wait_while(lambda: True)


@contextmanager
def notified(limit: ObservedLimit) -> Iterator[None]:
    """Check that a thread that waits for a change is notified."""

    def wait() -> bool:
        with limit.changed:
            return limit.changed.wait(TIMEOUT)

    caller = Caller(wait)
    limit.wait_for_wait()
    yield
    assert caller.result()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A clock that the test sets; two recordings begin at a time."""
    clock = SimpleNamespace(now=100.0)
    monkeypatch.setattr(reading_limit, "time", SimpleNamespace(monotonic=lambda: clock.now))
    monkeypatch.setattr(reading_limit, "BEGINNING", 2)
    monkeypatch.setattr(reading_limit, "SLOW_SOURCE", 0.25)
    return clock


def test_few_recordings_begin_at_a_time(clock: SimpleNamespace) -> None:
    limit = ReadingLimit(10)
    assert limit.may_begin()
    limit.begin(0)
    assert limit.may_begin()
    limit.begin(1)
    assert not limit.may_begin()


@pytest.mark.parametrize("event", ["has_begun", "end"])
def test_the_next_recording_begins_when_one_has_begun_or_ended(
    clock: SimpleNamespace, event: str
) -> None:
    limit = ObservedLimit(10)
    limit.begin(0)
    limit.begin(1)
    with notified(limit):
        getattr(limit, event)(0)
    assert limit.may_begin()
    limit.begin(2)
    assert not limit.may_begin()
    limit.has_begun(0)  # it begins only once
    assert not limit.may_begin()


def test_a_slow_recording_does_not_keep_others_from_beginning(clock: SimpleNamespace) -> None:
    limit = ReadingLimit(10)
    limit.begin(0)
    clock.now += 0.2
    limit.begin(1)
    clock.now += 0.2
    assert not limit.may_begin()  # the last beginning is not slow yet
    clock.now += 0.1
    assert limit.may_begin()
    limit.begin(2)
    assert not limit.may_begin()
    clock.now += 0.3
    assert limit.may_begin()


def test_no_recording_begins_while_the_limit_is_reached(clock: SimpleNamespace) -> None:
    limit = ObservedLimit(10)
    limit.admit(0, 9)
    assert limit.may_begin()
    limit.admit(0, 1)
    assert not limit.may_begin()
    with notified(limit):
        limit.release(0, 1)
    assert limit.may_begin()


def test_no_recording_begins_while_a_chunk_waits(clock: SimpleNamespace) -> None:
    limit = ObservedLimit(10)
    limit.admit(0, 8)
    caller = limit.waiting(0, 4)
    assert not limit.may_begin()
    limit.release(0, 2)
    assert caller.result()
    limit.release(0, 1)
    assert limit.may_begin()


class RandomRun:
    """Threads that read recordings, and threads that decode the chunks.

    Attributes:
        most: maximum number of samples that were read, but not decoded.
    """

    def __init__(self, limit: int, stop_after: int | None) -> None:
        self.limit = ReadingLimit(limit)
        self.most = 0
        self._undecoded = self._decoded = 0
        self._stop_after = stop_after
        self._admitted: SimpleQueue[tuple[int, int] | None] = SimpleQueue()
        self._lock = threading.Lock()

    def read(self, number: int, chunks: Sequence[int]) -> bool:
        """Read the chunks of a recording. Return False if the run stops before its end."""
        self.limit.begin(number)
        for samples in chunks:
            self.limit.has_begun(number)
            if not self.limit.acquire(number, samples):
                return False
            with self._lock:
                self._undecoded += samples
                self.most = max(self.most, self._undecoded)
            self._admitted.put((number, samples))
        self.limit.has_begun(number)
        return True

    def decode(self) -> None:
        """Decode chunks until the end. Stop the run after a number of chunks."""
        while item := self._admitted.get(timeout=TIMEOUT):
            with self._lock:
                self._undecoded -= item[1]
                self._decoded += 1
                stops = self._decoded == self._stop_after
            self.limit.release(*item)
            if stops:
                self.limit.stop()

    def end(self) -> None:
        """End a thread that decodes."""
        self._admitted.put(None)


@settings(max_examples=100)
@given(
    st.lists(st.lists(st.integers(1, 12), max_size=8), min_size=1, max_size=5),
    st.integers(1, 20),
    st.integers(1, 3),
    st.none() | st.integers(1, 10),
)
def test_no_thread_waits_forever(
    recordings: list[list[int]], size: int, decoders: int, stop_after: int | None
) -> None:
    run = RandomRun(size, stop_after)
    readers = [Caller(partial(run.read, *item)) for item in enumerate(recordings)]
    threads = [Caller(run.decode) for _ in range(decoders)]
    complete = [reader.result() for reader in readers]
    for _ in threads:
        run.end()
    for thread in threads:
        thread.result()
    if stop_after is None:
        assert all(complete)
        assert run.limit.may_begin()
    # the first chunk of a recording is admitted although the limit is reached
    assert run.most <= size + sum(max(chunks, default=0) for chunks in recordings)
