"""What happens to every request before and after its route.

keys      a wrong or missing key gets the status 401
browser   without keys, a request of a web page that is not allowed gets the status 403
size      a body that states a size above the limit gets the status 413 before it is read
errors    an unexpected exception gets the status 500, with its cause

A WebSocket is refused in the same way, by the HTTP answer to its handshake. Browsers cannot send
headers with a handshake: their key is in a subprotocol.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from whisperbatch.server.browsers import Browsers
from whisperbatch.server.clients import SECRET_PREFIX, Client, Keys
from whisperbatch.server.errors import ApiError, as_api_error, response_of, shutting_down
from whisperbatch.server.metrics import Metrics
from whisperbatch.server.page import PATHS
from whisperbatch.server.records import RECORD, Record
from whisperbatch.server.uploads import FORM_BYTES, too_large

CHECKS: Final = ("/", "/health", "/ready")
PUBLIC: Final = tuple((method, path) for method in ("GET", "HEAD") for path in (*CHECKS, *PATHS))
"""Requests that need no key: containers and load balancers send them, and browsers for the page."""
WITH_ADMIN_KEY: Final = ("/api/load", "/api/unload")
"""Paths that check a key of their own: see `administration`."""

BASE64_SIZE: Final = 4 / 3  # of a file in base64, compared with the file
JSON_BYTES: Final = 2_000_000  # of a JSON body, beside the recording
LAST_EVENT: Final = 0.5  # seconds in which a stream sends its error, when the server is cut
DROP_TIME: Final = 10.0  # seconds for the rest of a body whose answer is known
KEY_PROTOCOL: Final = "openai-insecure-api-key."  # before the key, in a subprotocol


class Guard:
    """An ASGI application around the routes.

    Args:
        app: the routes.
        keys: keys that clients may send; none if no key is needed. They may be replaced.
        browsers: the web pages that may send requests, if no key is needed.
        max_bytes: limit of a file's size.
        metrics: counts the errors.
        cut: set when requests that have not ended get the status 503.
        secrets: returns the client of a short-lived key of live sessions; None for other keys.

    Attributes:
        keys: as given.
    """

    def __init__(
        self,
        app: ASGIApp,
        keys: Keys,
        *,
        browsers: Browsers,
        max_bytes: int,
        metrics: Metrics,
        cut: asyncio.Event,
        secrets: Callable[[bytes, Client], Client | None] = lambda *_: None,
    ) -> None:
        self._app = app
        self.keys = keys
        self._secrets = secrets
        self._browsers = browsers
        self._max_bytes = max_bytes
        self._metrics = metrics
        self._cut = cut

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request; see the ASGI specification."""
        if scope["type"] == "websocket":
            await self._open_socket(scope, receive, send)
            return
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        record: Record = scope[RECORD]
        has_body = "transfer-encoding" in headers or headers.get("content-length", "0") != "0"
        answering = _Answering(receive, send, self._cut, has_body=has_body)
        try:
            self._check(scope, headers, record)
            await self._run(scope, answering)
        except Exception as error:
            if answering.status is None:  # raised by `_check` or at the end of the server
                answer = as_api_error(error)
                self._metrics.errors.labels(answer.code or "none").inc()
                record.code = answer.code
                await response_of(answer)(scope, answering.receive, answering.send)
            elif not answering.complete:
                raise

    async def _run(self, scope: Scope, answering: "_Answering") -> None:
        """Let the routes answer, until the server has no more time.

        Raises:
            ApiError: the server shuts down.
            Exception: as a route raised it.
        """
        answer = asyncio.ensure_future(self._app(scope, answering.receive, answering.send))
        cut = asyncio.ensure_future(self._cut.wait())
        try:
            await asyncio.wait({answer, cut}, return_when=asyncio.FIRST_COMPLETED)
            if not answer.done():
                await asyncio.wait({answer}, timeout=LAST_EVENT)
            if answer.done():
                return answer.result()
            answer.cancel()
            await asyncio.wait({answer}, timeout=LAST_EVENT)
            if answering.status is None:
                raise shutting_down()
        finally:
            answer.cancel()
            cut.cancel()
        return None

    async def _open_socket(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a route open a WebSocket, or answer its handshake with an error."""
        headers = Headers(scope=scope)
        record: Record = scope[RECORD]
        is_answered = False

        async def send_noted(message: Message) -> None:
            nonlocal is_answered
            if message["type"] == "websocket.close" and not is_answered:  # of an unknown path
                raise ApiError(404, "there is no WebSocket at this path", code="not_found")
            is_answered = True
            await send(message)

        try:
            key = key_of(headers)
            if client := self._secrets(key, record.client):
                record.client = client
            elif self.keys:
                self._check_key(key, record)
            else:
                self._browsers.check(headers)
            await self._app(scope, receive, send_noted)
        except Exception as error:
            if is_answered:
                raise
            await refuse(as_api_error(error), self._metrics, scope, receive, send)

    def _check(self, scope: Scope, headers: Headers, record: Record) -> None:
        """Check the key and the size of a request, and note its client.

        Raises:
            ApiError: the key is wrong, the web page may not send requests, or the body is too
                large.
        """
        path = scope["path"].removeprefix(scope["root_path"])
        is_public = scope["method"] == "OPTIONS" or (scope["method"], path) in PUBLIC
        if not self.keys:
            self._browsers.check(headers)
        elif not is_public and path not in WITH_ADMIN_KEY:
            self._check_key(key_in_header(headers), record)
        length = headers.get("content-length", "")
        is_json = headers.get("content-type", "").startswith("application/json")
        more = JSON_BYTES if is_json else FORM_BYTES
        limit = self._max_bytes * (BASE64_SIZE if is_json else 1) + more
        if length.isdecimal() and int(length[:20]) > limit:
            raise too_large(self._max_bytes)

    def _check_key(self, given: bytes, record: Record) -> None:
        client = self.keys.find(given)
        if client is None:
            message = "send an API key: Authorization: Bearer KEY"
            if given.startswith(SECRET_PREFIX.encode()):
                message = "a client secret opens live sessions only"
            elif given:
                message = "the API key is wrong"
            raise ApiError(401, message, code="invalid_api_key")
        record.client = client


async def refuse(
    answer: ApiError, metrics: Metrics, scope: Scope, receive: Receive, send: Send
) -> None:
    """Answer the handshake of a WebSocket with an error.

    Args:
        answer: the error.
        metrics: counts the error.
        scope: of ASGI.
        receive: of ASGI.
        send: of ASGI.
    """
    record: Record = scope[RECORD]
    record.code = answer.code
    metrics.errors.labels(answer.code or "none").inc()
    if "websocket.http.response" in scope.get("extensions", {}):
        await response_of(answer)(scope, receive, send)
    else:
        await send({"type": "websocket.close"})  # the client gets the status 403


def subprotocols_of(headers: Headers) -> list[str]:
    """Return the subprotocols that a handshake offers."""
    given = ",".join(headers.getlist("sec-websocket-protocol"))
    return [name.strip() for name in given.split(",") if name.strip()]


def key_in_header(headers: Headers) -> bytes:
    """Return the key of the header `Authorization`; empty if there is none."""
    scheme, _, key = headers.get("authorization", "").encode("latin-1").partition(b" ")
    return key.strip() if scheme.lower() == b"bearer" else b""


def key_of(headers: Headers) -> bytes:
    """Return the key of a handshake, in a header or a subprotocol; empty if there is none."""
    offered = subprotocols_of(headers)
    keys = (name[len(KEY_PROTOCOL) :] for name in offered if name.startswith(KEY_PROTOCOL))
    return key_in_header(headers) or next(keys, "").encode("latin-1")


class _Answering:
    """The messages of a request and its answer.

    An answer that is sent before the whole body has arrived ends only when the rest has been
    received and dropped, within limits. If the connection were closed at once, many clients would
    report a broken connection instead of the answer. Then the connection is closed: a client that
    goes on sending would keep it open for ever.
    """

    def __init__(self, receive: Receive, send: Send, cut: asyncio.Event, *, has_body: bool) -> None:
        self._receive, self._send, self._cut = receive, send, cut
        self._received = not has_body  # the whole body, or the client is gone
        self.status: int | None = None
        self.complete = False

    async def receive(self) -> Message:
        """Return the next message of the client."""
        message = await self._receive()
        self._received |= not message.get("more_body", False)
        return message

    async def send(self, message: Message) -> None:
        """Send a message."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            if not self._received:
                MutableHeaders(scope=message)["connection"] = "close"
        elif not message.get("more_body", False):
            if not self._received and not self._cut.is_set():
                await self._send({**message, "more_body": True})
                await self._drop_rest()
                message = {"type": "http.response.body"}
            self.complete = True
        await self._send(message)

    async def _drop_rest(self) -> None:
        with suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._receive_all(), DROP_TIME)

    async def _receive_all(self) -> None:
        while not self._received:
            await self.receive()
