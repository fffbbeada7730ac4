"""The connections of WebSockets: limits of memory and time that Uvicorn does not have.

    client ──> frames ──> Channel ──> ASGI ──> realtime
    client <── frames <── Channel <── ASGI <──

A client that does not read what the server sends would keep its connection, and what waits for it,
for ever. It is disconnected after `WRITE_TIME`.
"""

import logging
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

if TYPE_CHECKING:
    import asyncio

WRITE_TIME: Final = 30.0  # seconds in which a client must read what waits for it
MAX_MESSAGE: Final = 16 * 2**20  # bytes of a message
PONG_TIME: Final = 120.0  # seconds for the answer to a ping: audio may wait to be read

SETTINGS: Final[Mapping[str, Any]] = MappingProxyType(
    {
        "ws_max_size": MAX_MESSAGE,
        "ws_max_queue": 2,
        "ws_per_message_deflate": False,
        "ws_ping_timeout": PONG_TIME,
    }
)
"""Settings of Uvicorn for WebSockets. A compressed message could be much larger than its frames."""

log = logging.getLogger(f"{__name__}.uvicorn")
log.setLevel(logging.WARNING)  # at the level INFO, the query of each handshake would be logged


class Channel(WebSocketsSansIOProtocol):
    """A WebSocket. It ends when its client does not read for `WRITE_TIME`.

    Args:
        *arguments: as Uvicorn's.
        **settings: as Uvicorn's.
    """

    def __init__(self, *arguments: Any, **settings: Any) -> None:  # noqa: ANN401 - as Uvicorn's
        super().__init__(*arguments, **settings)
        self.logger = self.conn.logger = log
        self._reading_due: asyncio.TimerHandle | None = None

    def pause_writing(self) -> None:
        """See `asyncio.Protocol`: more waits for the client than the transport should keep."""
        super().pause_writing()
        if self._reading_due is None:
            self._reading_due = self.loop.call_later(WRITE_TIME, self._give_up)

    def resume_writing(self) -> None:
        """See `asyncio.Protocol`: the client has read."""
        super().resume_writing()
        self._forget()

    def connection_lost(self, exc: Exception | None) -> None:
        """See `asyncio.Protocol`."""
        super().connection_lost(exc)
        self._forget()

    def _forget(self) -> None:
        if self._reading_due is not None:
            self._reading_due.cancel()
            self._reading_due = None

    def _give_up(self) -> None:
        self._reading_due = None
        self.transport.abort()
