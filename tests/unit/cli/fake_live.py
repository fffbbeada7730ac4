"""Live sessions without a model, and their events."""

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator, Mapping
from queue import SimpleQueue
from typing import Any

from typing_extensions import Self

from tests.unit.transcripts import segment
from whisperbatch.errors import BacklogError, ClosedError, EngineError
from whisperbatch.live import Failed, Final, LiveEvent, Settled
from whisperbatch.types import Segment


def final(turn: int, *said: Segment) -> Final:
    return Final(turn, said, complete=True, language="en" if said else None, duration=1.0)


def failed(turn: int, *, complete: bool = True) -> Failed:
    return Failed(turn, EngineError("out of memory"), complete=complete)


class FakeSession:
    """A session that says what it hears: each fed block is a turn with the number of its bytes.

    It is behind for as many calls of `feed` as `refused`, and for those that wait it has room.
    """

    def __init__(self, events: tuple[LiveEvent, ...] = (), *, refused: int = 0) -> None:
        self.fed: list[bytes] = []
        self.cancelled = False
        self._refused = refused
        self._events: SimpleQueue[LiveEvent | None] = SimpleQueue()
        self._closed = threading.Lock()
        for event in events:
            self._events.put(event)

    def feed(self, samples: bytes, *, timeout: float | None = 0.0) -> None:
        if self._refused:
            self._refused -= 1
            if timeout is not None:
                raise BacklogError("is 61 s behind")
        if self._closed.locked():
            raise ClosedError("the session is closed")
        turn = len(self.fed)
        self.fed.append(samples)
        said = segment(f"{len(samples)} bytes.", turn, turn + 1.0, id=turn)
        self._events.put(Settled(turn, f" {said.text}", (), turn, turn + 1.0, "en"))
        self._events.put(final(turn, said))

    async def feed_async(self, samples: bytes, *, timeout: float | None = 0.0) -> None:
        await asyncio.to_thread(self.feed, samples, timeout=timeout)

    def close(self) -> None:
        if self._closed.acquire(blocking=False):
            self._events.put(None)

    def cancel(self) -> None:
        self.cancelled = True
        self.close()

    def __iter__(self) -> Iterator[LiveEvent]:
        while (event := self._events.get()) is not None:
            yield event

    async def __aiter__(self) -> AsyncIterator[LiveEvent]:
        while (event := await asyncio.to_thread(self._events.get)) is not None:
            yield event

    @property
    def duration(self) -> float:
        return float(len(self.fed))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.cancel()


class FakeTranscriber:
    """Returns a session, and notes with what it was opened."""

    def __init__(self, session: FakeSession) -> None:
        self.session = session
        self.given: tuple[Any, ...] = ()
        self.keywords: Mapping[str, Any] = {}

    def live(self, *given: Any, **keywords: Any) -> FakeSession:
        self.given, self.keywords = given, keywords
        return self.session

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass
