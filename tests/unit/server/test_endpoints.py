"""The routes of Hugging Face Inference Endpoints, with a fake engine."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Iterable
from typing import Any

import pytest

import whisperbatch as wb
from tests.unit.fakes import FakeEngine
from tests.unit.server.asgi import BOUNDARY, FORM, Answer, Client, form, in_loop, running, wav
from tests.unit.server.test_app import HeldEngine, until
from whisperbatch.server.app import Server
from whisperbatch.server.settings import ServerSettings
from whisperbatch.server.uploads import Spool

JSON = {"content-type": "application/json"}
WAV = {"content-type": "audio/wav"}


async def post(
    client: Client,
    headers: dict[str, str],
    body: bytes | Iterable[bytes] | AsyncIterator[bytes],
    path: str = "/predict",
    query: str = "",
) -> Answer:
    pieces = [body] if isinstance(body, bytes) else body
    return await client.request("POST", path, headers=headers, pieces=pieces, query=query)


def as_json(recording: bytes, **values: Any) -> bytes:
    return json.dumps({"inputs": base64.b64encode(recording).decode(), **values}).encode()


def settings_of(**values: Any) -> ServerSettings:
    return ServerSettings(**values)


@in_loop
async def test_every_form_and_both_paths_give_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    recording = wav(3)
    parameters = {"language": "fr", "word_timestamps": True}
    text = json.dumps(parameters)
    async with running(monkeypatch) as client:
        answers = [
            await post(client, JSON, as_json(recording, parameters=parameters), "/"),
            await post(client, JSON, as_json(recording, parameters=parameters)),
            await post(client, FORM, form({"parameters": text}, recording), "/"),
            await post(client, FORM, form({"parameters": text}, recording)),
            await post(client, WAV, recording, "/", "language=fr&word_timestamps=true"),
            await post(
                client,
                {"content-type": "application/octet-stream"},
                recording,
                query="language=fr&word_timestamps=true",
            ),
        ]
    assert {answer.status for answer in answers} == {200}
    assert len({answer.body for answer in answers}) == 1
    answer = answers[0].json
    assert list(answer) == ["text", "chunks", "speakers"]
    assert answer["text"] == " ".join(chunk["text"] for chunk in answer["chunks"])
    assert answer["text"].startswith("Good morning.")
    assert answer["speakers"] == []
    assert answer["chunks"][0]["words"]


@in_loop
async def test_no_parameters(monkeypatch: pytest.MonkeyPatch) -> None:
    recording = wav(3)
    async with running(monkeypatch) as client:
        for headers, body in (
            (JSON, as_json(recording)),
            (JSON, as_json(recording, parameters=None)),
            ({"content-type": "Application/JSON; charset=utf-8"}, as_json(recording)),
            (FORM, form({}, recording)),
            (FORM, form({"parameters": ""}, recording)),
            (WAV, recording),
        ):
            answer = await post(client, headers, body)
            assert (answer.status, answer.json["speakers"]) == (200, [])


@in_loop
async def test_wrong_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    recording = wav(1)
    twice = form({"parameters": "{}", "parameters[]": "{}"}, recording)
    cases: tuple[tuple[dict[str, str], bytes, str, int, str | None, str], ...] = (
        ({"content-type": "x"}, recording, "", 415, None, "application/json, multipart/form-data"),
        ({"content-encoding": "gzip"}, recording, "", 415, None, "send the body as it is"),
        ({"content-type": "text/plain"}, recording, "", 415, None, "audio/*"),
        ({"content-type": "multipart/form-data"}, recording, "", 415, None, "multipart"),
        (JSON, b"[]", "", 400, None, "not a JSON object"),
        (JSON, b"{", "", 400, None, "not a complete JSON object"),
        (JSON, b"{}", "", 400, "inputs", "inputs is missing"),
        (JSON, b'{"inputs": ""}', "", 400, None, "the recording is empty"),
        (JSON, b'{"inputs": "https://example.com"}', "", 400, "inputs", "URLs are not opened"),
        (JSON, as_json(recording, options={}), "", 400, "options", "give options in parameters"),
        (JSON, as_json(recording, parameters=[]), "", 400, "parameters", "must be an object"),
        (JSON, as_json(recording), "language=fr", 400, "language", "parameters in the body"),
        (FORM, form({"language": "fr"}, recording), "", 400, "language", "options in parameters"),
        (FORM, form({"parameters": "{"}, recording), "", 400, None, "parameters is not JSON"),
        (FORM, twice, "", 400, "parameters[]", "not a field"),
        (FORM, form({}, b""), "", 400, None, "is empty"),
        (FORM, f"--{BOUNDARY}--\r\n".encode(), "", 400, "file", "file is missing"),
        (WAV, b"", "", 400, None, "the recording is empty"),
        (WAV, b"no media" * 9, "", 400, "file", "inputs"),
        (WAV, recording, "language=fr&language=en", 400, None, "more than once"),
        (WAV, recording, "num_speakers=0", 400, "num_speakers", "num_speakers=0 is out of range"),
        (WAV, recording, "assisted=true", 400, "assisted", "set ASSISTANT_MODEL"),
        (WAV, recording, "batch_size=0", 400, "batch_size", "batch_size=0 is out of range"),
    )
    async with running(monkeypatch) as client:
        for headers, body, query, status, param, message in cases:
            answer = await post(client, headers, body, query=query)
            assert (answer.status, answer.error["param"]) == (status, param), answer.body
            assert message in answer.error["message"]
        assert client.server.admission.active == 0


@in_loop
async def test_the_size_is_that_of_the_recording(monkeypatch: pytest.MonkeyPatch) -> None:
    recording = wav(100)  # 3.2 MB; 4.3 MB in base64
    size = len(recording)
    async with running(monkeypatch, max_upload=size) as client:
        body = as_json(recording)
        headers = {**JSON, "content-length": str(len(body))}
        assert (await post(client, headers, body)).status == 200
    async with running(monkeypatch, max_upload=size - 1) as client:
        for headers, sent in ((JSON, body), (WAV, recording), (FORM, form({}, recording))):
            answer = await post(client, headers, sent)
            assert (answer.status, answer.error["code"]) == (413, "file_too_large")
    async with running(monkeypatch, max_upload=1000) as client:
        answer = await post(client, {**JSON, "content-length": str(len(body))}, b"")
        assert answer.status == 413


@in_loop
async def test_an_upload_is_not_held_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    largest = 0
    write = Spool.write

    def noted(self: Spool, data: bytes | memoryview) -> None:
        nonlocal largest
        largest = max(largest, len(data))
        write(self, data)

    monkeypatch.setattr(Spool, "write", noted)
    body = as_json(wav(20))
    async with running(monkeypatch) as client:
        pieces = (body[start : start + 1000] for start in range(0, len(body), 1000))
        assert (await post(client, JSON, pieces)).status == 200
    assert 0 < largest <= 1000


@in_loop
async def test_work_ends_when_the_client_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = HeldEngine()
    async with running(monkeypatch, engine) as client:
        request = asyncio.ensure_future(post(client, JSON, as_json(wav(3))))
        await until(engine.called.is_set)
        assert client.server.admission.active == 1
        client.gone.set()
        answer = await asyncio.wait_for(request, 1)
        assert answer.error["code"] == "client_gone"
        assert client.server.admission.active == 0
        engine.release.set()


@in_loop
async def test_limits_are_those_of_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = HeldEngine()
    async with running(monkeypatch, engine, max_requests=1, max_time=0.5) as client:
        request = asyncio.ensure_future(post(client, WAV, wav(3)))
        await until(lambda: client.server.admission.active == 1)
        full = await post(client, WAV, wav(3))
        assert (full.status, full.error["code"]) == (429, "queue_full")
        assert int(full.headers["retry-after"]) >= 1
        late = await request
        assert (late.status, late.error["code"]) == (504, "timeout")
        engine.release.set()
        query = "max_duration=100"
    async with running(monkeypatch, max_duration=2) as client:
        assert (await post(client, WAV, wav(3), query=query)).error["code"] == "audio_too_long"


@in_loop
async def test_only_the_check_needs_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running(monkeypatch, api_key="secret") as client:
        assert (await client.request("GET", "/")).json == {"status": "ok"}
        for path in ("/", "/predict"):
            assert (await post(client, WAV, wav(1), path)).status == 401
            headers = {**WAV, "authorization": "Bearer secret"}
            assert (await post(client, headers, wav(1), path)).status == 200


@in_loop
async def test_assisted(monkeypatch: pytest.MonkeyPatch) -> None:
    drafted = FakeEngine(decode=lambda _: " Good evening.")
    monkeypatch.setattr(
        ServerSettings, "load_assisted", lambda _self, _source: wb.Transcriber(drafted)
    )
    async with running(monkeypatch, assistant_model="base") as client:
        plain = await post(client, WAV, wav(3))
        assert plain.json["text"].startswith("Good morning.")
        assisted = await post(client, WAV, wav(3), query="assisted=true")
        assert assisted.json["text"].startswith("Good evening.")
        assert drafted.calls[-1].options.beam_size == 1
        assert len((await client.request("GET", "/v1/models")).json["data"]) == 1
    assert drafted.closed


def test_a_draft_model_that_cannot_be_loaded_ends_the_server(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(_self: ServerSettings, _source: str) -> wb.Transcriber:
        raise wb.MissingExtraError("PyTorch is not installed")

    monkeypatch.setattr(ServerSettings, "load_assisted", fail)
    monkeypatch.setattr(ServerSettings, "load", lambda _self, _source: wb.Transcriber(FakeEngine()))

    async def start() -> BaseException | None:
        server = Server(settings_of(assistant_model="base"))
        messages = asyncio.Queue[dict[str, str]]()
        messages.put_nowait({"type": "lifespan.startup"})

        async def send(message: Any) -> None:
            del message

        scope = {"type": "lifespan", "asgi": {"version": "3.0"}, "state": {}}
        lifespan = asyncio.ensure_future(server.app(scope, messages.get, send))
        await until(lambda: server.failure)
        failure = server.failure
        messages.put_nowait({"type": "lifespan.shutdown"})
        await lifespan
        return failure

    assert isinstance(asyncio.run(start()), wb.MissingExtraError)


def test_variables_of_hugging_face(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ASR_MODEL", "HF_MODEL_DIR", "ASSISTANT_MODEL", "DIARIZATION_MODEL"):
        monkeypatch.delenv(name, raising=False)
    assert settings_of().models == ("base",)
    monkeypatch.setenv("HF_MODEL_DIR", "/repository")
    assert settings_of().models == ("/repository",)
    monkeypatch.setenv("ASR_MODEL", "small")
    monkeypatch.setenv("ASSISTANT_MODEL", "tiny")
    assert settings_of().models == ("small",)
    assert settings_of().assistant_model == "tiny"
    assert settings_of(model="medium").models == ("medium",)
    monkeypatch.setenv("DIARIZATION_MODEL", "pyannote/speaker-diarization-3.1")
    assert settings_of().endpoint_options().diarizer == "pyannote/speaker-diarization-3.1"
    assert not settings_of().default_options().diarize
    monkeypatch.setenv("DIARIZATION_MODEL", "speakers")
    with pytest.raises(wb.OptionError, match="DIARIZATION_MODEL"):
        settings_of()


def test_keywords_of_the_draft_model(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[str, dict[str, Any]]] = []
    monkeypatch.setattr(wb, "load", lambda source, **keywords: calls.append((source, keywords)))
    settings = settings_of(
        assistant_model="tiny",
        device="cpu",
        engine="torch",
        engine_settings='{"compute_type": "float32"}',
    )
    settings.load("small")
    settings.load_assisted("small")
    keywords = {"device": "cpu", "engine": "torch", "compute_type": "float32"}
    assert calls == [("small", keywords), ("small", {**keywords, "draft_model": "tiny"})]


@in_loop
async def test_the_diarizer_of_hugging_face_is_loaded_at_the_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    choices: list[object] = []

    def missing(_: object, *, diarizer: object) -> None:
        choices.append(diarizer)
        raise wb.MissingExtraError("pip install 'whisperbatch[pyannote]'")

    monkeypatch.setattr(wb, "diarize", missing)
    monkeypatch.setenv("DIARIZATION_MODEL", "pyannote/speaker-diarization-3.1")
    server = Server(settings_of())
    with pytest.raises(wb.MissingExtraError, match="pyannote"):
        await server._prepare()
    assert choices == ["pyannote/speaker-diarization-3.1"]
