"""The loaded models, and loading and unloading them with the admin key."""

import asyncio
import json
from datetime import datetime, timezone
from typing import Any

import pytest
from pydantic import ValidationError

from tests.unit.server.asgi import Answer, Client, in_loop, running, wav
from tests.unit.server.test_app import HeldEngine, until
from tests.unit.server.test_endpoints import settings_of

KEY = "to the models"


async def call(client: Client, path: str, key: str | None = KEY, **values: Any) -> Answer:
    headers = {"content-type": "application/json"}
    if key is not None:
        headers["authorization"] = f"Bearer {key}"
    body = json.dumps(values).encode()
    return await client.request("POST", f"/api/{path}", headers=headers, pieces=[body])


async def loaded(client: Client) -> list[str]:
    answer = await client.request("GET", "/api/ps")
    return [each["name"] for each in answer.json["models"]]


@in_loop
async def test_the_loaded_models(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("whisperbatch.server.administration.process_memory", lambda: 77)
    settings: dict[str, Any] = {"model": "base,tiny.en", "alias": "fast=tiny.en", "model_ttl": 100}
    async with running(monkeypatch, **settings) as client:
        answer = (await client.request("GET", "/api/ps")).json
        assert answer["memory"] == 77
        base, tiny = answer["models"]
        assert (base["name"], base["aliases"], base["requests"]) == ("base", [], 0)
        assert (tiny["name"], tiny["aliases"], tiny["draft_model"]) == ("tiny.en", ["fast"], False)
        now = datetime.now(timezone.utc)
        since = (now - datetime.fromisoformat(base["loaded_at"])).total_seconds()
        left = (datetime.fromisoformat(base["expires_at"]) - now).total_seconds()
        assert 0 <= since < 20
        assert 80 < left <= 100


@in_loop
async def test_requests_in_work(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = HeldEngine()
    async with running(monkeypatch, engine, model_ttl=50, admin_key=KEY) as client:
        request = asyncio.ensure_future(client.post({"model": "base"}, wav(3)))
        await until(engine.called.is_set)
        (base,) = (await client.request("GET", "/api/ps")).json["models"]
        assert (base["requests"], base["expires_at"]) == (1, None)
        refused = await call(client, "unload", model="base")
        assert (refused.status, refused.error["code"]) == (409, "model_in_use")
        assert refused.headers["x-should-retry"] == "false"
        assert await loaded(client) == ["base"]
        forced = asyncio.ensure_future(call(client, "unload", model="base", force=True))
        assert (await request).status == 503
        engine.release.set()
        assert (await forced).json == {"name": "base", "unloaded": True}
        assert await loaded(client) == []


@in_loop
async def test_loading_and_unloading(monkeypatch: pytest.MonkeyPatch) -> None:
    settings: dict[str, Any] = {"model": "base,tiny.en", "alias": "fast=tiny.en", "admin_key": KEY}
    async with running(monkeypatch, **settings) as client:
        assert (await call(client, "unload", model="fast")).json == {
            "name": "tiny.en",
            "unloaded": True,
        }
        assert (await call(client, "unload", model="tiny.en")).json["unloaded"] is False
        assert await loaded(client) == ["base"]
        assert (await client.post({"model": "tiny.en"}, wav(1))).status == 200
        assert await loaded(client) == ["base", "tiny.en"]
        assert (await call(client, "unload", model="whisper-1")).json["name"] == "base"
        answer = await call(client, "load", model="base")
        assert (answer.status, answer.json["name"], answer.json["requests"]) == (200, "base", 0)
        assert await loaded(client) == ["base", "tiny.en"]


@in_loop
async def test_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running(monkeypatch) as client:
        for path in ("load", "unload"):
            answer = await call(client, path, model="base")
            assert (answer.status, answer.error["code"]) == (403, "no_admin_key")
            assert "--admin-key" in answer.error["message"]
    async with running(monkeypatch, admin_key=KEY) as client:
        for key in (None, "", "wrong", KEY + " more", KEY[:-1], "schlüssel"):
            for path in ("load", "unload"):
                answer = await call(client, path, key, model="base")
                assert (answer.status, answer.error["code"]) == (401, "invalid_api_key")
        assert await loaded(client) == ["base"]
        assert (await call(client, "load", model="base")).status == 200
    async with running(monkeypatch, admin_key=KEY, api_key="client") as client:
        assert (await client.request("GET", "/api/ps")).status == 401
        assert (await call(client, "load", model="base")).status == 200
        assert (await call(client, "load", "client", model="base")).status == 401
        assert (await client.request("GET", "/api/load")).status == 405
    with pytest.raises(ValidationError, match="admin_key"):
        settings_of(admin_key="")


@in_loop
async def test_wrong_bodies(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running(monkeypatch, admin_key=KEY) as client:
        for name in ("other", "/etc", "../base", "openai/whisper-tiny", "https://example.com", ""):
            for path in ("load", "unload"):
                answer = await call(client, path, model=name)
                assert (answer.status, answer.error["code"]) == (404, "model_not_found")
        for path, values, param in (
            ("load", {}, "model"),
            ("load", {"model": 1}, "model"),
            ("load", {"model": "base", "force": True}, "force"),
            ("unload", {"model": "base", "force": "yes"}, "force"),
            ("unload", {"model": "base", "source": "/"}, "source"),
        ):
            answer = await call(client, path, **values)
            assert (answer.status, answer.error["param"]) == (400, param)
        headers = {"authorization": f"Bearer {KEY}"}
        for body, status in ((b"", 400), (b"[" * 9000, 400), (b"no", 400), (b" " * 10_001, 413)):
            answer = await client.request("POST", "/api/load", headers=headers, pieces=[body])
            assert answer.status == status
        client.server.admission.closed = True
        assert (await call(client, "load", model="base")).status == 503
