"""Live sessions over a WebSocket: each event of OpenAI's protocol, and each mistake of a client."""

import asyncio
import base64
import json
import math
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.unit.server import fake_live
from tests.unit.server.asgi import Client, Socket, connected, in_loop, running
from tests.unit.server.fake_live import FakeLive, final, pcm, settled
from tests.unit.server.test_operation import figures
from whisperbatch import EngineError
from whisperbatch.errors import BacklogError, ClosedError
from whisperbatch.live import (
    Failed,
    Final,
    Lag,
    LiveEvent,
    LiveSettings,
    Tail,
    TurnEnded,
    TurnStarted,
)
from whisperbatch.server.realtime import session as sessions
from whisperbatch.server.realtime.audio_formats import a_law, mu_law

TEXT = "conversation.item.input_audio_transcription"
ITEM = "item.input_audio_transcription"
QUERY = "intent=transcription"


@asynccontextmanager
async def open_session(
    monkeypatch: pytest.MonkeyPatch, *, query: str = QUERY, **settings: Any
) -> AsyncIterator[tuple[Socket, list[FakeLive]]]:
    """A session of a server whose live sessions are fakes."""
    with fake_live.fake_live(monkeypatch) as opened:
        async with (
            running(monkeypatch, **settings) as client,
            connected(client, query=query) as socket,
        ):
            assert (await socket.receive())["type"] == "session.created"
            yield socket, opened


def append(data: bytes, **more: Any) -> dict[str, Any]:
    audio = base64.b64encode(data).decode()
    return {"type": "input_audio_buffer.append", "audio": audio, **more}


def update(**given: Any) -> dict[str, Any]:
    """`session.update` with fields of `audio.input`."""
    session: dict[str, Any] = {"type": "transcription", "audio": {"input": given}}
    if "include" in given:
        session["include"] = given.pop("include")
    return {"type": "session.update", "session": session}


async def updated(socket: Socket, **given: Any) -> dict[str, Any]:
    """Update a session, and return its new form."""
    socket.send(update(**given))
    answer = await socket.receive()
    assert answer["type"] == "session.updated", answer
    session: dict[str, Any] = answer["session"]
    return session


async def error_of(socket: Socket, sent: Any) -> dict[str, Any]:
    """The error that a message is answered with."""
    socket.send(sent)
    answer = await socket.receive()
    assert answer["type"] == "error", answer
    error: dict[str, Any] = answer["error"]
    assert set(error) == {"type", "code", "message", "param", "event_id"}
    return error


async def heard(socket: Socket, opened: list[FakeLive], seconds: float = 1.0) -> FakeLive:
    """Append audio, and wait until it is fed."""
    rate = opened[-1].keywords["sampling_rate"] if opened else 24_000
    socket.send(append(pcm(seconds, rate)))
    for _ in range(1000):
        if opened and opened[-1].duration >= seconds - 1e-6:
            return opened[-1]
        await asyncio.sleep(0.005)
    raise TimeoutError


def without_ids(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Events without their ids, and with items as "item 0", "item 1"."""
    items: list[str] = []

    def plain(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: plain(each) for key, each in value.items() if key != "event_id"}
        if isinstance(value, list):
            return [plain(each) for each in value]
        if isinstance(value, str) and value.startswith("item_"):
            if value not in items:
                items.append(value)
            return f"item {items.index(value)}"
        return value

    found: list[dict[str, Any]] = plain(events)
    return found


def committed(number: int, before: int | None) -> list[dict[str, Any]]:
    """The three events of a committed item."""
    item = {
        "id": f"item {number}",
        "object": "realtime.item",
        "type": "message",
        "role": "user",
        "status": "completed",
        "content": [{"type": "input_audio", "transcript": None}],
    }
    previous = None if before is None else f"item {before}"
    return [
        {
            "type": "input_audio_buffer.committed",
            "previous_item_id": previous,
            "item_id": f"item {number}",
        },
        {"type": "conversation.item.added", "previous_item_id": previous, "item": item},
        {"type": "conversation.item.done", "previous_item_id": previous, "item": item},
    ]


@in_loop
async def test_a_session_begins_with_its_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running(monkeypatch) as client, connected(client) as socket:
        assert (socket.status, socket.subprotocol) == (101, None)
        created = await socket.receive()
        assert set(created) == {"type", "event_id", "session"}
        session = created["session"]
        assert session.pop("id").startswith("sess_")
        assert session.pop("expires_at") > 1_700_000_000
        assert session == {
            "object": "realtime.transcription_session",
            "type": "transcription",
            "audio": {
                "input": {
                    "format": {"type": "audio/pcm", "rate": 24000},
                    "transcription": {
                        "model": "base",
                        "language": None,
                        "languages": [],
                        "prompt": None,
                        "keywords": [],
                        "delay": LiveSettings().delay,
                    },
                    "turn_detection": {
                        "type": "server_vad",
                        "threshold": 0.5,
                        "prefix_padding_ms": 100,
                        "silence_duration_ms": 500,
                        "idle_timeout_ms": None,
                    },
                    "noise_reduction": None,
                }
            },
            "include": [],
        }


@in_loop
async def test_two_turns_that_pauses_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """The order of OpenAI's API; see docs/reference/realtime.md."""
    async with open_session(monkeypatch) as (socket, opened):
        live = await heard(socket, opened, 4.0)
        live.report(
            TurnStarted(0, 0.2),
            settled(0, "Good", " morning.", start=0.3),
            Tail(0, ""),
            TurnEnded(0, 0.2, 1.4),
            final(0, "Good morning."),
            TurnStarted(1, 2.0),
            TurnEnded(1, 2.0, 3.9),
            settled(1, "Well."),
            final(1, "Well!", duration=2.25),
        )
        events = await socket.until(f"{TEXT}.completed")
        events += await socket.until(f"{TEXT}.completed")
        assert len({event["event_id"] for event in events}) == len(events)
        at = {"item_id": "item 0", "content_index": 0}
        next_at = {"item_id": "item 1", "content_index": 0}
        assert without_ids(events) == [
            {
                "type": "input_audio_buffer.speech_started",
                "audio_start_ms": 200,
                "item_id": "item 0",
            },
            {"type": f"{TEXT}.delta", **at, "delta": "Good morning."},
            # with the silence of 0.5 s, of which 0.1 s is in the turn
            {
                "type": "input_audio_buffer.speech_stopped",
                "audio_end_ms": 1800,
                "item_id": "item 0",
            },
            *committed(0, None),
            {
                "type": f"{TEXT}.completed",
                **at,
                "transcript": "Good morning.",
                "usage": {"type": "duration", "seconds": 1.5},
                "languages": [{"code": "en"}],
            },
            {
                "type": "input_audio_buffer.speech_started",
                "audio_start_ms": 2000,
                "item_id": "item 1",
            },
            # not later than the audio that was sent
            {
                "type": "input_audio_buffer.speech_stopped",
                "audio_end_ms": 4000,
                "item_id": "item 1",
            },
            *committed(1, 0),
            {"type": f"{TEXT}.delta", **next_at, "delta": "Well."},
            {
                "type": f"{TEXT}.completed",
                **next_at,
                "transcript": "Well!",
                "usage": {"type": "duration", "seconds": 2.25},
                "languages": [{"code": "en"}],
            },
        ]


@in_loop
async def test_the_client_ends_the_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_session(monkeypatch) as (socket, opened):
        session = await updated(socket, turn_detection=None)
        assert session["audio"]["input"]["turn_detection"] is None
        live = await heard(socket, opened)
        assert live.keywords["turns"] == "manual"
        assert live.keywords["turn_silence"] == 0.5  # another value is refused in such sessions
        live.report(TurnStarted(0, 0.0), settled(0, "One."))
        (delta,) = await socket.until(f"{TEXT}.delta")
        socket.send({"type": "input_audio_buffer.commit"})
        events = await socket.until(f"{TEXT}.completed")
        assert without_ids(events)[:3] == committed(0, None)
        assert delta["item_id"] == events[0]["item_id"]
        assert "flush" in live.calls
        code = (await error_of(socket, {"type": "input_audio_buffer.commit"}))["code"]
        assert code == "input_audio_buffer_commit_empty"


@in_loop
async def test_a_commit_without_audio_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bound is 100 ms, as OpenAI's."""
    async with open_session(monkeypatch) as (socket, opened):
        commit = {"type": "input_audio_buffer.commit", "event_id": "mine"}
        error = await error_of(socket, commit)
        assert (error["code"], error["event_id"]) == ("input_audio_buffer_commit_empty", "mine")
        assert "0 ms" in error["message"]
        await heard(socket, opened, 0.09)
        assert "90 ms" in (await error_of(socket, commit))["message"]
        assert opened[0].calls == []


@in_loop
async def test_a_commit_of_silence_has_an_empty_text(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that commits waits for `completed`, also if nobody has spoken."""
    async with open_session(monkeypatch) as (socket, opened):
        live = await heard(socket, opened, 2.0)
        live.report(TurnStarted(0, 0.0), TurnEnded(0, 0.0, 0.5), final(0, "Yes."))
        await socket.until(f"{TEXT}.completed")
        socket.send({"type": "input_audio_buffer.commit"})
        events = without_ids(await socket.until(f"{TEXT}.completed"))
        assert events[-1] == {
            "type": f"{TEXT}.completed",
            "item_id": "item 1",
            "content_index": 0,
            "transcript": "",
            "usage": {"type": "duration", "seconds": 1.5},  # after the first turn
            "languages": [],
        }
        assert [event["type"] for event in events[:-1]] == [
            "input_audio_buffer.committed",
            "conversation.item.added",
            "conversation.item.done",
        ]


@in_loop
async def test_clear_forgets_the_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_session(monkeypatch) as (socket, opened):
        live = await heard(socket, opened)
        live.report(TurnStarted(0, 0.0))
        await socket.until("input_audio_buffer.speech_started")
        socket.send({"type": "input_audio_buffer.clear"})
        await socket.until("input_audio_buffer.cleared")
        live.report(TurnStarted(1, 2.0))
        started = await socket.receive()
        assert (started["type"], started["audio_start_ms"]) == (
            "input_audio_buffer.speech_started",
            2000,
        )
        error = await error_of(socket, {"type": "input_audio_buffer.commit"})
        assert error["code"] == "input_audio_buffer_commit_empty"


@in_loop
async def test_what_a_client_includes(monkeypatch: pytest.MonkeyPatch) -> None:
    reports: list[LiveEvent] = [
        settled(0, "So", " be"),
        Tail(0, " it"),
        Lag(3.25),
        Final(
            0,
            (fake_live.segment(7, "So", " be", start=2.0),),
            complete=True,
            language="en",
            duration=1.0,
        ),
    ]
    words: list[dict[str, Any]] = [
        {"word": "So", "start": 0.0, "end": 0.5},
        {"word": " be", "start": 0.5, "end": 1.0},
    ]
    async with open_session(monkeypatch) as (socket, opened):
        names = [f"{ITEM}.{name}" for name in ("logprobs", "tail", "segments", "words")]
        session = await updated(socket, include=[*names, "input_audio_buffer.lag", names[0]])
        assert session["include"] == [*names, "input_audio_buffer.lag"]
        (await heard(socket, opened)).report(*reports)
        assert opened[0].keywords["word_timestamps"] is True  # of the final text
        delta, tail, lag, segment, completed = await socket.until(f"{TEXT}.completed")
        half = math.log(0.5)
        assert delta["logprobs"] == [
            {"token": "So", "bytes": [83, 111], "logprob": half},
            {"token": " be", "bytes": [32, 98, 101], "logprob": half},
        ]
        assert delta["words"] == words
        assert (tail["type"], tail["text"]) == (f"{TEXT}.tail", " it")
        assert (lag["type"], lag["seconds"]) == ("input_audio_buffer.lag", 3.25)
        assert without_ids([segment]) == [
            {
                "type": f"{TEXT}.segment",
                "item_id": "item 0",
                "content_index": 0,
                "id": "seg_7",
                "start": 2.0,
                "end": 3.0,
                "text": "So be",
                "speaker": "",
                "words": [
                    {**each, "start": each["start"] + 2, "end": each["end"] + 2} for each in words
                ],
            }
        ]
        assert [each["token"] for each in completed["logprobs"]] == ["So", " be"]
        await updated(socket, include=None)
        assert opened[0].keywords["word_timestamps"] is False
        opened[0].report(*reports)
        types = [event["type"] for event in await socket.until(f"{TEXT}.completed")]
        assert types == [f"{TEXT}.delta", f"{TEXT}.completed"]


@in_loop
async def test_a_long_turn_has_one_text(monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_session(monkeypatch) as (socket, opened):
        live = await heard(socket, opened)
        live.report(
            final(0, "First part,", complete=False, duration=29.5),
            final(0, "and the rest.", duration=3.0),
        )
        (completed,) = await socket.until(f"{TEXT}.completed")
        assert completed["transcript"] == "First part, and the rest."
        assert completed["usage"]["seconds"] == 32.5
        chinese = (
            fake_live.segment(1, "你好", language="zh"),
            fake_live.segment(2, "世界", language="zh"),
        )
        live.report(Final(1, chinese, complete=True, language="zh", duration=2.0))
        (completed,) = await socket.until(f"{TEXT}.completed")
        assert completed["transcript"] == "你好世界"  # no spaces in this language
        assert completed["languages"] == [{"code": "zh"}]


@in_loop
async def test_a_turn_that_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """One part without a text makes the whole turn fail; the session goes on."""
    async with open_session(monkeypatch) as (socket, opened):
        live = await heard(socket, opened)
        live.report(
            Failed(0, EngineError("the engine is broken"), complete=False),
            final(0, "The rest."),
            final(1, "Next."),
        )
        failed, completed = await socket.until(f"{TEXT}.completed")
        assert failed["type"] == f"{TEXT}.failed"
        assert failed["error"] == {
            "type": "server_error",
            "code": "engine_failed",
            "message": "the engine is broken",
            "param": None,
        }
        assert completed["transcript"] == "Next."


@in_loop
async def test_mistakes_keep_the_session_open(monkeypatch: pytest.MonkeyPatch) -> None:
    path = "session.audio.input"
    cases: list[tuple[Any, str, str | None]] = [
        ("{", "invalid_json", None),
        ("[" * 100_000, "invalid_json", None),
        ('"text"', "invalid_json", None),
        ({"kind": "x"}, "missing", "type"),
        ({"type": 3}, "missing", "type"),
        ({"type": "nothing"}, "unknown_event", "type"),
        ({"type": "response.create"}, "unsupported_event", "type"),
        ({"type": "response.cancel"}, "unsupported_event", "type"),
        ({"type": "conversation.item.create", "item": {}}, "unsupported_event", "type"),
        ({"type": "input_audio_buffer.append"}, "missing", "audio"),
        ({"type": "input_audio_buffer.append", "audio": 3}, "missing", "audio"),
        ({"type": "input_audio_buffer.append", "audio": "äö"}, "invalid_audio", "audio"),
        ({"type": "input_audio_buffer.append", "audio": "abc"}, "invalid_audio", "audio"),
        ({"type": "input_audio_buffer.append", "audio": "ab\ncd"}, "invalid_audio", "audio"),
        ({"type": "session.update"}, "missing", "session"),
        ({"type": "session.update", "session": []}, "invalid_value", "session"),
        (
            update(transcription={"model": "no-model"}),
            "model_not_found",
            f"{path}.transcription.model",
        ),
        (
            update(transcription={"language": "xx"}),
            "invalid_value",
            f"{path}.transcription.language",
        ),
        (
            update(turn_detection={"type": "server_vad", "silence_duration_ms": 0}),
            "invalid_value",
            f"{path}.turn_detection.silence_duration_ms",
        ),
    ]
    async with open_session(monkeypatch) as (socket, opened):
        for sent, code, param in cases:
            if isinstance(sent, dict):
                sent["event_id"] = "mine"
            error = await error_of(socket, sent)
            event_id = "mine" if isinstance(sent, dict) else None
            assert (error["code"], error["param"], error["event_id"]) == (code, param, event_id)
            assert error["type"] == "invalid_request_error"
        socket.send_bytes(b"{}")
        assert (await socket.receive())["error"]["code"] == "invalid_message"
        live = await heard(socket, opened)  # and it still works
        assert live.fed == pcm(1.0)
        assert live.keywords["language"] is None


@in_loop
async def test_ids_of_clients_are_repeated_safely(monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_session(monkeypatch) as (socket, _):
        for given, repeated in (("x" * 600, "x" * 512), ("\ud800", "?"), (3, None), (None, None)):
            error = await error_of(socket, json.dumps({"type": "no", "event_id": given}))
            assert error["event_id"] == repeated


@in_loop
async def test_large_audio(monkeypatch: pytest.MonkeyPatch) -> None:
    """15 MiB of base64 are fed; one character more is refused."""
    async with open_session(monkeypatch) as (socket, opened):
        audio = bytes(15 * 2**20 // 4 * 3)
        socket.send(append(audio))
        error = await error_of(socket, append(audio + b"\0\0\0"))
        assert (error["code"], error["param"]) == ("audio_too_large", "audio")
        assert opened[0].fed == audio


@in_loop
async def test_the_formats_of_the_audio(monkeypatch: pytest.MonkeyPatch) -> None:
    codes = bytes(range(256)) * 50
    expected = {
        "audio/pcmu": (8000, mu_law()[list(codes)].astype("<i2").tobytes()),
        "audio/pcma": (8000, a_law()[list(codes)].astype("<i2").tobytes()),
    }
    async with open_session(monkeypatch) as (socket, opened):
        for kind, (rate, samples) in expected.items():
            async with connected(Client(socket.server)) as other:
                await other.receive()
                session = await updated(other, format={"type": kind})
                assert session["audio"]["input"]["format"] == {"type": kind}
                other.send(append(codes))
                await error_of(other, "{")
                assert opened[-1].keywords["sampling_rate"] == rate
                assert opened[-1].fed == samples
        for rate in (8000, 16000, 24000, 48000):
            await updated(socket, format={"type": "audio/pcm", "rate": rate})
            assert opened[-1].keywords["sampling_rate"] == rate
        assert [each.calls for each in opened[-4:-1]] == [["cancel"]] * 3
        live = await heard(socket, opened, 0.5)
        assert live.keywords["sampling_rate"] == 48_000
        error = await error_of(socket, update(format={"type": "audio/pcm", "rate": 8000}))
        assert error["param"] == "session.audio.input.format"
        assert opened[-1] is live


@in_loop
async def test_updates_in_mid_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only what is given changes, and only what has changed reaches the live session."""
    async with open_session(monkeypatch) as (socket, opened):
        live = await heard(socket, opened)
        await updated(
            socket,
            transcription={
                "model": "whisper-1",
                "language": "de",
                "prompt": "Hallo",
                "delay": "high",
            },
            noise_reduction={"type": "near_field", "strength": 1},
        )
        changed = {"language": "de", "initial_prompt": "Hallo", "delay": "high"}
        assert {name: live.keywords[name] for name in changed} == changed
        vad = {"type": "server_vad", "threshold": 0.7, "prefix_padding_ms": 250}
        session = await updated(socket, turn_detection={**vad, "silence_duration_ms": 900})
        assert live.keywords["vad_onset"] == 0.7
        assert live.keywords["vad_offset"] == pytest.approx(0.55)
        assert (live.keywords["speech_pad"], live.keywords["turn_silence"]) == (0.25, 0.9)
        given = session["audio"]["input"]
        assert given["turn_detection"] == {
            **vad,
            "silence_duration_ms": 900,
            "idle_timeout_ms": None,
        }
        assert given["transcription"]["language"] == "de"
        assert given["noise_reduction"] is None
        await updated(socket, transcription={"language": None, "keywords": ["Ann", "Bob"]})
        assert (live.keywords["language"], live.keywords["hotwords"]) == (None, "Ann, Bob")
        assert live.keywords["initial_prompt"] == "Hallo"
        calls = live.calls.count("update")
        await updated(socket, transcription={"delay": "high"})
        assert live.calls.count("update") == calls
        assert len(opened) == 1


@in_loop
async def test_options_of_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sessions use them, except those that live sessions do not have."""
    options = {"beam_size": 2, "language": "de", "vad": False, "hotwords": "Ann"}
    async with open_session(monkeypatch, options=options) as (socket, opened):
        live = await heard(socket, opened)
        assert live.keywords["beam_size"] == 2
        assert (live.keywords["language"], live.keywords["hotwords"]) == ("de", "Ann")
        assert "vad" not in live.keywords
        await updated(socket, transcription={"languages": ["en", "de"]})
        assert (live.keywords["language"], live.keywords["languages"]) == (None, ("en", "de"))


@in_loop
async def test_a_session_that_is_behind_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """No audio is lost, and the events after it wait, too."""
    async with open_session(monkeypatch) as (socket, opened):
        live = await heard(socket, opened, 0.5)
        live.feeding = BacklogError("too slow")
        socket.send(append(pcm(0.5)))
        socket.send({"type": "no"})
        await asyncio.sleep(0.3)
        assert socket.waiting == 0
        live.feeding = None
        assert (await socket.receive())["error"]["code"] == "unknown_event"
        assert live.fed == pcm(0.5) * 2


@in_loop
async def test_a_session_that_stays_behind_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "BACKLOG_TIME", 0.2)
    async with open_session(monkeypatch) as (socket, opened):
        live = await heard(socket, opened, 0.5)
        live.feeding = BacklogError("60 s of audio wait")
        socket.send(append(pcm(0.5)))
        error, _ = await socket.until("closed")
        assert (error["error"]["code"], error["error"]["type"]) == ("audio_backlog", "server_error")
        assert socket.closed == 1013
        assert live.calls == ["cancel"]


@in_loop
async def test_a_client_that_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its work is cancelled at once, also while audio waits."""
    async with open_session(monkeypatch) as (socket, opened):
        live = await heard(socket, opened)
        live.feeding = BacklogError("too slow")
        socket.send(append(pcm(0.5)))
        await asyncio.sleep(0.05)
        await asyncio.wait_for(socket.leave(), 1)
        assert live.calls == ["cancel"]


@in_loop
async def test_a_client_that_does_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "SEND_TIME", 0.2)
    async with open_session(monkeypatch) as (socket, opened):
        live = await heard(socket, opened)
        socket.reads.clear()
        live.report(*(settled(0, "word") for _ in range(sessions.MAX_OUTBOX * 2)))
        await asyncio.wait_for(socket.task, 5)
        assert live.calls == ["cancel"]


@in_loop
async def test_the_inbox_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is read from the connection while much audio waits."""
    monkeypatch.setattr(sessions, "MAX_INBOX", 100_000)
    async with open_session(monkeypatch) as (socket, opened):
        live = await heard(socket, opened, 0.5)
        live.feeding = BacklogError("too slow")
        for _ in range(20):
            socket.send(append(pcm(0.5)))  # 32,000 characters
        await asyncio.sleep(0.3)
        assert 14 <= socket.unread <= 17
        live.feeding = None
        await error_of(socket, "{")
        assert live.fed == pcm(0.5) * 21


@in_loop
async def test_limits_of_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "LOOK", 0.05)
    async with open_session(monkeypatch, session_idle=0.3) as (socket, opened):
        live = await heard(socket, opened)
        live.report(TurnStarted(0, 0.0))
        events = await socket.until("closed")
        assert socket.closed == 1000
        assert events[-2]["error"]["code"] == "session_idle"
        assert events[-3]["transcript"] == "Last."  # what was said is not lost
    async with open_session(monkeypatch, max_session=0.3) as (socket, opened):
        error, _ = await socket.until("closed")
        assert (socket.closed, error["error"]["code"]) == (1001, "session_expired")


@in_loop
async def test_the_server_shuts_down(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients get their last text, and a code after which they connect again."""
    monkeypatch.setattr(sessions, "LOOK", 0.05)
    async with open_session(monkeypatch) as (socket, opened):
        live = await heard(socket, opened)
        live.report(TurnStarted(0, 0.0))
        assert socket.server.active == 1
        socket.server.admission.closed = True
        _, completed, _ = await socket.until("closed")
        assert (completed["transcript"], socket.closed) == ("Last.", 1012)
        await asyncio.wait_for(socket.task, 1)
        assert socket.server.active == 0
        async with connected(Client(socket.server)) as other:
            assert (other.status, other.answer.error["code"]) == (503, "unavailable")
            assert "retry-after" in other.answer.headers


@in_loop
async def test_a_client_leaves_while_its_session_is_opened(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nobody else could end the live session, which would keep its thread and its share."""
    begun, may_open = threading.Event(), threading.Event()
    create = FakeLive.__init__

    def slow(live: FakeLive, **keywords: Any) -> None:
        begun.set()
        assert may_open.wait(20)
        create(live, **keywords)

    monkeypatch.setattr(FakeLive, "__init__", slow)
    async with open_session(monkeypatch) as (socket, opened):
        socket.send(append(pcm(0.1)))
        await asyncio.to_thread(begun.wait, 20)
        await socket.leave()
        assert opened == []
        may_open.set()
        for _ in range(2000):
            if opened and opened[0].calls:
                break
            await asyncio.sleep(0.005)
        assert opened[0].calls == ["cancel"]


@in_loop
async def test_audio_that_has_arrived_is_heard_before_a_restart(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sessions, "LOOK", 0.05)
    feed = FakeLive.feed

    def slow(live: FakeLive, samples: Any) -> None:
        time.sleep(0.02)
        feed(live, samples)

    monkeypatch.setattr(FakeLive, "feed", slow)
    async with open_session(monkeypatch) as (socket, opened):
        live = await heard(socket, opened)
        before = len(live.fed)
        for _ in range(20):
            socket.send(append(pcm(0.1)))
        socket.server.admission.closed = True
        await socket.until("closed")
        assert socket.closed == 1012
        assert len(live.fed) - before == 20 * len(pcm(0.1))


@in_loop
async def test_the_model_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_session(monkeypatch) as (socket, opened):
        live = await heard(socket, opened)
        live.report(ClosedError("the Transcriber was closed"))
        error, _ = await socket.until("closed")
        assert (error["error"]["code"], socket.closed) == ("unavailable", 1012)


@in_loop
async def test_an_unexpected_error(monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_session(monkeypatch) as (socket, opened):
        live = await heard(socket, opened)
        live.report(RuntimeError("a mistake"))
        error, _ = await socket.until("closed")
        assert (error["error"]["code"], socket.closed) == ("internal_error", 1011)
        assert live.calls == ["cancel"]


@in_loop
async def test_the_number_of_sessions(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running(monkeypatch, max_sessions=3) as client:
        async with connected(client) as first:
            assert first.status == 101
            async with connected(client) as second:  # the same client
                assert (second.status, second.answer.error["code"]) == (429, "too_many_requests")
                assert int(second.answer.headers["retry-after"]) >= 1
            client.address = "10.0.0.2"
            async with connected(client) as other:
                assert other.status == 101
                client.address = "10.0.0.3"
                async with connected(client) as third:
                    assert third.status == 101
                    client.address = "10.0.0.4"
                    async with connected(client) as fourth:
                        assert (fourth.status, fourth.answer.error["code"]) == (429, "queue_full")
        async with connected(client) as again:
            assert again.status == 101


@in_loop
async def test_the_limits_of_a_key(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.setattr(sessions, "LOOK", 0.05)
    keys = tmp_path / "keys"
    keys.write_text("a name=alice requests=2 requests_per_minute=3\nb name=bob audio_per_day=2\n")
    alice, bob = ({"authorization": f"Bearer {key}"} for key in "ab")
    with fake_live.fake_live(monkeypatch) as opened:
        async with running(monkeypatch, api_keys_file=keys) as client:
            async with (
                connected(client, headers=alice) as first,
                connected(client, headers=alice) as second,
                connected(client, headers=alice) as third,
            ):
                assert [first.status, second.status, third.status] == [101, 101, 429]
                assert third.answer.error["code"] == "too_many_requests"
            async with (
                connected(client, headers=alice) as fourth,
                connected(client, headers=alice) as fifth,
            ):
                assert (fourth.status, fifth.status) == (101, 429)
                assert fifth.answer.error["code"] == "rate_limit_reached"
            async with connected(client, headers=bob) as socket:
                await socket.receive()
                await heard(socket, opened, 1.5)
                socket.send(append(pcm(1.0)))
                error, _ = await socket.until("closed")
                assert (error["error"]["code"], socket.closed) == ("audio_limit_reached", 1008)
            async with connected(client, headers=bob) as socket:
                assert (socket.status, socket.answer.error["code"]) == (429, "audio_limit_reached")


@in_loop
async def test_models(monkeypatch: pytest.MonkeyPatch) -> None:
    """A name of OpenAI is the first model, as for requests."""
    async with running(monkeypatch, model="base,tiny.en", alias="quick=tiny.en") as client:
        for query, status in (
            ("model=tiny.en", 101),
            ("model=quick&intent=transcription", 101),
            ("model=gpt-realtime", 101),
            ("model=gpt-4o-realtime-preview-2025-06-03", 101),
            ("model=gpt-4o-mini-transcribe", 101),
            ("model=nothing", 404),
        ):
            async with connected(client, query=query) as socket:
                assert socket.status == status, query
        async with connected(client, query="model=gpt-realtime-whisper") as socket:
            given = (await socket.receive())["session"]["audio"]["input"]
            assert given["transcription"]["model"] == "gpt-realtime-whisper"
            assert given["turn_detection"] is None  # as OpenAI's model, which has none


@in_loop
async def test_subprotocols(monkeypatch: pytest.MonkeyPatch) -> None:
    """A browser fails without the one that it offers; the key is not repeated."""
    async with running(monkeypatch, api_key="secret") as client:
        for offered, selected in (
            ("realtime, openai-insecure-api-key.secret", "realtime"),
            ("openai-insecure-api-key.secret,openai-project.p,realtime", "realtime"),
            ("openai-insecure-api-key.secret", None),
        ):
            headers = {"sec-websocket-protocol": offered}
            async with connected(client, headers=headers) as socket:
                assert (socket.status, socket.subprotocol) == (101, selected)


@in_loop
async def test_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "LOOK", 0.05)
    with fake_live.fake_live(monkeypatch) as opened:
        async with running(monkeypatch) as client:
            async with connected(client) as socket:
                await socket.receive()
                live = await heard(socket, opened, 3.0)
                live.report(
                    settled(0, "Yes.", start=1.0)
                )  # its end is 1.5 s before the newest audio
                await socket.receive()
                live.lag = 4.5
                await asyncio.sleep(0.2)
                found = await figures(client)
                assert found["whisperbatch_live_sessions"] == 1
                assert found["whisperbatch_live_lag_seconds"] == 4.5
                assert found["whisperbatch_live_settled_seconds_sum"] == pytest.approx(1.5)
                await error_of(socket, "{")
            found = await figures(client)
            assert found["whisperbatch_live_sessions"] == 0
            assert found["whisperbatch_audio_seconds_total"] == pytest.approx(3.0)
            assert found['whisperbatch_errors_total{code="invalid_json"}'] == 1
            requests = 'whisperbatch_requests_total{path="/v1/realtime",status="101"}'
            assert found[requests] == 1


@in_loop
async def test_a_request_that_is_no_websocket(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running(monkeypatch) as client:
        answer = await client.request("GET", "/v1/realtime")
        assert (answer.status, answer.error["code"]) == (426, "upgrade_required")
        async with connected(client, "/realtime/") as socket:
            assert socket.status == 101


@in_loop
async def test_a_session_with_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """The other spelling of the current protocol: its other fields have no effect."""
    async with open_session(monkeypatch, query="model=gpt-realtime") as (socket, opened):
        socket.send(
            {
                "type": "session.update",
                "session": {
                    "type": "realtime",
                    "instructions": "Be kind.",
                    "output_modalities": ["text"],
                    "tools": [],
                    "audio": {
                        "input": {"transcription": {"model": "whisper-1", "language": "en"}},
                        "output": {"voice": "alloy"},
                    },
                },
            }
        )
        session = (await socket.receive())["session"]
        assert (session["type"], session["object"]) == ("realtime", "realtime.session")
        assert opened[0].keywords["language"] == "en"
