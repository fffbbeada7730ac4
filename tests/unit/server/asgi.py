"""A client of an ASGI application, without network: it controls each message."""

import asyncio
import inspect
import json
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.unit.fakes import FakeEngine, noise
from tests.unit.media_files import encode
from whisperbatch import Transcriber
from whisperbatch.protocols import Engine
from whisperbatch.server.app import Server
from whisperbatch.server.settings import ServerSettings
from whisperbatch.types import SAMPLING_RATE


def in_loop(test: Any) -> Any:
    """Run an asynchronous test."""

    def run(*arguments: Any, **fixtures: Any) -> None:
        asyncio.run(test(*arguments, **fixtures))

    run.__signature__ = inspect.signature(test)  # type: ignore[attr-defined]  # for pytest
    return run


def settings_with(**given: Any) -> ServerSettings:
    """Settings of a server, the others at their defaults."""
    return ServerSettings(**given)


BOUNDARY = "----between"
TIMEOUT = 30.0  # seconds


@dataclass
class Answer:
    """What the application sent."""

    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> dict[str, Any]:
        error: dict[str, Any] = self.json["error"]
        assert set(error) == {"message", "type", "param", "code"}
        return error


class Client:
    """Sends requests to a server. `gone` is set to disconnect; `address` is that of the client."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.gone = asyncio.Event()
        self.address = "127.0.0.1"

    async def request(
        self,
        method: str,
        path: str,
        *,
        headers: Mapping[str, str] | None = None,
        pieces: Iterable[bytes] | AsyncIterator[bytes] = (),
        query: str = "",
        started: asyncio.Event | None = None,
    ) -> Answer:
        """Send a request with a body in pieces; return the answer when it is complete.

        `started` is set when a part of the body of the answer has arrived.
        """
        answer = Answer()
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": path,
            "raw_path": path.encode(),
            "query_string": query.encode(),
            "root_path": "",
            "headers": [(k.lower().encode(), v.encode()) for k, v in (headers or {}).items()],
            "client": (self.address, 1),
            "server": ("127.0.0.1", 8000),
        }
        messages = self._messages(pieces)

        async def receive() -> dict[str, Any]:
            return await anext(messages)

        async def send(message: Mapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                answer.status = message["status"]
                answer.headers = {k.decode(): v.decode() for k, v in message["headers"]}
            else:
                answer.body += message.get("body", b"")
                if started:
                    started.set()

        await asyncio.wait_for(self.server.app(scope, receive, send), TIMEOUT)
        return answer

    async def _messages(
        self, pieces: Iterable[bytes] | AsyncIterator[bytes]
    ) -> AsyncIterator[dict[str, Any]]:
        if isinstance(pieces, AsyncIterator):
            async for piece in pieces:
                yield {"type": "http.request", "body": piece, "more_body": True}
        else:
            for piece in pieces:
                yield {"type": "http.request", "body": piece, "more_body": True}
        yield {"type": "http.request", "body": b"", "more_body": False}
        await self.gone.wait()
        while True:
            yield {"type": "http.disconnect"}

    async def post(
        self,
        fields: Mapping[str, str],
        data: bytes,
        name: str = "talk.wav",
        *,
        headers: Mapping[str, str] | None = None,
        started: asyncio.Event | None = None,
    ) -> Answer:
        """Post a form to the transcriptions."""
        return await self.request(
            "POST",
            "/v1/audio/transcriptions",
            headers={**FORM, **(headers or {})},
            pieces=[form(fields, data, name)],
            started=started,
        )


FORM = {"content-type": f"multipart/form-data; boundary={BOUNDARY}"}


def form(fields: Mapping[str, str], data: bytes, name: str = "talk.wav") -> bytes:
    """A form with these fields, and then a file."""
    parts = [
        f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="{key}"\r\n\r\n{value}\r\n'
        for key, value in fields.items()
    ]
    file = f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\n\r\n'
    return ("".join(parts) + file).encode() + data + f"\r\n--{BOUNDARY}--\r\n".encode()


def wav(seconds: float, seed: int = 0) -> bytes:
    """Noise in a WAV file."""
    return encode([noise(seconds, seed)], "wav", "pcm_s16le", rate=SAMPLING_RATE)


def speaking_engine() -> FakeEngine:
    """An engine that decodes the same text for each row."""
    return FakeEngine(decode=lambda _: " Good morning.")


@asynccontextmanager
async def running(
    monkeypatch: pytest.MonkeyPatch, engine: Engine | None = None, **settings: Any
) -> AsyncIterator[Client]:
    """A server with a fake engine, without a VAD, from its start to its end."""
    monkeypatch.setattr(
        ServerSettings, "load", lambda _self, _source: Transcriber(engine or speaking_engine())
    )
    options = json.dumps({"vad": False, **settings.pop("options", {})})
    server = Server(settings_with(options=options, **settings))
    started, stop = asyncio.Event(), asyncio.Event()

    async def receive() -> dict[str, str]:
        if started.is_set():
            await stop.wait()
            return {"type": "lifespan.shutdown"}
        return {"type": "lifespan.startup"}

    async def send(message: Mapping[str, Any]) -> None:
        assert message["type"].endswith(".complete"), message
        started.set()

    lifespan = asyncio.ensure_future(
        server.app({"type": "lifespan", "asgi": {"version": "3.0"}, "state": {}}, receive, send)
    )
    await started.wait()
    client = Client(server)
    for _ in range(1000):
        if (await client.request("GET", "/ready")).status == 200:
            break
        await asyncio.sleep(0.01)
    try:
        yield client
    finally:
        stop.set()
        await lifespan


class Socket:
    """A WebSocket to a server: sends and receives each message.

    Attributes:
        status: of the answer to the handshake: 101 if the server has accepted.
        subprotocol: that the server has selected.
        answer: to a handshake that was refused.
        closed: code with which the server has closed; None while it is open.
    """

    def __init__(self, server: Server, scope: dict[str, Any]) -> None:
        self.server = server
        self.status = 0
        self.subprotocol: str | None = None
        self.answer = Answer()
        self.closed: int | None = None
        self.reads = asyncio.Event()  # cleared: the client does not read
        self.reads.set()
        self._to_server: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._to_client: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._answered = asyncio.Event()
        self._to_server.put_nowait({"type": "websocket.connect"})
        self.task = asyncio.ensure_future(server.app(scope, self._to_server.get, self._send))

    async def _send(self, message: Any) -> None:
        await self.reads.wait()
        kind = message["type"]
        if kind == "websocket.send":
            self._to_client.put_nowait(json.loads(message["text"]))
            return
        if kind == "websocket.http.response.body":
            self.answer.body += message["body"]
        elif kind == "websocket.close":
            self.closed = message.get("code", 1000)
            if not self.status:  # instead of an answer to the handshake
                self.status = 403
                self._answered.set()
            self._to_client.put_nowait({"type": "closed"})
            return
        else:
            self.status = self.answer.status = message.get("status", 101)
            self.subprotocol = message.get("subprotocol")
            given = message.get("headers", [])
            self.answer.headers = {k.decode(): v.decode() for k, v in given}
            if self.status != 101:
                return
        self._answered.set()

    async def opened(self) -> "Socket":
        """Wait for the answer to the handshake."""
        await asyncio.wait_for(self._answered.wait(), TIMEOUT)
        return self

    def send(self, value: object) -> None:
        """Send an event, or a text."""
        text = value if isinstance(value, str) else json.dumps(value)
        self._to_server.put_nowait({"type": "websocket.receive", "text": text})

    def send_bytes(self, data: bytes) -> None:
        """Send a message that is not text."""
        self._to_server.put_nowait({"type": "websocket.receive", "bytes": data})

    async def receive(self) -> dict[str, Any]:
        """The next event of the server; {"type": "closed"} at the end."""
        return await asyncio.wait_for(self._to_client.get(), TIMEOUT)

    async def until(self, kind: str) -> list[dict[str, Any]]:
        """The next events, up to one of this type."""
        found = [await self.receive()]
        while found[-1]["type"] != kind:
            assert found[-1]["type"] != "closed", found
            found.append(await self.receive())
        return found

    @property
    def unread(self) -> int:
        """Number of messages that the server has not read."""
        return self._to_server.qsize()

    @property
    def waiting(self) -> int:
        """Number of events that were not received."""
        return self._to_client.qsize()

    async def leave(self, code: int = 1000) -> None:
        """Close the connection, and wait for the end of the server's work."""
        self._to_server.put_nowait({"type": "websocket.disconnect", "code": code})
        self.reads.set()
        await asyncio.wait_for(self.task, TIMEOUT)


@asynccontextmanager
async def connected(
    client: Client,
    path: str = "/v1/realtime",
    *,
    query: str = "",
    headers: Mapping[str, str] | None = None,
    can_answer: bool = True,
) -> AsyncIterator[Socket]:
    """Open a WebSocket, and close it at the end. `can_answer`: with HTTP, to a handshake."""
    given = [(k.lower().encode(), v.encode("latin-1")) for k, v in (headers or {}).items()]
    scope = {
        "type": "websocket",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "scheme": "ws",
        "path": path,
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "root_path": "",
        "headers": given,
        "subprotocols": [],
        "client": (client.address, 1),
        "server": ("127.0.0.1", 8000),
        "extensions": {"websocket.http.response": {}} if can_answer else {},
    }
    socket = Socket(client.server, scope)
    try:
        yield await socket.opened()
    finally:
        await socket.leave()
