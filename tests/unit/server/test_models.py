"""The models of a server: names, aliases, the time to live."""

import asyncio
import threading
from typing import Any

import pytest

import whisperbatch as wb
from tests.unit.fakes import FakeEngine
from tests.unit.server.asgi import in_loop, running, wav
from tests.unit.server.test_app import HeldEngine, until
from tests.unit.server.test_endpoints import settings_of
from whisperbatch import Transcriber
from whisperbatch.server.errors import ApiError
from whisperbatch.server.models import Models, ServedModel
from whisperbatch.server.settings import ServerSettings


class Loader:
    """`load` with fake engines. `sources` has what was loaded, in order."""

    def __init__(self) -> None:
        self.sources: list[str] = []
        self.engines: list[FakeEngine] = []

    def __call__(self, source: str) -> Transcriber:
        self.sources.append(source)
        self.engines.append(FakeEngine())
        return Transcriber(self.engines[-1])


def test_aliases_are_names_of_models() -> None:
    aliases = {"whisper-1": "tiny.en", "fast": "tiny.en"}
    models = Models(["base", "tiny.en"], Loader(), aliases=aliases)
    names = ("base", "tiny.en", "fast", "whisper-1", "gpt-4o-transcribe")
    found = [models.find(name).name for name in names]
    assert found == ["base", "tiny.en", "tiny.en", "tiny.en", "base"]
    with pytest.raises(ApiError, match=r"base, tiny\.en, whisper-1, fast") as error:
        models.find("other")
    assert error.value.status == 404


@pytest.mark.parametrize(
    ("aliases", "message"),
    [
        ({"fast": "tiny"}, "'fast' means the model 'tiny', but this server has base"),
        ({"base": "base"}, "'base' is already the name of a model"),
        ({"a": "b", "b": "base"}, "'a' means the model 'b'"),
    ],
    ids=str,
)
def test_wrong_aliases(aliases: dict[str, str], message: str) -> None:
    with pytest.raises(wb.OptionError, match=message):
        Models(["base"], Loader(), aliases=aliases)


def test_the_setting_of_aliases() -> None:
    settings = settings_of(alias="whisper-1=base, fast = tiny.en,")
    assert settings.aliases == {"whisper-1": "base", "fast": "tiny.en"}
    for wrong in ("base", "=base", "fast=", "fast=base,fast=tiny.en"):
        with pytest.raises(wb.OptionError, match="alias"):
            _ = settings_of(alias=wrong).aliases


@in_loop
async def test_clients_see_and_use_aliases(monkeypatch: pytest.MonkeyPatch) -> None:
    settings: dict[str, Any] = {"model": "base,tiny.en", "alias": "fast=tiny.en,whisper-1=tiny.en"}
    async with running(monkeypatch, **settings) as client:
        listed = (await client.request("GET", "/v1/models")).json["data"]
        assert [(each["id"], each.get("parent")) for each in listed] == [
            ("base", None),
            ("tiny.en", None),
            ("fast", "tiny.en"),
            ("whisper-1", "tiny.en"),
        ]
        shown = (await client.request("GET", "/v1/models/fast")).json
        assert (shown["id"], shown["parent"]) == ("fast", "tiny.en")
        assert (await client.request("GET", "/v1/models/gpt-4o-transcribe")).json["id"] == "base"
        base, tiny = client.server.models.loaded
        used: list[wb.Transcriber] = []
        submit = Transcriber.submit

        def noted(self: Transcriber, *arguments: Any, **keywords: Any) -> Any:
            used.append(self)
            return submit(self, *arguments, **keywords)

        monkeypatch.setattr(Transcriber, "submit", noted)
        for name in ("base", "fast", "whisper-1", "gpt-4o-transcribe"):
            assert (await client.post({"model": name}, wav(1))).status == 200
        assert used == [base, tiny, tiny, base]


@in_loop
async def test_a_model_is_closed_after_its_time_to_live(monkeypatch: pytest.MonkeyPatch) -> None:
    del monkeypatch
    loader = Loader()
    models = Models(["base", "tiny.en"], loader, ttl=0.2)
    await models.prepare()
    assert loader.sources == ["base", "tiny.en"]
    async with models.using("tiny.en"):
        await until(lambda: len(models.loaded) == 1)  # base had no request
        await until(lambda: loader.engines[0].closed)
        await asyncio.sleep(0.3)
        assert len(models.loaded) == 1  # tiny.en is in use
        assert models.seconds_left(models.find("tiny.en")) is None
    left = models.seconds_left(models.find("tiny.en"))
    assert left is not None
    assert 0 < left <= 0.2
    await until(lambda: not models.loaded)
    async with models.using("base"):
        assert loader.sources == ["base", "tiny.en", "base"]
    await models.close()


@in_loop
async def test_models_stay_loaded_without_a_time_to_live(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running(monkeypatch, model_ttl=0.1) as client:
        await until(lambda: not client.server.models.loaded)
        assert (await client.post({"model": "base"}, wav(1))).status == 200
    async with running(monkeypatch) as client:
        await asyncio.sleep(0.2)
        assert client.server.models.loaded


@in_loop
async def test_a_model_is_loaded_while_another_serves(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running(monkeypatch, model="base,tiny.en") as client:
        models = client.server.models
        await models.unload(models.find("tiny.en"))
        begun, go_on = threading.Event(), threading.Event()

        def slow(_self: ServerSettings, _source: str) -> Transcriber:
            begun.set()
            assert go_on.wait(20)
            return Transcriber(FakeEngine())

        monkeypatch.setattr(ServerSettings, "load", slow)
        models._load = client.server.settings.load  # as after the start
        waiting = [
            asyncio.ensure_future(client.post({"model": "tiny.en"}, wav(1))) for _ in range(3)
        ]
        await until(begun.is_set)
        assert (await client.post({"model": "base"}, wav(1))).status == 200
        assert not any(each.done() for each in waiting)
        go_on.set()
        assert [each.status for each in await asyncio.gather(*waiting)] == [200] * 3


@in_loop
async def test_unloading(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = HeldEngine()
    async with running(monkeypatch, engine) as client:
        models = client.server.models
        model: ServedModel = models.find("base")
        request = asyncio.ensure_future(client.post({"model": "base"}, wav(3)))
        await until(engine.called.is_set)
        with pytest.raises(ApiError, match="1 requests use the model base") as error:
            await models.unload(model)
        assert error.value.status == 409
        unloading = asyncio.ensure_future(models.unload(model, force=True))
        answer = await request
        assert (answer.status, answer.error["code"]) == (503, "unavailable")
        assert "model" in answer.error["message"]
        engine.release.set()
        assert await unloading
        assert not await models.unload(model)
