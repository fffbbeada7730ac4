"""Clients of the old generation of the protocol."""

import asyncio
from typing import Any

import pytest

from tests.unit.server import fake_live
from tests.unit.server.asgi import connected, in_loop, running
from tests.unit.server.fake_live import final, settled
from tests.unit.server.test_realtime import TEXT, append, error_of, heard, open_session
from whisperbatch.live import TurnEnded, TurnStarted

OLD = {"openai-beta": "realtime=v1"}
UPDATE = {
    "type": "transcription_session.update",
    "session": {
        "input_audio_format": "g711_ulaw",
        "input_audio_transcription": {"model": "whisper-1", "language": "en", "prompt": "Yes"},
        "turn_detection": {"type": "server_vad", "silence_duration_ms": 400},
        "input_audio_noise_reduction": {"type": "near_field"},
        "include": ["item.input_audio_transcription.logprobs"],
        "modalities": ["audio", "text"],
    },
}


@pytest.mark.parametrize(
    "headers",
    [OLD, {"sec-websocket-protocol": "realtime, openai-beta.realtime-v1"}],
    ids=["header", "subprotocol"],
)
def test_a_session(monkeypatch: pytest.MonkeyPatch, headers: dict[str, str]) -> None:
    @in_loop
    async def test() -> None:
        query = "intent=transcription&model=whisper-1"
        with fake_live.fake_live(monkeypatch) as opened:
            async with (
                running(monkeypatch) as client,
                connected(client, query=query, headers=headers) as socket,
            ):
                created = await socket.receive()
                assert created["type"] == "transcription_session.created"
                assert created["session"]["input_audio_format"] == "pcm16"
                assert created["session"]["object"] == "realtime.transcription_session"
                socket.send(UPDATE)
                answer = await socket.receive()
                assert answer["type"] == "transcription_session.updated"
                session = answer["session"]
                assert session["input_audio_format"] == "g711_ulaw"
                assert session["input_audio_transcription"]["language"] == "en"
                assert session["turn_detection"]["silence_duration_ms"] == 400
                assert session["input_audio_noise_reduction"] is None
                assert session["include"] == UPDATE["session"]["include"]  # type: ignore[index]
                live = opened[0]
                assert (live.keywords["sampling_rate"], live.keywords["turn_silence"]) == (
                    8000,
                    0.4,
                )
                socket.send(append(bytes(8000)))
                live.report(
                    TurnStarted(0, 0.0),
                    settled(0, "Yes."),
                    TurnEnded(0, 0.0, 0.5),
                    final(0, "Yes."),
                )
                events = await socket.until(f"{TEXT}.completed")
                assert [event["type"] for event in events] == [
                    "input_audio_buffer.speech_started",
                    f"{TEXT}.delta",
                    "input_audio_buffer.speech_stopped",
                    "input_audio_buffer.committed",
                    "conversation.item.created",
                    f"{TEXT}.completed",
                ]
                assert events[4]["item"]["id"] == events[0]["item_id"]
                assert events[-1]["transcript"] == "Yes."
                assert events[-1]["logprobs"][0]["token"] == "Yes."  # noqa: S105 - a word

    test()


@in_loop
async def test_the_first_update_tells_that_a_client_is_old(monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_session(monkeypatch) as (socket, opened):
        socket.send({"type": "transcription_session.update", "session": {}})
        answer = await socket.receive()
        assert answer["type"] == "transcription_session.updated"
        assert answer["session"]["input_audio_format"] == "pcm16"
        live = await heard(socket, opened)
        live.report(TurnStarted(0, 0.0), TurnEnded(0, 0.0, 0.5), final(0, "Yes."))
        types = [event["type"] for event in await socket.until(f"{TEXT}.completed")]
        assert "conversation.item.created" in types
        assert "conversation.item.done" not in types


@in_loop
async def test_a_session_with_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """`session.update` with the old fields, as clients of conversations send it."""
    with fake_live.fake_live(monkeypatch) as opened:
        async with (
            running(monkeypatch) as client,
            connected(client, query="model=gpt-4o-realtime-preview", headers=OLD) as socket,
        ):
            assert (await socket.receive())["type"] == "session.created"
            session: dict[str, Any] = {
                "instructions": "Be kind.",
                "voice": "alloy",
                "input_audio_transcription": {"model": "whisper-1", "language": "de"},
                "turn_detection": None,
            }
            socket.send({"type": "session.update", "session": session})
            answer = await socket.receive()
            assert answer["type"] == "session.updated"
            assert answer["session"]["object"] == "realtime.session"
            assert answer["session"]["turn_detection"] is None
            assert (opened[0].keywords["language"], opened[0].keywords["turns"]) == ("de", "manual")


@in_loop
async def test_errors_have_the_old_names(monkeypatch: pytest.MonkeyPatch) -> None:
    update = "transcription_session.update"
    cases = [
        ({"input_audio_format": "mp3"}, "session.input_audio_format"),
        (
            {"input_audio_transcription": {"language": "xx"}},
            "session.input_audio_transcription.language",
        ),
        (
            {"turn_detection": {"type": "server_vad", "threshold": 3}},
            "session.turn_detection.threshold",
        ),
    ]
    async with open_session(monkeypatch) as (socket, _):
        for session, param in cases:
            error = await error_of(socket, {"type": update, "session": session})
            assert error["param"] == param
            assert param in error["message"]
            assert "audio/pcm" not in error["message"]
        wrong = await error_of(socket, {"type": update, "session": 3})
        assert wrong["param"] == "session"


@in_loop
async def test_a_current_client_is_not_old(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another beta of OpenAI's API is none of this protocol."""
    async with (
        running(monkeypatch) as client,
        connected(client, headers={"openai-beta": "assistants=v2"}) as socket,
    ):
        created = await asyncio.wait_for(socket.receive(), 5)
        assert (created["type"], created["session"]["type"]) == ("session.created", "transcription")
