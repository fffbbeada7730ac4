"""The diarizer listens beside the transcription: its thread never waits for the consumer.

A test that waits without end fails after `LIMIT` seconds: `finishes` runs it in a thread.
"""

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

import numpy as np
import pytest

from whisperbatch.diarization.protocol import MAX_LAG, Progress, SpeakerLimits
from whisperbatch.diarization.stage import AHEAD, Listener
from whisperbatch.errors import ClosedError, EngineError, OptionError
from whisperbatch.types import SAMPLING_RATE, Diarization, Samples, Turn

T = TypeVar("T")

LIMIT = 20.0  # seconds: far more than each test needs
NO_LIMITS = SpeakerLimits()


class FakeDiarizer:
    """Yields one turn for each second of audio, at most `lag` seconds behind.

    Args:
        lag: seconds between two Progress items.
        fails_at: seconds after which it raises an error; None for never.
    """

    fingerprint = "fake"

    def __init__(self, lag: int = 1, fails_at: float | None = None) -> None:
        self.lag, self.fails_at = lag, fails_at
        self.heard = 0.0
        self.closed = threading.Event()

    def __call__(
        self, blocks: Iterable[Samples], limits: SpeakerLimits
    ) -> Iterator[Progress | Diarization]:
        if limits.minimum > 9:
            raise OptionError("min_speakers: at most 9")
        return self._items(blocks)

    def _items(self, blocks: Iterable[Samples]) -> Iterator[Progress | Diarization]:
        told = 0
        turns: list[Turn] = []
        try:
            for block in blocks:
                self.heard += len(block) / SAMPLING_RATE
                if self.fails_at is not None and self.heard > self.fails_at:
                    raise EngineError("a network failed")
                while self.heard - told >= self.lag:
                    new = [
                        Turn(float(t), t + 1.0, "SPEAKER_00", 1.0)
                        for t in range(told, told + self.lag)
                    ]
                    told += self.lag
                    turns += new
                    yield Progress(float(told), tuple(new))
            yield Diarization(tuple(turns))
        finally:
            self.closed.set()

    def close(self) -> None:
        pass


def audio(seconds: int) -> Iterator[Samples]:
    """Blocks of 1 s, which share their memory."""
    block = np.zeros(SAMPLING_RATE, np.float32)
    return (block for _ in range(seconds))


def finishes(function: Callable[[], T]) -> T:
    """Return the result of a function, which must end within `LIMIT` seconds."""
    results: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(function())
        except BaseException as error:  # noqa: BLE001 - raised again below
            errors.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(LIMIT)
    assert not thread.is_alive(), "the function waits without end"
    if errors:
        raise errors[0]
    return results[0]


def diarizer_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "whisperbatch-diarizer"]


def has_ended(listener: Listener) -> bool:
    """Wait for the end of the diarizer's thread."""
    listener._thread.join(LIMIT)
    return not listener._thread.is_alive()


def hear(listener: Listener, seconds: int) -> int:
    """Read a recording, as the reader does; return the number of blocks."""
    return sum(1 for _ in listener.through(audio(seconds)))


def test_long_silence_does_not_block() -> None:
    """Without segments, no turns are needed before the end: three hours must pass."""
    listener = Listener(FakeDiarizer(), NO_LIMITS, "talk.wav")
    seconds = 3 * 3600
    assert seconds * SAMPLING_RATE > 10 * AHEAD
    assert finishes(lambda: hear(listener, seconds)) == seconds
    assert len(finishes(listener.result).turns) == seconds
    assert has_ended(listener)


def test_a_slow_consumer_does_not_block_the_diarizer() -> None:
    """The consumer asks for the first second only, while the diarizer hears an hour."""
    diarizer = FakeDiarizer()
    listener = Listener(diarizer, NO_LIMITS, "talk.wav")
    reader = threading.Thread(target=hear, args=(listener, 3600), daemon=True)
    reader.start()
    assert len(finishes(lambda: listener.turns_until(1.0))) == 1
    reader.join(LIMIT)
    assert not reader.is_alive()
    assert has_ended(listener)
    assert diarizer.heard == 3600
    assert len(finishes(lambda: listener.turns_until(2.5))) == 3  # not the newest turns
    assert len(finishes(listener.result).turns) == 3600


def test_a_slow_diarizer_stops_the_reader_but_not_its_consumer() -> None:
    """At most AHEAD samples wait for the diarizer."""
    may_continue = threading.Event()

    class Slow(FakeDiarizer):
        def _items(self, blocks: Iterable[Samples]) -> Iterator[Progress | Diarization]:
            may_continue.wait(LIMIT)
            yield from super()._items(blocks)

    listener = Listener(Slow(), NO_LIMITS, "talk.wav")
    read: list[int] = []
    ahead = AHEAD // SAMPLING_RATE
    source = listener.through(audio(ahead + 60))
    reader = threading.Thread(target=lambda: read.extend(1 for _ in source), daemon=True)
    reader.start()
    deadline = time.monotonic() + LIMIT
    while listener._waiting < AHEAD and time.monotonic() < deadline:
        time.sleep(0.01)
    assert reader.is_alive()
    assert len(read) <= ahead
    may_continue.set()
    reader.join(LIMIT)
    assert len(read) == ahead + 60
    assert len(finishes(listener.result).turns) == ahead + 60


def test_an_error_reaches_the_caller_and_ends_the_threads() -> None:
    diarizer = FakeDiarizer(fails_at=5.0)
    listener = Listener(diarizer, NO_LIMITS, "talk.wav")
    assert finishes(lambda: hear(listener, 3600)) == 3600  # the reader is not stopped by it
    assert len(finishes(lambda: listener.turns_until(3.0))) == 3
    for _ in range(2):  # each call raises it
        with pytest.raises(EngineError, match="a network failed"):
            finishes(lambda: listener.turns_until(6.0))
    with pytest.raises(EngineError, match="a network failed"):
        finishes(listener.result)
    assert has_ended(listener)
    assert diarizer.closed.is_set()
    listener.close()


def test_an_error_reaches_a_caller_that_waits() -> None:
    listener = Listener(FakeDiarizer(fails_at=5.0), NO_LIMITS, "talk.wav")
    caught: list[BaseException] = []

    def wait() -> None:
        try:
            listener.result()
        except EngineError as error:
            caught.append(error)

    waiter = threading.Thread(target=wait, daemon=True)
    waiter.start()
    hear(listener, 10)
    waiter.join(LIMIT)
    assert [str(error) for error in caught] == ["talk.wav: a network failed"]
    assert has_ended(listener)


def test_limits_that_the_diarizer_refuses_start_no_thread() -> None:
    before = diarizer_threads()
    with pytest.raises(OptionError, match="at most 9"):
        Listener(FakeDiarizer(), SpeakerLimits(10), "talk.wav")
    assert diarizer_threads() == before


def test_a_diarizer_that_falls_behind_is_an_error() -> None:
    """Segments would wait for turns that never come."""
    listener = Listener(FakeDiarizer(lag=600), NO_LIMITS, "talk.wav")
    hear(listener, 100)
    with pytest.raises(EngineError, match=f"at least every {MAX_LAG:g} s"):
        finishes(lambda: listener.turns_until(1.0))
    assert has_ended(listener)


def test_closing_ends_the_thread_and_all_waits() -> None:
    diarizer = FakeDiarizer()
    listener = Listener(diarizer, NO_LIMITS, "talk.wav")
    source = listener.through(audio(60))
    next(source)
    caught: list[BaseException] = []

    def wait() -> None:
        try:
            listener.turns_until(50.0)
        except ClosedError as error:
            caught.append(error)

    waiter = threading.Thread(target=wait, daemon=True)
    waiter.start()
    listener.close()
    waiter.join(LIMIT)
    assert len(caught) == 1
    assert has_ended(listener)
    assert diarizer.closed.is_set()
    assert sum(1 for _ in source) == 59  # the reader decides itself when it ends
