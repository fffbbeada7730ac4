"""Short-lived keys that a backend makes for browsers: POST /v1/realtime/client_secrets."""

import json
import re
import time
from pathlib import Path
from typing import Any

import openai
import pytest

from tests.unit.server.asgi import Answer, Client, connected, in_loop, running
from tests.unit.server.fake_live import fake_live
from tests.unit.server.test_realtime_connections import serving
from whisperbatch.server.realtime import client_secrets

NEW = "/v1/realtime/client_secrets"
OLD = "/v1/realtime/transcription_sessions"
SESSION: dict[str, Any] = {
    "type": "transcription",
    "audio": {
        "input": {
            "format": {"type": "audio/pcmu"},
            "transcription": {"language": "de", "prompt": "Anna", "delay": "low"},
            "turn_detection": None,
        }
    },
    "include": ["item.input_audio_transcription.logprobs"],
}


async def make(client: Client, body: object = None, path: str = NEW, key: str = "secret") -> Answer:
    text = body if isinstance(body, str) else json.dumps({} if body is None else body)
    return await client.request(
        "POST", path, headers={"authorization": f"Bearer {key}"}, pieces=[text.encode()]
    )


async def opened(client: Client, key: str, query: str = "", **more: str) -> tuple[int, Any]:
    """Status of a handshake with a key, and the session that was created, or the error."""
    headers = {"authorization": f"Bearer {key}", **more}
    async with connected(client, query=query, headers=headers) as socket:
        if socket.status != 101:
            return socket.status, socket.answer.error
        return socket.status, (await socket.receive())["session"]


@in_loop
async def test_the_session_has_the_configuration_of_the_secret(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with running(monkeypatch, api_key="secret") as client:
        before = int(time.time())
        answer = await make(client, {"session": SESSION})
        assert answer.status == 200
        assert set(answer.json) == {"value", "expires_at", "session"}
        assert re.fullmatch(r"ek_[0-9a-f]{32}", answer.json["value"])
        assert before + 600 <= answer.json["expires_at"] <= time.time() + 600
        made = answer.json["session"]
        assert made["object"] == "realtime.transcription_session"
        assert made["audio"]["input"]["format"] == {"type": "audio/pcmu"}
        for _ in range(2):  # as often as wanted
            status, session = await opened(client, answer.json["value"])
            assert status == 101
            for name in ("type", "audio", "include"):
                assert session[name] == made[name]
            assert session["id"] != made["id"]
        # another session has none of it
        _, plain = await opened(client, "secret")
        assert plain["audio"]["input"]["transcription"]["language"] is None


@in_loop
async def test_the_client_may_change_the_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    with fake_live(monkeypatch) as lives:
        async with running(monkeypatch, api_key="secret") as client:
            key = (await make(client, {"session": SESSION})).json["value"]
            offered = {"sec-websocket-protocol": f"realtime, openai-insecure-api-key.{key}"}
            async with connected(client, headers=offered) as socket:
                assert socket.subprotocol == "realtime"
                await socket.receive()
                changes = {"audio": {"input": {"transcription": {"language": "ru"}}}}
                socket.send({"type": "session.update", "session": changes})
                await socket.until("session.updated")
    assert lives[0].keywords["language"] == "ru"
    assert lives[0].keywords["initial_prompt"] == "Anna"
    assert lives[0].keywords["turns"] == "manual"


@in_loop
async def test_the_model_of_the_secret_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running(monkeypatch, api_key="secret", model="base,small") as client:
        session = {"audio": {"input": {"transcription": {"model": "small"}}}}
        named = (await make(client, {"session": session})).json["value"]
        plain = (await make(client)).json["value"]
        for key, query, expected in (
            (named, "", "small"),
            (named, "model=gpt-realtime", "small"),
            (plain, "model=small", "small"),
            (plain, "", "base"),
        ):
            status, found = await opened(client, key, query)
            assert (status, found["audio"]["input"]["transcription"]["model"]) == (101, expected)


@in_loop
async def test_a_secret_opens_live_sessions_only(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running(monkeypatch, api_key="secret") as client:
        key = (await make(client)).json["value"]
        for path in (NEW, OLD, "/v1/audio/transcriptions"):
            answer = await make(client, path=path, key=key)
            assert (answer.status, answer.error["code"]) == (401, "invalid_api_key")
            assert "live sessions only" in answer.error["message"]
        for wrong in ("", "wrong", "ek_", key[:-1], f"{key}0"):
            assert (await opened(client, wrong))[0] == 401
            assert (await make(client, key=wrong)).status == 401


@in_loop
async def test_a_secret_expires(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running(monkeypatch, api_key="secret") as client:
        answer = await make(client, {"expires_after": {"anchor": "created_at", "seconds": 10}})
        key, expires = answer.json["value"], answer.json["expires_at"]
        known = client.server._client_secrets._known
        async with connected(client, headers={"authorization": f"Bearer {key}"}) as socket:
            await socket.receive()
            monkeypatch.setattr(known, "now", lambda: expires + 1.0)
            status, error = await opened(client, key)
            assert (status, error["code"]) == (401, "invalid_api_key")
            assert "make another" in error["message"]
            socket.send("{")  # an open session goes on
            await socket.until("error")


@in_loop
async def test_a_secret_counts_for_its_key(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    keys.write_text("k-ann name=ann requests=1\nk-bob name=bob\n")
    async with running(monkeypatch, api_keys_file=keys) as client:
        ann, bob = [(await make(client, key=key)).json["value"] for key in ("k-ann", "k-bob")]
        async with connected(client, headers={"authorization": f"Bearer {ann}"}):
            for key in (ann, "k-ann"):
                status, error = await opened(client, key)
                assert (status, error["code"]) == (429, "too_many_requests")
            assert (await opened(client, bob))[0] == 101
        assert (await opened(client, "k-ann"))[0] == 101
        keys.write_text("k-bob name=bob\n")
        client.server.reload_keys()
        assert (await opened(client, ann))[0] == 401  # its key is gone
        assert (await opened(client, bob))[0] == 101


@in_loop
async def test_the_number_of_secrets_is_limited(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(client_secrets, "MAX_SECRETS", 6)
    keys = tmp_path / "keys"
    keys.write_text("k-ann name=ann\nk-bob name=bob\n")
    async with running(monkeypatch, api_keys_file=keys) as client:
        statuses = [(await make(client, key="k-ann")).status for _ in range(4)]
        assert statuses == [200, 200, 200, 429]
        assert (await make(client, key="k-bob")).status == 200
        monkeypatch.setattr(client.server._client_secrets._known, "now", lambda: time.time() + 601)
        assert (await make(client, key="k-ann")).status == 200


@in_loop
async def test_wrong_requests_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    transcription = "session.audio.input.transcription"
    async with running(monkeypatch, api_key="secret") as client:
        for body, param in (
            ("", None),
            ("[]", None),
            ({"seconds": 5}, "seconds"),
            ({"expires_after": 60}, "expires_after"),
            ({"expires_after": {"seconds": 9}}, "expires_after.seconds"),
            ({"expires_after": {"seconds": 7201}}, "expires_after.seconds"),
            ({"expires_after": {"seconds": 60.5}}, "expires_after.seconds"),
            ({"expires_after": {"seconds": True}}, "expires_after.seconds"),
            ({"expires_after": {"anchor": "now"}}, "expires_after.anchor"),
            ({"session": []}, "session"),
            ({"session": {"type": "translation"}}, "session.type"),
            (
                {"session": {"audio": {"input": {"transcription": {"language": "xx"}}}}},
                f"{transcription}.language",
            ),
            (
                {"session": {"audio": {"input": {"transcription": {"delay": "none"}}}}},
                f"{transcription}.delay",
            ),
        ):
            answer = await make(client, body)
            assert (answer.status, answer.error["param"]) == (400, param), body
        unknown = {"session": {"audio": {"input": {"transcription": {"model": "huge"}}}}}
        answer = await make(client, unknown)
        assert (answer.status, answer.error["param"]) == (404, f"{transcription}.model")
        assert (await make(client, json.dumps({"session": "x" * 200_000}))).status == 413
        client.server.admission.closed = True
        assert (await make(client)).status == 503


@in_loop
async def test_a_server_without_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """A page of another origin needs a secret; the session counts for the address."""
    async with running(monkeypatch) as client:
        page = {"host": "127.0.0.1:8000", "origin": "https://page.example"}
        key = (await make(client, {"session": SESSION})).json["value"]
        assert (await opened(client, "none", **page))[0] == 403
        status, session = await opened(client, key, **page)
        assert status == 101
        assert session["audio"]["input"]["transcription"]["language"] == "de"
        assert (await opened(client, "ek_unknown"))[0] == 401
        headers = {**page, "content-length": "2"}
        refused = await client.request("POST", NEW, headers=headers, pieces=[b"{}"])
        assert refused.status == 403


@in_loop
async def test_the_old_generation(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running(monkeypatch, api_key="secret") as client:
        body = {
            "input_audio_format": "g711_alaw",
            "input_audio_transcription": {"model": "whisper-1", "language": "ru"},
            "turn_detection": None,
            "client_secret": {"expires_at": {"anchor": "created_at", "seconds": 60}},
        }
        answer = await make(client, body, OLD)
        assert answer.status == 200
        made = answer.json
        assert made["object"] == "realtime.transcription_session"
        assert made["input_audio_format"] == "g711_alaw"
        assert made["input_audio_transcription"]["language"] == "ru"
        assert 55 <= made["client_secret"]["expires_at"] - time.time() <= 60
        status, session = await opened(
            client,
            made["client_secret"]["value"],
            "intent=transcription",
            **{"openai-beta": "realtime=v1"},
        )
        assert (status, session["input_audio_format"]) == (101, "g711_alaw")
        assert session["turn_detection"] is None
        wrong = await make(client, {"input_audio_format": "mp3"}, OLD)
        assert (wrong.status, wrong.error["param"]) == (400, "session.input_audio_format")


@in_loop
async def test_the_official_client(monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving(monkeypatch, api_key="secret") as (_, address, _opened):
        async with openai.AsyncOpenAI(base_url=f"http://{address}/v1", api_key="secret") as client:
            made = await client.realtime.client_secrets.create(
                expires_after={"anchor": "created_at", "seconds": 30},
                session={
                    "type": "transcription",
                    "audio": {"input": {"transcription": {"language": "de"}}},
                },
            )
            assert made.session.type == "transcription"
            beta: Any = client.beta.realtime.transcription_sessions
            old = await beta.create(input_audio_transcription={"language": "ru"})
            assert old.client_secret.value.startswith("ek_")
        async with (
            openai.AsyncOpenAI(base_url=f"http://{address}/v1", api_key=made.value) as browser,
            browser.realtime.connect(extra_query={"intent": "transcription"}) as connection,
        ):
            created: Any = await connection.recv()
            assert created.session.audio.input.transcription.language == "de"
