"""Hostile live sessions: what a client does after its handshake, or in place of one."""

import asyncio
import base64
import functools
import json
import os
import socket
import struct
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, Final

from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed

from benchmarks import recordings

RATE: Final = 16_000  # Hz, of all audio
ANSWER_TIME: Final = 400.0  # seconds for an event: five minutes of audio may be before it
LARGE: Final = 15 * 2**20  # characters: the largest audio of an event
QUIET: Final = 10  # seconds of silence in an event
PATH: Final = "/v1/realtime?intent=transcription"

Act = Callable[[ClientConnection, Random], Awaitable[str]]
"""What a client does in an open session; returns how the session has ended."""


@dataclass(frozen=True)
class Hostile:
    """A hostile session.

    Attributes:
        kind: of the session.
        act: what the client does after the handshake.
        headers: of the handshake, in addition to the key.
        has_key: whether the handshake has the key.
        raw: bytes that are sent in place of a handshake.
    """

    kind: str
    act: Act | None = None
    headers: tuple[tuple[str, str], ...] = ()
    has_key: bool = True
    raw: bytes = b""


def hostile_of(rng: Random) -> Hostile:
    """Return a hostile session."""
    return rng.choice(KINDS)(rng)


@functools.cache
def spoken() -> bytes:
    """Twenty seconds of speech, as 16-bit PCM at `RATE`."""
    samples: bytes = recordings.read_speech(20, 77).samples.astype("<i2").tobytes()
    return samples


@functools.cache
def large_event(code: bytes) -> str:
    """An event with the longest audio that is allowed; all its bytes have one value."""
    return append(code * (LARGE * 3 // 4))


def append(audio: bytes) -> str:
    """The event that adds audio."""
    text = base64.b64encode(audio).decode()
    return json.dumps({"type": "input_audio_buffer.append", "audio": text})


def update(turns: object = None, **more: object) -> str:
    """The event that configures the session."""
    audio = {"format": {"type": "audio/pcm", "rate": RATE}, "turn_detection": turns, **more}
    includes = [f"item.input_audio_transcription.{each}" for each in ("tail", "words", "segments")]
    session = {"type": "transcription", "audio": {"input": audio}, "include": includes}
    return json.dumps({"type": "session.update", "session": session})


async def until(connection: ClientConnection, kind: str) -> dict[str, Any]:
    """Return the next event of a type."""
    while True:
        event: dict[str, Any] = json.loads(await asyncio.wait_for(connection.recv(), ANSWER_TIME))
        if event["type"] == kind:
            return event


async def _is_alive(connection: ClientConnection) -> None:
    """Wait for the answer to an event that has an id, and that no server knows."""
    await connection.send('{"type": "are you there", "event_id": "last"}')
    while (await until(connection, "error"))["error"]["event_id"] != "last":
        pass


async def _wrong_events(connection: ClientConnection, rng: Random) -> str:
    """Each mistake has its error, and the session goes on."""
    for number in range(rng.randrange(5, 30)):
        text = rng.choice(WRONG_EVENTS)
        if text.endswith("}"):
            text = f'{text[:-1]}, "event_id": "e{number}"}}'
        await connection.send(text.encode() if rng.random() < 0.1 else text)
        error = (await until(connection, "error"))["error"]
        if not (error["message"] and error["code"]):
            raise ValueError(f"no message or code: {error}")
    await _is_alive(connection)
    return "goes on"


async def _large(connection: ClientConnection, rng: Random) -> str:
    """Minutes of silence, or of a constant, in one event of 15 MiB."""
    await connection.send(large_event(rng.choice((b"\0", b"\x20"))))
    if rng.random() < 0.7:
        return _leave(connection, rng)
    await _is_alive(connection)
    return "goes on"


async def _silence(connection: ClientConnection, rng: Random) -> str:
    """Silence for minutes, as fast as the server reads it."""
    await connection.send(update({"type": "server_vad"}))
    event = append(bytes(2 * RATE * QUIET))
    for _ in range(rng.randrange(6, 30)):
        await connection.send(event)
    await _is_alive(connection)
    return "goes on"


async def _half_spoken(connection: ClientConnection, rng: Random) -> str:
    """Speech, and no connection in the middle of it."""
    turns = {"type": rng.choice(("server_vad", "semantic_vad"))} if rng.random() < 0.7 else None
    await connection.send(update(turns))
    size = 2 * RATE * rng.randrange(2, 20)
    step = rng.choice((size, 3200, 9601))
    for start in range(0, size, step):
        await connection.send(append(spoken()[start : min(start + step, size)]))
    await asyncio.sleep(rng.uniform(0, 1.5))
    return _leave(connection, rng)


async def _never_reads(connection: ClientConnection, rng: Random) -> str:
    """Speech, and requests for many events, none of which is read."""
    connection.transport.pause_reading()
    await connection.send(update(None))
    await connection.send(append(spoken()[: 2 * RATE * rng.randrange(2, 8)]))
    for _ in range(rng.randrange(1000)):
        await connection.send(update(None))
    await asyncio.sleep(rng.uniform(0, 6))
    return _leave(connection, rng)


async def _many_commits(connection: ClientConnection, rng: Random) -> str:
    """Short turns, and turns without audio."""
    await connection.send(update(None))
    for number in range(rng.randrange(2, 12)):
        audio = spoken()[3200 * number :][: rng.choice((0, 1, 3200, 6400))]
        await connection.send(append(audio))
        await connection.send('{"type": "input_audio_buffer.commit"}')
        if rng.random() < 0.3:
            await connection.send('{"type": "input_audio_buffer.clear"}')
    await _is_alive(connection)
    return "goes on"


async def _many_updates(connection: ClientConnection, rng: Random) -> str:
    """Changes in the middle of a turn."""
    await connection.send(update({"type": "server_vad"}))
    for number in range(rng.randrange(5, 40)):
        await connection.send(append(spoken()[9600 * number : 9600 * (number + 1)]))
        kind = {"type": rng.choice(("server_vad", "semantic_vad"))}
        await connection.send(update(kind, transcription={"keywords": ["Ann"] * number}))
    return _leave(connection, rng)


async def _broken_frame(connection: ClientConnection, rng: Random) -> str:
    """Bytes that are no frame: the server closes with a code of the protocol."""
    connection.transport.write(rng.choice(BROKEN_FRAMES))
    try:
        while True:
            await asyncio.wait_for(connection.recv(), ANSWER_TIME)
    except ConnectionClosed:
        code = connection.protocol.close_code
        if code not in {1002, 1007, 1009}:
            raise ValueError(f"closed with {code}") from None
    return f"closed with {code}"


async def _random_frames(connection: ClientConnection, rng: Random) -> str:
    connection.transport.write(rng.randbytes(rng.randrange(1, 5000)))
    await asyncio.sleep(rng.uniform(0, 0.5))
    return _leave(connection, rng)


async def _half_a_frame(connection: ClientConnection, rng: Random) -> str:
    """The beginning of a long message."""
    connection.transport.write(b"\x81\xff" + struct.pack("!Q", 10**7) + bytes(10**6))
    await asyncio.sleep(rng.uniform(0, 3))
    return _leave(connection, rng)


def _leave(connection: ClientConnection, rng: Random) -> str:
    """End the connection without a close; with a reset in half of the cases."""
    raw = connection.transport.get_extra_info("socket")
    if rng.random() < 0.5 and raw.fileno() >= 0:  # the server may have closed first
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.transport.abort()
    return "left"


def _with(kind: str, act: Act) -> Callable[[Random], Hostile]:
    return lambda _: Hostile(kind, act)


def _no_key(rng: Random) -> Hostile:
    """The handshake of a stranger, perhaps from a web page; the key is missing or wrong."""
    origin = ("origin", rng.choice(("https://page.example", "null", "http://127.0.0.1")))
    wrong = ("authorization", f"Bearer {rng.choice(('x', 'ek_0', ''))}")
    return Hostile(
        "no key", headers=tuple(rng.sample((origin, wrong), rng.randrange(3))), has_key=False
    )


def _no_handshake(rng: Random) -> Hostile:
    """A part of a handshake, or something else."""
    lines = [f"GET {PATH} HTTP/1.1", "host: a", "upgrade: websocket", "connection: upgrade"]
    lines += ["sec-websocket-version: 13", "sec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==", "", ""]
    whole = "\r\n".join(lines).encode()
    return Hostile(
        "no handshake", raw=rng.choice((whole[: rng.randrange(1, 150)], os.urandom(300)))
    )


_HEAD: Final = b"\x81\xfe"  # a text, masked, with two bytes of length
BROKEN_FRAMES: Final = (
    *(b"\x81\x02{}", b"\xf1\x82\0\0\0\0{}", b"\x83\x82\0\0\0\0{}", b"\x81\x82\0\0\0\0\xff\xfe"),
    b"\x89" + _HEAD[1:] + struct.pack("!H", 200) + bytes(204),
    *(b"\x80\x82\0\0\0\0{}", b"\x81\xff" + struct.pack("!Q", 2**40) + bytes(4)),
    b"\x88\x81\0\0\0\0x",
)
WRONG_EVENTS: Final = (
    *('{"type": "input_audio_buffer.append", "audio": "?"}', '{"type": "response.create"}'),
    *('{"type": "input_audio_buffer.append", "audio": "QUJ"}', '{"type": "x-secret"}'),
    *('{"type": "input_audio_buffer.append"}', '{"type": "input_audio_buffer.commit"}'),
    *('{"type": 1}', '{"audio": "QUJD"}', "[]", "", "\0", "null", "1e999", "[" * 50_000),
    *('{"type": "session.update"}', '{"type": "session.update", "session": []}'),
    '{"type": "session.update", "session": {"audio": {"input": {"format": {"rate": 1}}}}}',
    '{"type": "session.update", "session": {"include": ["everything"]}}',
    update(transcription={"model": "x"}),
)
KINDS: Final[Sequence[Callable[[Random], Hostile]]] = (
    _with("wrong events", _wrong_events),
    _with("wrong events", _wrong_events),
    _with("large event", _large),
    _with("silence", _silence),
    _with("half spoken", _half_spoken),
    _with("half spoken", _half_spoken),
    _with("never reads", _never_reads),
    _with("many commits", _many_commits),
    _with("many updates", _many_updates),
    _with("broken frame", _broken_frame),
    _with("random frames", _random_frames),
    _with("half a frame", _half_a_frame),
    *(_no_key, _no_handshake),
)
