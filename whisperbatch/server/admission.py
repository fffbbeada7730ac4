"""The limit of requests, and the limits of each client.

    request ──> admitted ──> upload ──> check_audio, check_wait ──> transcription ──> note_audio

admitted     429: there is no place, or the client has reached a limit
check_audio  429: the recording is longer than the rest of the client's day
check_wait   429: a long recording would wait too long
note_audio   counts the audio of the client's day

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

from whisperbatch.server.clients import Client
from whisperbatch.server.errors import ApiError, shutting_down
from whisperbatch.submissions import Submitted, is_short

RECENT: Final = 20  # requests whose ends give the rate
MAX_RETRY: Final = 120.0  # seconds; OpenAI's clients do not wait longer
FIRST_GUESS: Final = 5.0  # seconds that a request takes, before any request has ended
OWN_SHARE: Final = 0.5  # of the places, for one client
MINUTE: Final = 60.0  # seconds
DAY: Final = 86_400.0  # seconds
NOBODY: Final = Client()


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

    def of_client(self, client: Client) -> int:
        """Return the number of requests of a client."""
        return client.requests or self.per_client or max(int(self.requests * OWN_SHARE), 1)


@dataclass(slots=True)
class _Usage:
    """What a client with limits has used.

    Attributes:
        begins: times at which requests began, in the last minute, in seconds.
        day: number of the day (UTC) since 1970.
        audio: seconds of audio of this day.
    """

    begins: deque[float] = field(default_factory=deque)
    day: int = 0
    audio: float = 0.0


@dataclass(eq=False)
class Admission:
    """Admits requests up to limits. For one event loop.

    Attributes:
        limits: as configured.
        now: clock, in seconds.
        today: clock of the days, in seconds since 1970.
        active: number of admitted requests that have not ended.
        closed: whether the server shuts down, so that new requests are refused.
        cut: set when the requests that have not ended get the status 503.
    """

    limits: Limits
    now: Callable[[], float] = time.monotonic
    today: Callable[[], float] = time.time
    active: int = field(default=0, init=False)
    closed: bool = field(default=False, init=False)
    cut: asyncio.Event = field(default_factory=asyncio.Event, init=False)

    def __post_init__(self) -> None:
        self._active: Counter[str] = Counter()
        # by the name of the client, because it outlives a reload of keys
        self._used: dict[str, _Usage] = {}
        self._clock = BusyClock(self.now)
        self._ends: deque[float] = deque(maxlen=RECENT)
        self._refused: dict[str | None, deque[float]] = {}  # when requests come back

    @contextmanager
    def admitted(self, client: Client = NOBODY) -> Iterator[None]:
        """Count a request until the end of a `with` block.

        Args:
            client: who sends it.

        Raises:
            ApiError: there is no place, or the client has reached a limit (429), or the server
                shuts down (503).
        """
        self._check_running()
        if self.active >= self.limits.requests:
            raise busy(f"the server works on {self.active} requests, its limit", self._wait())
        name = client.name
        if self._active[name] >= self.limits.of_client(client):
            raise busy(
                f"the server works on {self._active[name]} of your requests, its limit for you",
                self._wait(name),
                "too_many_requests",
            )
        self.check_audio(client)
        self._begin(client)
        self.active += 1
        self._active[name] += 1
        self._clock.start()
        try:
            yield
        finally:
            self._ends.append(self._clock.seconds)
            self._clock.stop()
            self.active -= 1
            self._active[name] -= 1
            if not self._active[name]:
                del self._active[name]

    def begin(self, client: Client) -> None:
        """Count the beginning of something that takes no place: a live session.

        Args:
            client: who begins it.

        Raises:
            ApiError: the client has reached a limit of its requests in a minute or its audio of the
                day (429), or the server shuts down (503).
        """
        self._check_running()
        self.check_audio(client)
        self._begin(client)

    def note_audio(self, client: Client, seconds: float) -> None:
        """Count audio that was transcribed for a client."""
        if client.audio_per_day is not None:
            self._used_today(client).audio += seconds

    def check_audio(self, client: Client, length: float = 0.0) -> None:
        """Refuse a recording that is longer than the rest of the client's day.

        Args:
            client: who sends it.
            length: of the recording, in seconds, as far as it is known.

        Raises:
            ApiError: the client has reached its limit (429).
        """
        if client.audio_per_day is None:
            return
        rest = client.audio_per_day - self._used_today(client).audio
        if rest <= 0 or length > rest:
            raise ApiError(
                429,
                f"your limit is {client.audio_per_day:.0f} s of audio a day (UTC), of which "
                f"{max(rest, 0):.0f} s are left",
                kind="rate_limit_error",
                code="audio_limit_reached",
                retry_after=DAY - self.today() % DAY,
                may_retry=False,
            )

    def _check_running(self) -> None:
        if self.closed:
            raise shutting_down()

    def _used_today(self, client: Client) -> _Usage:
        used = self._used.setdefault(client.name, _Usage())
        if used.day != (day := int(self.today() // DAY)):
            used.day, used.audio = day, 0.0
        return used

    def _begin(self, client: Client) -> None:
        """Count a request that begins, if the number in a minute is limited.

        Raises:
            ApiError: the client has reached its limit (429).
        """
        if client.requests_per_minute is None:
            return
        now, begins = self.now(), self._used_today(client).begins
        while begins and begins[0] <= now - MINUTE:
            begins.popleft()
        if len(begins) >= client.requests_per_minute:
            raise busy(
                f"your limit is {client.requests_per_minute} requests a minute",
                begins[0] + MINUTE - now,
                "rate_limit_reached",
            )
        begins.append(now)

    def check_length(self, client: Client, length: float | None, submitted: Submitted) -> None:
        """Check a recording before its transcription; if it is long, also the wait.

        Args:
            client: of the recording.
            length: of the recording in seconds; None if it is not known.
            submitted: the recordings of its model.

        Raises:
            ApiError: the client has too little audio left, or the wait would be too long (429).
        """
        self.check_audio(client, length or 0.0)
        if not is_short(length):
            self.check_wait(submitted)

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

    def _wait(self, client: str | None = None) -> float:
        """Return the seconds after which a refused request may find a place.

        Requests end at a certain rate. The requests that were refused before this one, and have not
        yet come back, take the next places.

        Args:
            client: whose own limit is reached; None if that of the server is.
        """
        now = self.now()
        ends = list(self._ends)
        between = FIRST_GUESS / self.limits.requests
        if ends:
            between = (self._clock.seconds - ends[0]) / len(ends)
        for each, times in list(self._refused.items()):
            while times and times[0] <= now:
                times.popleft()
            if not times:
                del self._refused[each]
        refused = self._refused.setdefault(client, deque())
        wait = min(between * (len(refused) + 1), MAX_RETRY)
        refused.append(now + wait)
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
