"""The command `whisperbatch serve`: run the server until it is stopped.

The first SIGTERM or Ctrl-C refuses new work with the status 503, and waits for the running work, at
most `shutdown_timeout`. The requests that have not ended then get the status 503, streams an event
with an error, and the process ends. The second signal ends the server at once. SIGHUP reads the
keys again.
"""

import asyncio
import json
import logging
import os
import signal
import sys
import time
import uuid
from collections.abc import Sequence
from types import FrameType
from typing import Final

import uvicorn
from pydantic import ValidationError
from pydantic_settings import CliApp
from uvicorn.protocols.http.h11_impl import H11Protocol

import whisperbatch as wb
from whisperbatch.server.app import Server
from whisperbatch.server.errors import ApiError
from whisperbatch.server.settings import ServerSettings

LAST_ANSWERS: Final = 5  # seconds for answers that are being sent
HEADER_TIME: Final = 30.0  # seconds for the headers of a request


def serve(arguments: Sequence[str]) -> None:
    """Run the server until it is stopped.

    Args:
        arguments: the flags.

    Raises:
        OptionError: a flag, variable or file of the settings is wrong.
        WhisperBatchError: a model cannot be loaded.
    """
    server = Server(settings_of(arguments))
    config = uvicorn.Config(
        server.app,
        host=server.settings.host,
        port=server.settings.port,
        http=Connection,
        timeout_graceful_shutdown=LAST_ANSWERS,
        server_header=False,
        log_level="info",
    )
    if hasattr(signal, "SIGHUP"):  # not on Windows
        signal.signal(signal.SIGHUP, lambda *_: server.reload_keys())
    _Uvicorn(config, server).run()
    if server.failure:
        raise server.failure
    if server.admission.cut.is_set():
        # Python would wait for the running calls of the engine, whose results nobody needs
        logging.shutdown()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)


def settings_of(arguments: Sequence[str]) -> ServerSettings:
    """Return the settings from flags and variables.

    Raises:
        OptionError: a flag or variable is wrong.
    """
    try:
        return CliApp.run(_Flags, cli_args=list(arguments))
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(str(part) for part in first["loc"])
        raise wb.OptionError(f"{name}: {first['msg']}") from error


class _Flags(ServerSettings):
    """Serve transcriptions over HTTP, with OpenAI's API.

    Each flag can also be a variable: WHISPERBATCH_PORT=8080.
    """


class Connection(H11Protocol):
    """A connection. It differs from Uvicorn's in two ways.

    The answer to something that is not HTTP has the form of all errors. A client that does not send
    the headers of a request in time is disconnected; Uvicorn would wait for ever.
    """

    _headers_due: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as Uvicorn's
        """See `asyncio.Protocol`."""
        super().connection_made(transport)
        self._watch()

    def data_received(self, data: bytes) -> None:
        """See `asyncio.Protocol`."""
        super().data_received(data)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """See `asyncio.Protocol`."""
        super().connection_lost(exc)
        if self._headers_due:
            self._headers_due.cancel()

    def send_400_response(self, msg: str) -> None:
        """Answer a request that is not HTTP, and close the connection."""
        cycle = self.cycle
        if not cycle or not cycle.response_started or cycle.response_complete:
            body = json.dumps(ApiError(400, msg, code="invalid_http").body).encode()
            head = (
                "HTTP/1.1 400 Bad Request",
                f"x-request-id: req_{uuid.uuid4().hex}",
                "content-type: application/json",
                f"content-length: {len(body)}",
                "connection: close",
            )
            self.transport.write("\r\n".join((*head, "", "")).encode() + body)
        self.transport.close()

    def _watch(self) -> None:
        """Start or stop the clock for the headers of the next request."""
        waiting = not self.cycle or self.cycle.response_complete
        if waiting and not self._headers_due:
            self._headers_due = self.loop.call_later(HEADER_TIME, self._close_waiting)
        elif not waiting and self._headers_due:
            self._headers_due.cancel()
            self._headers_due = None

    def _close_waiting(self) -> None:
        self._headers_due = None
        if not self.cycle or self.cycle.response_complete:
            self.transport.close()


class _Uvicorn(uvicorn.Server):
    """Uvicorn, which finishes the running work before it stops."""

    def __init__(self, config: uvicorn.Config, server: Server) -> None:
        super().__init__(config)
        self._server = server
        self._deadline: float | None = None

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Refuse new work at the first signal; end at the second."""
        del frame
        if self._deadline is not None:
            self.should_exit = self.force_exit = True
            return
        self._deadline = time.monotonic() + self._server.settings.shutdown_timeout
        self._server.admission.closed = True
        if sig == signal.SIGINT:
            self._deadline = time.monotonic()

    async def on_tick(self, counter: int) -> bool:
        """Stop if a model cannot be loaded; after a signal, stop when the work has ended.

        Uvicorn calls this method ten times a second.
        """
        if self._server.failure:
            self.should_exit = True
        if self._deadline is not None:
            is_over = time.monotonic() >= self._deadline
            if is_over and self._server.admission.active:
                self._server.admission.cut.set()
            self.should_exit |= is_over or not self._server.admission.active
        self.should_exit |= self._server.failure is not None
        return await super().on_tick(counter)
