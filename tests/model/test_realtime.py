"""Live sessions with OpenAI's client, real weights and real speech: both generations, and TLS."""

import asyncio
import base64
import json
import re
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager
from difflib import SequenceMatcher
from typing import Any, Final

import av
import numpy as np
import openai
import pytest

from benchmarks import recordings
from benchmarks.recordings import Recording
from tests.model.server import RunningServer, running

TEXT: Final = "conversation.item.input_audio_transcription"
QUERY: Final = {"intent": "transcription"}
LIMIT: Final = 120.0  # seconds for an event on a busy machine


@pytest.fixture(scope="module")
def server() -> Iterator[RunningServer]:
    with running("--api-key", "secret", tls=True) as server:
        yield server


@pytest.fixture(scope="module")
def speech() -> Recording:
    return recordings.prompts("en", duration=12)


def pcm(recording: Recording, rate: int) -> bytes:
    """The samples at a rate, and a second of silence."""
    frame = av.AudioFrame.from_ndarray(recording.samples[np.newaxis], "s16", "mono")
    frame.sample_rate = recordings.SAMPLING_RATE
    resampler = av.AudioResampler("s16", "mono", rate)
    blocks = [part.to_ndarray()[0] for given in (frame, None) for part in resampler.resample(given)]
    return np.concatenate([*blocks, np.zeros(rate, np.int16)]).tobytes()


@asynccontextmanager
async def session(server: RunningServer, *, old: bool = False) -> AsyncIterator[Any]:
    """A session of a client, after its first event."""
    tls: Any = {"ssl": server.tls}
    kind = "transcription_session" if old else "session"
    address = server.api.replace("https", "wss")
    async with openai.AsyncOpenAI(
        base_url=server.api, websocket_base_url=address, api_key="secret"
    ) as client:
        connecting: Any = (
            client.beta.realtime.connect(
                model="whisper-1", extra_query=QUERY, websocket_connection_options=tls
            )
            if old
            else client.realtime.connect(extra_query=QUERY, websocket_connection_options=tls)
        )
        async with connecting as connection:
            assert (await connection.recv()).type == f"{kind}.created"
            yield connection


async def append(connection: Any, audio: bytes, size: int = 9_600) -> None:
    for start in range(0, len(audio), size):
        text = base64.b64encode(audio[start : start + size]).decode()
        await connection.send({"type": "input_audio_buffer.append", "audio": text})


async def receive(connection: Any) -> dict[str, Any]:
    raw = await asyncio.wait_for(connection.recv_bytes(), LIMIT)
    event: dict[str, Any] = json.loads(raw)
    return event


async def items(connection: Any, count: int) -> list[list[dict[str, Any]]]:
    """The events of the first items, until each has its final text."""
    found: dict[str, list[dict[str, Any]]] = {}
    done = 0
    while done < count:
        event = await receive(connection)
        assert event["type"] not in {"error", f"{TEXT}.failed"}, event
        item = event.get("item_id") or event["item"]["id"]
        found.setdefault(item, []).append(event)
        done += event["type"] == f"{TEXT}.completed"
    return [events for events in found.values() if events[-1]["type"] == f"{TEXT}.completed"]


def text_of(events: list[list[dict[str, Any]]]) -> str:
    return " ".join(each[-1]["transcript"] for each in events)


def likeness(text: str, recording: Recording) -> float:
    words, right = (re.findall(r"\w+", each.lower()) for each in (text, recording.text))
    return SequenceMatcher(None, words, right, autojunk=False).ratio()


def test_pauses_end_turns(server: RunningServer, speech: Recording) -> None:
    async def run() -> None:
        async with session(server) as connection:
            await connection.session.update(
                session={
                    "type": "transcription",
                    "audio": {"input": {"transcription": {"model": "tiny.en", "language": "en"}}},
                    "include": ["item.input_audio_transcription.logprobs"],
                }
            )
            assert (await receive(connection))["type"] == "session.updated"
            await append(connection, pcm(speech, 24_000))
            found = await items(connection, len(speech.utterances))
        assert likeness(text_of(found), speech) >= 0.75
        for events, spoken in zip(found, speech.utterances, strict=True):
            types = [event["type"] for event in events if event["type"] != f"{TEXT}.delta"]
            assert types == [
                "input_audio_buffer.speech_started",
                "input_audio_buffer.speech_stopped",
                "input_audio_buffer.committed",
                "conversation.item.added",
                "conversation.item.done",
                f"{TEXT}.completed",
            ]
            deltas = [event for event in events if event["type"] == f"{TEXT}.delta"]
            assert "".join(event["delta"] for event in deltas).strip()
            start = events[0]["audio_start_ms"] / 1000
            stop = next(event for event in events if "audio_end_ms" in event)
            assert abs(start - spoken.start) < 0.5
            assert 0.2 < stop["audio_end_ms"] / 1000 - spoken.end < 1.2
            assert sum(len(event["logprobs"]) for event in deltas) > 0
            entries = events[-1]["logprobs"]
            assert "".join(each["token"] for each in entries).strip() == events[-1]["transcript"]
            assert all(each["logprob"] <= 0 for each in entries)
            assert events[-1]["usage"]["seconds"] == pytest.approx(
                spoken.end - spoken.start, abs=0.6
            )

    asyncio.run(run())


def test_the_client_ends_turns_on_a_telephone(server: RunningServer, speech: Recording) -> None:
    """G.711 at 8 kHz; mistakes between the appends have no effect on the text."""

    async def run() -> None:
        async with session(server) as connection:
            audio = {"input": {"format": {"type": "audio/pcmu"}, "turn_detection": None}}
            await connection.session.update(session={"type": "transcription", "audio": audio})
            assert (await receive(connection))["type"] == "session.updated"
            codes = []
            for wrong in (
                {"type": "input_audio_buffer.commit", "event_id": "e1"},
                {"type": "input_audio_buffer.append", "audio": "?", "event_id": "e2"},
                {"type": "nothing", "event_id": "e3"},
                {"type": "response.create", "event_id": "e4"},
            ):
                await connection.send(wrong)
                error = (await receive(connection))["error"]
                assert error["event_id"] == wrong["event_id"]
                codes.append(error["code"])
            assert codes == [
                "input_audio_buffer_commit_empty",
                "invalid_audio",
                "unknown_event",
                "unsupported_event",
            ]
            await append(connection, mu_law(pcm(speech, 8_000)), 800)
            await connection.input_audio_buffer.commit()
            (events,) = await items(connection, 1)
            assert likeness(events[-1]["transcript"], speech) >= 0.7
            assert {
                "input_audio_buffer.speech_started",
                "input_audio_buffer.speech_stopped",
            }.isdisjoint(event["type"] for event in events)

    asyncio.run(run())


def mu_law(samples: bytes) -> bytes:
    """Encode samples with FFmpeg's encoder."""
    encoder = av.CodecContext.create("pcm_mulaw", "w")
    encoder.sample_rate, encoder.layout, encoder.format = 8_000, "mono", "s16"
    frame = av.AudioFrame.from_ndarray(np.frombuffer(samples, "<i2")[np.newaxis], "s16", "mono")
    frame.sample_rate = 8_000
    return b"".join(bytes(packet) for packet in encoder.encode(frame))


def test_the_old_generation(server: RunningServer, speech: Recording) -> None:
    async def run() -> None:
        async with session(server, old=True) as connection:
            await connection.transcription_session.update(
                session={
                    "input_audio_format": "pcm16",
                    "input_audio_transcription": {"model": "whisper-1", "language": "en"},
                    "turn_detection": {"type": "server_vad", "silence_duration_ms": 500},
                }
            )
            assert (await receive(connection))["type"] == "transcription_session.updated"
            await append(connection, pcm(speech, 24_000))
            found = await items(connection, len(speech.utterances))
        assert likeness(text_of(found), speech) >= 0.75
        for events in found:
            assert "conversation.item.created" in [event["type"] for event in events]

    asyncio.run(run())


def test_an_update_in_mid_stream(server: RunningServer, speech: Recording) -> None:
    """The second turn has the new settings; the first is not lost."""

    async def run() -> None:
        async with session(server) as connection:
            await append(connection, pcm(speech, 24_000)[: 24_000 * 2 * 5])
            include = ["item.input_audio_transcription.words"]
            await connection.session.update(session={"type": "transcription", "include": include})
            await append(connection, pcm(speech, 24_000)[24_000 * 2 * 5 :])
            count, found = 0, []
            while count < len(speech.utterances):
                event = await receive(connection)
                found.append(event["type"])
                if event["type"] == f"{TEXT}.completed":
                    count += 1
                    last = event
        assert "session.updated" in found
        words = [word["word"] for word in last["words"]]
        assert "".join(words).strip() == last["transcript"]

    asyncio.run(run())


@pytest.mark.slow
def test_a_restart_of_the_server(speech: Recording) -> None:
    """The client gets the text of what it has said, connects again after 1012, and goes on."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    audio = pcm(speech, 24_000)
    half = len(audio) // 4 * 2
    first, rest = audio[:half], audio[half:]
    reasons: list[int] = []
    texts: list[str] = []
    deltas: dict[str, str] = {}

    async def run(servers: ExitStack) -> None:
        def start() -> RunningServer:
            return servers.enter_context(running("--api-key", "secret", port=port, stops=True))

        server = start()
        starting = None
        client = openai.AsyncOpenAI(base_url=server.api, api_key="secret")
        connecting = client.realtime.connect(
            extra_query=QUERY, on_reconnecting=lambda event: reasons.append(event.close_code)
        )
        async with client, connecting as connection:
            async for received in connection:
                event: Any = received
                kind = event.type
                assert kind != "error", event
                if kind == "session.created":
                    audio_input: Any = {"input": {"turn_detection": None}}
                    await connection.session.update(
                        session={"type": "transcription", "audio": audio_input}
                    )
                    await append(connection, rest if starting else first)
                    if starting:
                        await connection.input_audio_buffer.commit()
                    else:
                        server.process.terminate()
                        starting = asyncio.create_task(asyncio.to_thread(start))
                elif kind == f"{TEXT}.delta":
                    deltas[event.item_id] = deltas.get(event.item_id, "") + event.delta
                elif kind == f"{TEXT}.completed":
                    texts.append(event.transcript)
                    if len(texts) == 2:
                        break
        assert starting
        await starting
        assert server.process.wait(60) == 0
        assert "Traceback" not in server.messages()

    with ExitStack() as servers:
        asyncio.run(asyncio.wait_for(run(servers), 2 * LIMIT))
    assert set(reasons) == {1012}
    assert len(deltas) == 2
    assert likeness(" ".join(texts), speech) >= 0.75
