"""The requests that the server works on: their limit, and the time until the next has a place."""

import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from whisperbatch.server.errors import ApiError, unavailable

RECENT: Final = 20  # requests whose ends give the rate
MAX_WAIT: Final = 120.0  # seconds; OpenAI's clients do not wait longer
FIRST_GUESS: Final = 5.0  # seconds from one end to the next, before any request has ended


class Admission:
    """Admits requests up to a limit. For one event loop.

    Args:
        limit: number of requests that are uploaded, wait, or are transcribed.
        now: clock, in seconds.

    Attributes:
        active: number of admitted requests that have not ended.
        closed: whether the server shuts down, so that new requests are refused.
    """

    def __init__(self, limit: int, now: Callable[[], float] = time.monotonic) -> None:
        self._limit = limit
        self._now = now
        self.active = 0
        self.closed = False
        self._ends: deque[float] = deque(maxlen=RECENT)
        self._refused: deque[float] = deque()

    @contextmanager
    def admitted(self) -> Iterator[None]:
        """Count a request until the end of a `with` block.

        Raises:
            ApiError: there is no place (429), or the server shuts down (503).
        """
        if self.closed:
            raise unavailable("the server is shutting down")
        if self.active >= self._limit:
            raise ApiError(
                429,
                f"the server works on {self.active} requests, its limit; repeat the request later",
                kind="rate_limit_error",
                code="queue_full",
                retry_after=self._wait(),
            )
        self.active += 1
        try:
            yield
        finally:
            self.active -= 1
            self._ends.append(self._now())

    def _wait(self) -> float:
        """Return the seconds after which a refused request may find a place.

        Requests end at a certain rate. The requests that were refused before this one, and have not
        yet come back, take the next places.
        """
        now = self._now()
        ends = list(self._ends)
        between = (now - ends[0]) / len(ends) if ends else FIRST_GUESS
        while self._refused and self._refused[0] <= now:
            self._refused.popleft()
        wait = min(between * (len(self._refused) + 1), MAX_WAIT)
        self._refused.append(now + wait)
        return wait


class Places:
    """A number of places that can be taken. For one event loop.

    Args:
        free: number of places.
    """

    def __init__(self, free: int) -> None:
        self._free = free

    def take(self) -> bool:
        """Take a place, and return whether there was one."""
        if not self._free:
            return False
        self._free -= 1
        return True

    def give_back(self) -> None:
        """Give a place back."""
        self._free += 1
