"""What is known about each request: its id, its line in the log, its figures, its span.

request ──> Recorder ──> cors ──> guard ──> routes
               └── a Record, which all of them fill in ──> log, metrics, spans

The record of the request that runs is `current()`: it is a context variable, so that it holds in
all tasks of the request.
"""

import logging
import re
import time
import uuid
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Final

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

import whisperbatch as wb
from whisperbatch.server.clients import Client

REQUEST_ID: Final = re.compile(r"[\w.:-]{1,128}", re.ASCII)
MAX_PATH: Final = 200  # characters of a path in the log
SERVER_ERROR: Final = 500
RECORD: Final = "whisperbatch.record"  # key of the scope
REQUESTS: Final = ("http", "websocket")
ANSWERS: Final = ("http.response.start", "websocket.http.response.start", "websocket.accept")
SWITCHED: Final = 101  # status of a WebSocket that was opened
NORMAL: Final = 1000  # code of a WebSocket that was closed without an error

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Record:
    """A request and its answer.

    Attributes:
        id: the header `x-request-id` of the answer.
        method: of HTTP.
        path: with percent signs, as it was sent, without the query.
        route: path of the route; "other" if there is none.
        client: who sends the request.
        headers: of the request.
        began: time of the request, in seconds since 1970.
        seconds: time until the end of the answer.
        status: of the answer; None if there is none, because the client was gone. 101 for a
            WebSocket that was opened.
        closed: code with which a WebSocket was closed; None for other requests.
        code: of the error; None without an error.
        submission: the recording; None if no recording was submitted.
        audio: seconds of audio that were transcribed, at the end of the request.
        waited: seconds that the recording waited for its place; None if no recording was submitted.
    """

    id: str
    method: str
    path: str
    headers: Headers
    client: Client
    route: str = "other"
    began: float = field(default_factory=time.time)
    seconds: float = 0.0
    status: int | None = None
    closed: int | None = None
    code: str | None = None
    submission: wb.Submission | None = None
    audio: float = 0.0
    waited: float | None = None

    def end(self, seconds: float, route: str) -> None:
        """Note the end of the answer, and what the recording has needed."""
        self.seconds, self.route = seconds, route
        if self.submission:
            self.audio, self.waited = self.submission.position, self.submission.waited

    @property
    def values(self) -> dict[str, Any]:
        """The values for the log, by name; a value that is not known has no entry."""
        speed = self.audio / self.seconds if self.audio and self.seconds else None
        given = {
            "request_id": self.id,
            "client": self.client.name or None,
            "method": self.method,
            "path": self.path,
            "status": self.status,
            "seconds": self.seconds,
            "closed": self.closed,
            "code": self.code,
            "audio_seconds": self.audio or None,
            "speed": speed,
            "waited_seconds": self.waited,
        }
        rounded = {
            name: round(value, 3) if isinstance(value, float) else value
            for name, value in given.items()
        }
        return {name: value for name, value in rounded.items() if value is not None}


_CURRENT: ContextVar[Record | None] = ContextVar("whisperbatch_request", default=None)


def current() -> Record | None:
    """Return the record of the request that runs; None outside of requests."""
    return _CURRENT.get()


def note_error(code: str | None) -> None:
    """Note the code of the error that is the answer to the request."""
    if record := current():
        record.code = code


def note_submission(submission: wb.Submission) -> None:
    """Note the recording of the request; a later one takes its place."""
    if record := current():
        record.submission = submission


def note_audio(seconds: float) -> None:
    """Note the seconds of audio of a request without a submission."""
    if record := current():
        record.audio = seconds


class Recorder:
    """The outermost ASGI application: makes a record of each request.

    Args:
        app: answers the requests.
        root_path: path of the server at its proxy. Requests may have it or not.
        ended: functions that are called with each record at its end.
    """

    def __init__(
        self, app: ASGIApp, root_path: str, ended: Sequence[Callable[[Record], None]]
    ) -> None:
        self._app, self._root_path, self._ended = app, root_path, ended

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request; see the ASGI specification."""
        if scope["type"] not in REQUESTS:
            await self._app(scope, receive, send)
            return
        path = f"{self._root_path}{self._below_root(scope['path'])}"
        scope = {**scope, "path": path, "root_path": self._root_path}
        scope[RECORD] = record = _record_of(scope)

        async def send_noted(message: Message) -> None:
            kind = message["type"]
            if kind in ANSWERS:
                record.status = message.get("status", SWITCHED)
                MutableHeaders(scope=message)["x-request-id"] = record.id
            elif kind == "websocket.close":
                record.closed = message.get("code", NORMAL)
            await send(message)

        async def receive_noted() -> Message:
            message = await receive()
            if message["type"] == "websocket.disconnect" and record.status == SWITCHED:
                record.closed = record.closed or message.get("code", NORMAL)
            return message

        started = time.perf_counter()
        token = _CURRENT.set(record)
        try:
            await self._app(scope, receive_noted, send_noted)
        finally:
            route = getattr(scope.get("route"), "path", record.route)
            record.end(time.perf_counter() - started, route)
            for note in self._ended:
                note(record)
            level = logging.INFO
            if record.status is not None and record.status >= SERVER_ERROR:
                level = logging.WARNING  # an unexpected error has its own line, with its cause
            log.log(level, "request", extra={"values": record.values})
            _CURRENT.reset(token)

    def _below_root(self, path: str) -> str:
        root = self._root_path
        return path[len(root) :] if root and path.startswith(f"{root}/") else path


def _record_of(scope: Scope) -> Record:
    headers = Headers(scope=scope)
    given = headers.get("x-request-id", "")
    raw = (scope.get("raw_path") or scope["path"].encode()).partition(b"?")[0]
    return Record(
        id=given if REQUEST_ID.fullmatch(given) else f"req_{uuid.uuid4().hex}",
        method=scope.get("method", "GET"),  # a WebSocket begins as a GET request
        path=raw[:MAX_PATH].decode("latin-1"),
        headers=headers,
        client=Client((scope.get("client") or ("",))[0]),
    )
