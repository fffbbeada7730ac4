"""How many live sessions are open, in all and for each client."""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Final

from whisperbatch.server.admission import OWN_SHARE, Admission, busy
from whisperbatch.server.clients import Client

REST: Final = 3.0  # a quarter of one CPU hears such audio
RETRY_AFTER: Final = 30.0  # seconds; nobody knows when a person stops speaking


class Sessions:
    """The places of live sessions. For one event loop.

    Args:
        admission: of the server: its shutdown, and the limits of its clients.
        most: number of sessions that are open at a time.

    Attributes:
        active: number of open sessions.
        lags: each returns the lag of an open session, in seconds.
    """

    def __init__(self, admission: Admission, most: int) -> None:
        self.admission = admission
        self.active = 0
        self.lags: set[Callable[[], float]] = set()
        self._hearing = asyncio.Lock()
        self._most = most
        self._active: Counter[str] = Counter()

    @property
    def lag(self) -> float:
        """The largest lag of the open sessions, in seconds."""
        return max((lag() for lag in self.lags), default=0.0)

    @asynccontextmanager
    async def in_turn(self) -> AsyncIterator[None]:
        """Wait for the turn of audio that arrived faster than it can be spoken.

        One piece is heard at a time. If other sessions are open, the CPU then rests from such audio
        for `REST` times as long, so that recordings do not delay people who speak.
        """
        async with self._hearing:
            began = time.monotonic()
            yield
            if self.active > 1:
                await asyncio.sleep(REST * (time.monotonic() - began))

    @contextmanager
    def opened(self, client: Client) -> Iterator[None]:
        """Count a session until the end of a `with` block.

        Args:
            client: who opens it.

        Raises:
            ApiError: there is no place, or the client has reached a limit (429), or the server
                shuts down (503).
        """
        name = client.name
        if self.active >= self._most:
            raise busy(f"the server has {self.active} live sessions, its limit", RETRY_AFTER)
        limit = client.requests or max(int(self._most * OWN_SHARE), 1)
        if self._active[name] >= limit:
            raise busy(
                f"the server has {self._active[name]} of your live sessions, its limit for you",
                RETRY_AFTER,
                "too_many_requests",
            )
        self.admission.begin(client)
        self.active += 1
        self._active[name] += 1
        try:
            yield
        finally:
            self.active -= 1
            self._active[name] -= 1
            if not self._active[name]:
                del self._active[name]
