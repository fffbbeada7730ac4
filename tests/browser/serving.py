"""A server for the tests of the page: the real one for files, and live sessions that a test plays.

The engine is fake. `Played` receives what the page sends over its WebSocket, and sends the events
that the test wants.
"""

import asyncio
import base64
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final
from urllib.parse import urlsplit

import pytest
import uvicorn

from tests.unit.fakes import FakeEngine
from whisperbatch import Transcriber
from whisperbatch.server.app import Server
from whisperbatch.server.settings import ServerSettings

ITEM: Final = "conversation.item.input_audio_transcription"
BUFFER: Final = "input_audio_buffer"
RATE: Final = 24_000  # of the sound that the page sends
PATIENCE: Final = 30.0  # seconds, on a busy machine


def until(condition: Callable[[], bool], what: str) -> None:
    """Wait for a condition."""
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, what
        time.sleep(0.02)


class Played:
    """An ASGI application for /v1/realtime, whose events the test sends.

    Attributes:
        offered: the subprotocols of each handshake.
        received: the events of the page, but not its sound.
        sound: what the page has sent, for each connection.
        answers: whether a commit is answered as if no sound were left.
    """

    def __init__(self) -> None:
        self.offered: list[list[str]] = []
        self.received: list[dict[str, Any]] = []
        self.sound: list[bytearray] = []
        self.answers = True
        self.refuses = False
        self._send: Any = None
        self._loop: asyncio.AbstractEventLoop | None = None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        assert (await receive())["type"] == "websocket.connect"
        self.offered.append(list(scope["subprotocols"]))
        if self.refuses:
            await send({"type": "websocket.close"})
            return
        self.sound.append(bytearray())
        self._loop, self._send = asyncio.get_running_loop(), send
        await send({"type": "websocket.accept", "subprotocol": "realtime"})
        await self._say({"type": "session.created", "session": {}})
        while (message := await receive())["type"] == "websocket.receive":
            event = json.loads(message["text"])
            if event["type"] == f"{BUFFER}.append":
                self.sound[-1] += base64.b64decode(event["audio"], validate=True)
                continue
            self.received.append(event)
            if event["type"] == "session.update":
                await self._say({"type": "session.updated", "session": event["session"]})
            elif event["type"] == f"{BUFFER}.commit" and self.answers:
                error = {"message": "the buffer is empty", "event_id": event["event_id"]}
                await self._say({"type": "error", "error": error})

    async def _say(self, event: dict[str, Any]) -> None:
        await self._send({"type": "websocket.send", "text": json.dumps(event)})

    def say(self, kind: str, item: str = "item_1", **fields: Any) -> None:
        """Send an event about an item to the page."""
        self._run(self._say({"type": kind, "item_id": item, "content_index": 0, **fields}))

    def close(self, code: int) -> None:
        """Close the connection."""
        self._run(self._send({"type": "websocket.close", "code": code, "reason": ""}))

    def _run(self, sending: Any) -> None:
        assert self._loop
        asyncio.run_coroutine_threadsafe(sending, self._loop).result(PATIENCE)

    def turn(self, start: float, end: float, settled: str, final: str, item: str) -> None:
        """Play a complete turn with one segment."""
        self.say(f"{BUFFER}.speech_started", item, audio_start_ms=round(start * 1000))
        self.say(f"{ITEM}.delta", item, delta=settled)
        self.say(f"{BUFFER}.speech_stopped", item, audio_end_ms=round(end * 1000))
        self.say(f"{BUFFER}.committed", item, previous_item_id=None)
        self.say(f"{ITEM}.segment", item, id="0", start=start, end=end, text=final, speaker="")
        self.say(f"{ITEM}.completed", item, transcript=final, languages=[{"code": "en"}])

    def wait_for_sound(self, seconds: float = 0.3) -> None:
        """Wait until the page has sent sound."""
        size = seconds * RATE * 2
        until(lambda: bool(self.sound) and len(self.sound[-1]) >= size, "the page sends no sound")


class SlowEngine(FakeEngine):
    """An engine that decodes a row when `go` is set."""

    def __init__(self) -> None:
        super().__init__(detect=lambda _: {"en": 1.0})
        self.go = threading.Event()
        self.go.set()

    def decode(self, *arguments: Any) -> Any:
        assert self.go.wait(PATIENCE * 2)
        return super().decode(*arguments)


class Site:
    """The running server.

    Attributes:
        url: of the page.
        live: plays the live sessions.
        engine: of the files.
    """

    def __init__(self, url: str, live: Played, engine: SlowEngine, server: Server) -> None:
        self.url, self.live, self.engine, self.server = url, live, engine, server

    @property
    def named_url(self) -> str:
        """The page at a name that is not localhost, so that the browser trusts it less."""
        return f"http://speech.internal:{urlsplit(self.url).port}/"

    @property
    def is_idle(self) -> bool:
        """Whether the server works on no request."""
        return self.server.admission.active == 0


@contextmanager
def serving(monkeypatch: pytest.MonkeyPatch, **settings: Any) -> Iterator[Site]:
    """Start a server at a free port."""
    engine, live = SlowEngine(), Played()
    monkeypatch.setattr(ServerSettings, "load", lambda _self, _source: Transcriber(engine))
    options = json.dumps({"vad": False, "batch_size": 1})
    server = Server(ServerSettings(options=options, **settings))

    async def app(scope: Any, receive: Any, send: Any) -> None:
        chosen = live if scope["type"] == "websocket" else server.app
        await chosen(scope, receive, send)

    config = uvicorn.Config(app, port=0, log_level="warning", ws="websockets-sansio")
    running = uvicorn.Server(config)
    thread = threading.Thread(target=running.run)
    thread.start()
    until(lambda: running.started, "the server does not start")
    port = running.servers[0].sockets[0].getsockname()[1]
    try:
        yield Site(f"http://127.0.0.1:{port}/", live, engine, server)
    finally:
        engine.go.set()
        running.should_exit = True
        thread.join(PATIENCE)
