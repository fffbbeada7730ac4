"""What happens to every request before and after its route, and the limit of requests.

id        every answer has an `x-request-id`
keys      a wrong or missing key gets the status 401
size      a body that states a size above the limit gets the status 413 before it is read
errors    an unexpected exception gets the status 500, with its cause
metrics   every answer is counted
limit     a request above the limit gets the status 429, and the time until it may have a place
"""

import asyncio
import hmac
import re
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Final

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from whisperbatch.server.errors import ApiError, as_api_error, response_of, unavailable
from whisperbatch.server.metrics import Metrics
from whisperbatch.server.uploads import FORM_BYTES, too_large

CHECKS: Final = ("/", "/health", "/ready")
PUBLIC: Final = tuple((method, path) for method in ("GET", "HEAD") for path in CHECKS)
"""Requests that need no key: containers and load balancers send them."""

BASE64_SIZE: Final = 4 / 3  # of a file in base64, compared with the file
JSON_BYTES: Final = 2_000_000  # of a JSON body, beside the recording
DROP_TIME: Final = 10.0  # seconds for the rest of a body whose answer is known
REQUEST_ID: Final = re.compile(r"[\w.:-]{1,128}", re.ASCII)
RECENT: Final = 20  # requests whose ends give the rate
MAX_WAIT: Final = 120.0  # seconds; OpenAI's clients do not wait longer
FIRST_GUESS: Final = 5.0  # seconds from one end to the next, before any request has ended


class Guard:
    """An ASGI application around the routes.

    Args:
        app: the routes.
        keys: keys that clients may send; none if no key is needed.
        max_bytes: limit of a file's size.
        metrics: counts the answers.
    """

    def __init__(self, app: ASGIApp, keys: Iterable[str], max_bytes: int, metrics: Metrics) -> None:
        self._app = app
        self._keys = [key.encode() for key in keys]
        self._max_bytes = max_bytes
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request; see the ASGI specification."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        given = headers.get("x-request-id", "")
        request_id = given if REQUEST_ID.fullmatch(given) else f"req_{uuid.uuid4().hex}"
        started = time.perf_counter()
        has_body = "transfer-encoding" in headers or headers.get("content-length", "0") != "0"
        answering = _Answering(receive, send, request_id, has_body=has_body)
        try:
            self._check(scope, headers)
            await self._app(scope, answering.receive, answering.send)
        except Exception as error:
            if answering.status is None:  # raised by `_check`
                answer = as_api_error(error)
                self._metrics.errors.labels(answer.code or "none").inc()
                await response_of(answer)(scope, answering.receive, answering.send)
            elif not answering.complete:
                raise
        finally:
            self._count(scope, answering.status, started)

    def _check(self, scope: Scope, headers: Headers) -> None:
        """Check the key and the size of a request.

        Raises:
            ApiError: the key is wrong, or the body is too large.
        """
        is_public = scope["method"] == "OPTIONS" or (scope["method"], scope["path"]) in PUBLIC
        if self._keys and not is_public:
            self._check_key(headers)
        length = headers.get("content-length", "")
        is_json = headers.get("content-type", "").startswith("application/json")
        more = JSON_BYTES if is_json else FORM_BYTES
        limit = self._max_bytes * (BASE64_SIZE if is_json else 1) + more
        if length.isdecimal() and int(length[:20]) > limit:
            raise too_large(self._max_bytes)

    def _check_key(self, headers: Headers) -> None:
        scheme, _, key = headers.get("authorization", "").partition(" ")
        given = key.strip().encode() if scheme.lower() == "bearer" else b""
        # all keys are compared, so that the time does not depend on the key
        matches = [hmac.compare_digest(given, known) for known in self._keys]
        if not any(matches):
            raise ApiError(
                401,
                "the API key is wrong" if given else "send an API key: Authorization: Bearer KEY",
                code="invalid_api_key",
            )

    def _count(self, scope: Scope, status: int | None, started: float) -> None:
        path = getattr(scope.get("route"), "path", "other")
        self._metrics.requests.labels(path, str(status or "none")).inc()
        if scope["method"] == "POST":
            self._metrics.duration.observe(time.perf_counter() - started)


class _Answering:
    """The messages of a request and its answer.

    An answer that is sent before the whole body has arrived ends only when the rest has been
    received and dropped, within limits. If the connection were closed at once, many clients would
    report a broken connection instead of the answer. Then the connection is closed: a client that
    goes on sending would keep it open for ever.
    """

    def __init__(self, receive: Receive, send: Send, request_id: str, *, has_body: bool) -> None:
        self._receive, self._send = receive, send
        self._request_id = request_id
        self._received = not has_body  # the whole body, or the client is gone
        self.status: int | None = None
        self.complete = False

    async def receive(self) -> Message:
        """Return the next message of the client."""
        message = await self._receive()
        self._received |= not message.get("more_body", False)
        return message

    async def send(self, message: Message) -> None:
        """Send a message, with the id of the request."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = MutableHeaders(scope=message)
            headers["x-request-id"] = self._request_id
            if not self._received:
                headers["connection"] = "close"
        elif not message.get("more_body", False):
            if not self._received:
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
