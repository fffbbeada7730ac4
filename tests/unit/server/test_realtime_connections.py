"""WebSockets at a real socket, with the limits of `channel`, and clients that break the rules."""

import asyncio
import base64
import json
import logging
import os
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import openai
import psutil
import pytest
import uvicorn
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from tests.unit.server import fake_live
from tests.unit.server.asgi import in_loop, settings_with, speaking_engine
from tests.unit.server.fake_live import FakeLive, final, pcm, settled
from whisperbatch import Transcriber
from whisperbatch.live import TurnEnded, TurnStarted
from whisperbatch.server import channel, serve
from whisperbatch.server.app import Server
from whisperbatch.server.listening import listen
from whisperbatch.server.settings import ServerSettings

APPEND = "input_audio_buffer.append"
TEXT = "conversation.item.input_audio_transcription"


@asynccontextmanager
async def serving(
    monkeypatch: pytest.MonkeyPatch, **settings: Any
) -> AsyncIterator[tuple[Server, str, list[FakeLive]]]:
    """A server at a free port in this process, with fakes; its address is without the scheme."""
    monkeypatch.setattr(ServerSettings, "load", lambda *_: Transcriber(speaking_engine()))
    with fake_live.fake_live(monkeypatch) as opened:
        options = json.dumps({"vad": False})
        server = Server(settings_with(port=0, options=options, **settings))
        config = serve.config_of(server)
        listeners = listen(server.settings)
        runner = uvicorn.Server(config)
        running = asyncio.ensure_future(runner._serve(listeners))
        try:
            yield server, f"127.0.0.1:{listeners[0].getsockname()[1]}", opened
        finally:
            runner.should_exit = True
            await asyncio.wait_for(running, 20)


def connecting(address: str, **more: Any) -> connect:
    return connect(f"ws://{address}/v1/realtime", max_size=None, proxy=None, **more)


async def receive(connection: ClientConnection, kind: str) -> dict[str, Any]:
    """The next event, which has this type."""
    event: dict[str, Any] = json.loads(await asyncio.wait_for(connection.recv(), 20))
    assert event["type"] == kind, event
    return event


async def closed_with(connection: ClientConnection) -> int:
    """The code with which the server closes; 1006 if it only ends the connection."""
    with suppress(ConnectionClosed):
        while True:
            await asyncio.wait_for(connection.recv(), 20)
    return connection.close_code or 0


async def works(address: str) -> None:
    """Check that a new session is answered."""
    async with connecting(address) as connection:
        await receive(connection, "session.created")
        await connection.send("{")
        await receive(connection, "error")


@in_loop
async def test_official_client_with_the_key_in_a_header(monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving(monkeypatch, api_key="secret") as (_, address, opened):
        client = openai.AsyncOpenAI(base_url=f"http://{address}/v1", api_key="secret")
        async with client.realtime.connect(extra_query={"intent": "transcription"}) as session:
            assert (await session.recv()).type == "session.created"
            await session.input_audio_buffer.append(audio=base64.b64encode(pcm(1.0)).decode())
            await until(lambda: opened)
            opened[0].report(
                TurnStarted(0, 0.0),
                settled(0, "Good", " morning."),
                TurnEnded(0, 0.0, 0.9),
                final(0, "Good morning."),
            )
            names: list[str] = []
            text = ""
            while not names or names[-1] != "ConversationItemInputAudioTranscriptionCompletedEvent":
                event: Any = await asyncio.wait_for(session.recv(), 20)
                names.append(type(event).__name__)
                text += getattr(event, "delta", None) or ""
            assert names == [
                "InputAudioBufferSpeechStartedEvent",
                "ConversationItemInputAudioTranscriptionDeltaEvent",
                "InputAudioBufferSpeechStoppedEvent",
                "InputAudioBufferCommittedEvent",
                "ConversationItemAdded",
                "ConversationItemDone",
                "ConversationItemInputAudioTranscriptionCompletedEvent",
            ]
            assert (event.transcript, text) == ("Good morning.", "Good morning.")
            assert event.usage.seconds == 1.5
            await session.response.create()
            refused: Any = await asyncio.wait_for(session.recv(), 20)
            assert (refused.type, refused.error.code) == ("error", "unsupported_event")
        wrong = openai.AsyncOpenAI(base_url=f"http://{address}/v1", api_key="wrong")
        with pytest.raises(InvalidStatus) as raised:
            async with wrong.realtime.connect():
                pass
        assert raised.value.response.status_code == 401
        assert b"invalid_api_key" in (raised.value.response.body or b"")
        await client.close()
        await wrong.close()


@in_loop
async def test_a_browser_sends_its_key_as_a_subprotocol(monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving(monkeypatch, api_key="secret") as (_, address, _opened):
        offered: Any = ["realtime", "openai-insecure-api-key.secret"]
        async with connecting(address, subprotocols=offered) as connection:
            assert connection.subprotocol == "realtime"
            await receive(connection, "session.created")
            assert "secret" not in str(connection.response and connection.response.headers)


@in_loop
async def test_pages_of_others_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving(monkeypatch) as (_, address, _opened):
        with pytest.raises(InvalidStatus) as raised:
            await connecting(address, origin="http://page.example")
        assert raised.value.response.status_code == 403
        async with connecting(address, origin=f"http://{address}") as connection:
            await receive(connection, "session.created")


@in_loop
async def test_a_websocket_stays_open(monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock for the headers of the next request does not run."""
    monkeypatch.setattr(serve, "HEADER_TIME", 0.2)
    async with serving(monkeypatch) as (_, address, _opened), connecting(address) as connection:
        await receive(connection, "session.created")
        await asyncio.sleep(0.6)
        await connection.send("{")
        await receive(connection, "error")


@in_loop
async def test_broken_frames_end_only_their_session(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of these is answered with a close of the protocol, and the server works on."""
    head = struct.pack("!BB", 0x81, 0x80 | 126)  # a text, masked, with two bytes of length
    breaking = {
        "not masked": b"\x81\x02{}",
        "reserved bits": b"\xf1\x82\0\0\0\0{}",
        "unknown opcode": b"\x83\x82\0\0\0\0{}",
        "not UTF-8": b"\x81\x82\0\0\0\0\xff\xfe",
        "a long ping": b"\x89" + head[1:] + struct.pack("!H", 200) + bytes(204),
        "continues nothing": b"\x80\x82\0\0\0\0{}",
        "a huge length": b"\x81\xff" + struct.pack("!Q", 2**40) + bytes(4),
        "a wrong close": b"\x88\x81\0\0\0\0x",
    }
    codes = {}
    async with serving(monkeypatch) as (server, address, _opened):
        for name, frame in breaking.items():
            async with connecting(address) as connection:
                await receive(connection, "session.created")
                connection.transport.write(frame)
                codes[name] = await closed_with(connection)
        await works(address)
        await until(lambda: server.active == 0)
    protocol_error = dict.fromkeys(breaking, 1002)
    assert codes == {**protocol_error, "not UTF-8": 1007, "a huge length": 1009}


@in_loop
async def test_a_message_that_is_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving(monkeypatch) as (_, address, _opened):
        async with connecting(address) as connection:
            await receive(connection, "session.created")
            with suppress(ConnectionClosed):
                await connection.send("x" * (channel.MAX_MESSAGE + 1))
            assert await closed_with(connection) == 1009
        await works(address)


@in_loop
async def test_a_message_in_many_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving(monkeypatch) as (_, address, opened), connecting(address) as connection:
        await receive(connection, "session.created")
        audio = base64.b64encode(pcm(2.0)).decode()
        text = json.dumps({"type": APPEND, "audio": audio})
        await connection.send(text[start : start + 100] for start in range(0, len(text), 100))
        await connection.send("{")
        await receive(connection, "error")
        assert opened[0].fed == pcm(2.0)


async def until(condition: Any) -> None:
    for _ in range(2000):
        if condition():
            return
        await asyncio.sleep(0.005)
    raise TimeoutError


@in_loop
async def test_a_client_that_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a close, by a reset, in the middle of a frame: the work ends at once."""
    async with serving(monkeypatch) as (server, address, opened):
        for number in range(3):
            connection = await connecting(address)
            await receive(connection, "session.created")
            await connection.send(
                json.dumps({"type": APPEND, "audio": base64.b64encode(pcm(0.5)).decode()})
            )
            await until(lambda n=number: len(opened) > n and opened[n].fed)
            connection.transport.write(b"\x81\xff" + struct.pack("!Q", 10**6) + bytes(100))
            raw = connection.transport.get_extra_info("socket")
            if number:
                raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            connection.transport.abort()
            await until(lambda: server.active == 0)
            assert opened[number].calls == ["cancel"]
        await works(address)


@in_loop
async def test_a_client_that_does_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is disconnected, although its system would keep the connection for ever."""
    monkeypatch.setattr(channel, "WRITE_TIME", 0.5)
    async with serving(monkeypatch) as (server, address, opened):
        connection = await connecting(address)
        await receive(connection, "session.created")
        connection.transport.pause_reading()
        await connection.send(json.dumps({"type": APPEND, "audio": ""}))
        await until(lambda: opened)
        text = "word " * 20_000
        opened[0].report(*(settled(0, text) for _ in range(500)))  # 50 MB
        await until(lambda: server.active == 0)
        assert opened[0].calls == ["cancel"]
        connection.transport.abort()
        await works(address)


@in_loop
async def test_the_server_stops(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients are told to connect again."""
    async with serving(monkeypatch) as (server, address, _opened):
        connection = await connecting(address)
        await receive(connection, "session.created")
        server.admission.closed = True
        assert await closed_with(connection) == 1012
        with pytest.raises(InvalidStatus) as raised:
            await connecting(address)
        assert raised.value.response.status_code == 503
        assert raised.value.response.headers["retry-after"] == "5"


@in_loop
async def test_many_hostile_sessions(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """They get what the protocol says; nothing is left of them, and no line has their texts."""
    caplog.set_level(logging.INFO)
    process = psutil.Process()
    async with serving(monkeypatch, max_sessions=40) as (server, address, opened):
        async with connecting(address) as friend:
            await receive(friend, "session.created")
            files = process.num_fds()

            async def attack(number: int) -> int:
                try:
                    async with connecting(address) as connection:
                        await receive(connection, "session.created")
                        for text in (
                            "\0",
                            "[]",
                            '{"type": "x-secret"}',
                            '{"type": "session.update"}',
                        ):
                            await connection.send(text)
                            await receive(connection, "error")
                        if number % 3 == 0:
                            connection.transport.write(os.urandom(100))
                        elif number % 3 == 1:
                            connection.transport.abort()
                        return 101
                except InvalidStatus as refused:
                    return refused.response.status_code
                except (ConnectionClosed, OSError):
                    return 101

            answers = await asyncio.gather(*(attack(number) for number in range(100)))
            assert set(answers) == {101, 429}  # one address has half of the places
            await until(lambda: server.active == 1)
            await friend.send("{")
            await receive(friend, "error")
            await until(lambda: process.num_fds() <= files)
            assert opened == []
        assert "x-secret" not in caplog.text
        assert "Traceback" not in caplog.text
