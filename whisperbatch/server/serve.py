"""The command `whisperbatch serve`: run the server until it is stopped.

SIGTERM refuses new work with the status 503, and waits for the running work, at most
`shutdown_timeout`. The requests that have not ended then get the status 503, streams an event with
an error, and the process ends. Ctrl-C, and the second SIGTERM, do not wait. SIGHUP reads the keys
and the certificate again.
"""

import asyncio
import json
import logging
import os
import signal
import socket
import ssl
import sys
import time
import uuid
from collections.abc import Sequence
from types import FrameType
from typing import Final, Literal, get_args, get_origin

import h11
import uvicorn
from pydantic import ValidationError
from pydantic_settings import CliApp
from uvicorn.protocols.http.h11_impl import H11Protocol

import whisperbatch as wb
from whisperbatch.options import metavar_of, without_none
from whisperbatch.server.app import Server
from whisperbatch.server.channel import SETTINGS, Channel
from whisperbatch.server.errors import ApiError
from whisperbatch.server.listening import addresses, listen
from whisperbatch.server.logs import configure_logging
from whisperbatch.server.settings import ServerSettings

LAST_ANSWERS: Final = 5  # seconds for answers that are being sent
HEADER_TIME: Final = 30.0  # seconds for the headers of a request

log = logging.getLogger(__name__)


def serve(arguments: Sequence[str]) -> None:
    """Run the server until it is stopped.

    Args:
        arguments: the flags.

    Raises:
        OptionError: a flag, variable or file of the settings is wrong, or an address is in use.
        WhisperBatchError: a model cannot be loaded.
    """
    settings = settings_of(arguments)
    configure_logging(settings.log_format, settings.log_level)
    settings.check()
    server = Server(settings)
    for warning in settings.warnings():
        log.warning("%s", warning)
    config = config_of(server)
    config.load()
    if settings.tls_cert:
        config.ssl = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        read_certificate(config.ssl, settings)
    listeners = listen(settings)
    if hasattr(signal, "SIGHUP"):  # not on Windows
        signal.signal(signal.SIGHUP, lambda *_: _reload(server, config.ssl))
    try:
        _Uvicorn(config, server).run(listeners)
    finally:
        if settings.uds:
            settings.uds.unlink(missing_ok=True)
    if server.failure:
        raise server.failure
    if server.admission.cut.is_set():
        # Python would wait for the running calls of the engine, whose results nobody needs
        logging.shutdown()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)


def config_of(server: Server) -> uvicorn.Config:
    """Return how Uvicorn runs a server."""
    return uvicorn.Config(
        server.app,
        http=Connection,
        ws=Channel,
        **SETTINGS,
        timeout_graceful_shutdown=LAST_ANSWERS,
        server_header=False,
        log_config=None,
        access_log=False,
        # only programs that may open the Unix socket send to it
        forwarded_allow_ips="*" if server.settings.uds else None,
    )


def flag_texts() -> dict[str, tuple[str, str]]:
    """Return the name of each setting, with the form of its value, and what it does."""
    texts: dict[str, tuple[str, str]] = {}
    for name, field in ServerSettings.model_fields.items():
        value_type = without_none(field.annotation)
        is_choice = get_origin(value_type) is Literal
        value = "|".join(get_args(value_type)) if is_choice else metavar_of(value_type)
        given = field.default not in (None, "", "{}", False)
        default = f" Default: {field.default}." if given else ""
        text = (field.description or "").replace("`", "")
        texts[name] = (
            value if value_type is not bool else "",
            f"{text[:1].upper()}{text[1:]}{default}",
        )
    return texts


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


def read_certificate(context: ssl.SSLContext, settings: ServerSettings) -> None:
    """Give the certificate of the settings to all later connections.

    Raises:
        OptionError: the certificate or its key cannot be used.
    """
    if settings.tls_cert:
        try:
            # the empty password: a key with a password is an error, not a question at the terminal
            context.load_cert_chain(settings.tls_cert, settings.tls_key, "")
        except OSError as error:
            raise wb.OptionError(f"tls_cert and tls_key cannot be used: {error}") from error


def _reload(server: Server, tls: ssl.SSLContext | None) -> None:
    """Read the keys and the certificate again; running requests and connections go on."""
    server.reload_keys()
    if tls:
        try:
            read_certificate(tls, server.settings)
        except wb.OptionError as error:
            log.error("the certificate is not reloaded: %s", error)  # noqa: TRY400 - the user's error


class _Flags(ServerSettings):
    """Serve transcriptions over HTTP, with OpenAI's API.

    Each flag can also be a variable: WHISPERBATCH_PORT=8080.
    """


class Connection(H11Protocol):
    """A connection for HTTP. It differs from Uvicorn's in two ways.

    The answer to something that is not HTTP has the form of all errors. A client that does not send
    the headers of a request in time is disconnected; Uvicorn would wait for ever.
    """

    _headers_due: asyncio.TimerHandle | None = None
    _is_socket = False

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        """Give the connection to a `Channel`."""
        self._is_socket = True
        super().handle_websocket_upgrade(event)

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
        request_id = f"req_{uuid.uuid4().hex}"
        client = self.client[0] if self.client else ""
        values = {"request_id": request_id, "client": client, "status": 400, "code": "invalid_http"}
        log.info("request", extra={"values": values})
        if not cycle or not cycle.response_started or cycle.response_complete:
            body = json.dumps(ApiError(400, msg, code="invalid_http").body).encode()
            head = (
                "HTTP/1.1 400 Bad Request",
                f"x-request-id: {request_id}",
                "content-type: application/json",
                f"content-length: {len(body)}",
                "connection: close",
            )
            self.transport.write("\r\n".join((*head, "", "")).encode() + body)
        self.transport.close()

    def _watch(self) -> None:
        """Start or stop the clock for the headers of the next request."""
        waiting = not self._is_socket and (not self.cycle or self.cycle.response_complete)
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

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to answer, and log the addresses."""
        await super().startup(sockets)
        for address in addresses(self._server.settings, sockets or []):
            log.info("Uvicorn running on %s (Press CTRL+C to quit)", address)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Refuse new work at the first signal; do not wait at Ctrl-C, or the second signal."""
        del frame
        if self._deadline is not None:
            self._server.admission.cut.set()
            self.should_exit = True
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
            if is_over and self._server.active:
                self._server.admission.cut.set()
            self.should_exit |= is_over or not self._server.active
        self.should_exit |= self._server.failure is not None
        return await super().on_tick(counter)
