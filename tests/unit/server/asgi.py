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
