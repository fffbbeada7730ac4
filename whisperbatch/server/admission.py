"""The limit of requests, and of the requests of one client.

    request ──> admitted(client) ──> upload ──> check_wait(length) ──> transcription
                  429: no place                   429: the wait is too long

A refused request is told when to come back. The estimate only counts time in which the server
worked: an idle hour says nothing about how fast requests end.
"""

import asyncio
import math
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from whisperbatch.server.errors import ApiError, shutting_down
from whisperbatch.submissions import Submitted

RECENT: Final = 20  # requests whose ends give the rate
MAX_RETRY: Final = 120.0  # seconds; OpenAI's clients do not wait longer
FIRST_GUESS: Final = 5.0  # seconds that a request takes, before any request has ended
OWN_SHARE: Final = 0.5  # of the places, for one client


class BusyClock:
    """A clock that runs while something is busy.

    Args:
        now: clock, in seconds.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._busy = 0
        self._since = self._total = 0.0

    def start(self) -> None:
        """Note that something begins."""
        if not self._busy:
            self._since = self._now()
        self._busy += 1

    def stop(self) -> None:
        """Note that something ends."""
        self._busy -= 1
        if not self._busy:
            self._total += self._now() - self._since

    @property
    def seconds(self) -> float:
        """Seconds in which something was busy, until now."""
        return self._total + (self._now() - self._since if self._busy else 0.0)


@dataclass(frozen=True, slots=True)
class Limits:
    """How much the server works on at a time.

    Attributes:
        requests: number of requests that are uploaded, wait, or are transcribed.
        per_client: number of these of one client; None for half of all.
        wait: longest time that a long recording waits for a place, in seconds, as far as it can be
            estimated.
    """

    requests: int
    per_client: int | None = None
    wait: float = math.inf

    @property
    def of_client(self) -> int:
        """Number of requests of one client."""
        return self.per_client or max(int(self.requests * OWN_SHARE), 1)


@dataclass(eq=False)
class Admission:
    """Admits requests up to limits. For one event loop.

    Attributes:
        limits: as configured.
        now: clock, in seconds.
        active: number of admitted requests that have not ended.
        closed: whether the server shuts down, so that new requests are refused.
        cut: set when the requests that have not ended get the status 503.
    """

    limits: Limits
    now: Callable[[], float] = time.monotonic
    active: int = field(default=0, init=False)
    closed: bool = field(default=False, init=False)
    cut: asyncio.Event = field(default_factory=asyncio.Event, init=False)

    def __post_init__(self) -> None:
        self._clients: Counter[str] = Counter()
        self._clock = BusyClock(self.now)
        self._ends: deque[float] = deque(maxlen=RECENT)
        self._refused: deque[float] = deque()

    @contextmanager
    def admitted(self, client: str = "") -> Iterator[None]:
        """Count a request until the end of a `with` block.

        Args:
            client: name of its key, or address.

        Raises:
            ApiError: there is no place (429), or the server shuts down (503).
        """
        if self.closed:
            raise shutting_down()
        if self.active >= self.limits.requests:
            raise busy(f"the server works on {self.active} requests, its limit", self._wait())
        if self._clients[client] >= self.limits.of_client:
            raise busy(
                f"the server works on {self._clients[client]} of your requests, its limit for one "
                "client",
                self._wait(),
                "too_many_requests",
            )
        self.active += 1
        self._clients[client] += 1
        self._clock.start()
        try:
            yield
        finally:
            self._ends.append(self._clock.seconds)
            self._clock.stop()
            self.active -= 1
            self._clients[client] -= 1
            if not self._clients[client]:
                del self._clients[client]

    def check_wait(self, submitted: Submitted) -> None:
        """Refuse a long recording that would wait too long for a place.

        Args:
            submitted: the recordings of its model.

        Raises:
            ApiError: the estimated wait is longer than the limit (429).
        """
        if submitted.long_wait > self.limits.wait:
            raise busy(
                f"a long recording would wait for about {submitted.long_wait:.0f} s; the limit of "
                f"this server is {self.limits.wait:.0f} s",
                submitted.long_wait,
            )

    def _wait(self) -> float:
        """Return the seconds after which a refused request may find a place.

        Requests end at a certain rate. The requests that were refused before this one, and have not
        yet come back, take the next places.
        """
        now = self.now()
        ends = list(self._ends)
        between = FIRST_GUESS / self.limits.requests
        if ends:
            between = (self._clock.seconds - ends[0]) / len(ends)
        while self._refused and self._refused[0] <= now:
            self._refused.popleft()
        wait = min(between * (len(self._refused) + 1), MAX_RETRY)
        self._refused.append(now + wait)
        return wait


def busy(message: str, seconds: float, code: str = "queue_full") -> ApiError:
    """Return the error of a request that should come back later (status 429)."""
    return ApiError(
        429,
        f"{message}; repeat the request later",
        kind="rate_limit_error",
        code=code,
        retry_after=min(seconds, MAX_RETRY),
    )
