"""The server with a fake engine: statuses, limits, cancelled work, the end."""

import asyncio
import json
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

import pytest

from tests.unit.fakes import FakeEngine
from tests.unit.server.asgi import BOUNDARY, FORM, form, in_loop, running, wav
from whisperbatch import Transcriber, submissions
from whisperbatch.server.app import Server
from whisperbatch.server.uploads import UploadLimits, in_time

MODEL = {"model": "whisper-1"}
GIVEN = {"model": "base", "language": "fr"}


async def until(condition: Any) -> None:
    for _ in range(1000):
        if condition():
            return
        await asyncio.sleep(0.01)
    pytest.fail("the condition did not become true within 10 s")


class HeldEngine(FakeEngine):
    """An engine whose calls wait until `release` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.release = threading.Event()
        self.called = threading.Event()

    def decode(self, *arguments: Any) -> Any:
        if len(self.batches) > 0:  # not while the model is warmed up
            self.called.set()
            assert self.release.wait(20)
        return super().decode(*arguments)


@in_loop
async def test_every_format_has_the_text(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running(monkeypatch) as client:
        plain = await client.post(MODEL, wav(3))
        assert plain.status == 200
        text = plain.json["text"]
        assert text
        assert plain.json["usage"] == {"type": "duration", "seconds": 3.0}
        assert plain.headers["x-request-id"].startswith("req_")
        for name in ("text", "srt", "vtt", "verbose_json"):
            answer = await client.post({**MODEL, "response_format": name}, wav(3))
            assert answer.status == 200
            assert text in answer.body.decode()
        streamed = await client.post({**MODEL, "stream": "true"}, wav(3))
        events = streamed.body.decode().split("\n\n")
        assert events[-2:] == ["data: [DONE]", ""]
        values = [json.loads(event.removeprefix("data: ")) for event in events[:-2]]
        assert "".join(value.get("delta", "") for value in values) == text
        assert [v["text"] for v in values if v["type"] == "transcript.text.done"] == [text]


@in_loop
async def test_every_error_has_openais_body(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running(monkeypatch) as client:
        for method, path, status in (
            ("GET", "/nothing", 404),
            ("GET", "/v1/models/other", 404),
            ("GET", "/v1/audio/transcriptions", 405),
            ("POST", "/v1/audio/transcriptions", 415),
        ):
            answer = await client.request(method, path)
            assert answer.status == status
            assert answer.error["message"]
            assert answer.headers["x-request-id"]
        assert (await client.post({"model": "other"}, wav(1))).error["code"] == "model_not_found"
        assert (await client.post(MODEL, b"")).error["param"] == "file"
        no_media = (await client.post(MODEL, b"no media" * 9)).error
        assert no_media["code"] == "invalid_audio"
        assert "seek" not in no_media["message"]
        assert (await client.post({**MODEL, "x": "1"}, wav(1))).error["param"] == "x"
        assert (await client.post({**MODEL, "max_duration": "1"}, wav(3))).error["code"] == (
            "audio_too_long"
        )


@in_loop
async def test_an_engine_that_fails_is_an_error_of_the_server(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class FailingEngine(FakeEngine):
        def decode(self, *arguments: Any) -> Any:
            if len(self.batches) > 0:
                raise RuntimeError("out of order")
            return super().decode(*arguments)

    async with running(monkeypatch, FailingEngine()) as client:
        answer = await client.post(MODEL, wav(3))
        assert answer.status == 500
        assert "out of order" in answer.error["message"]
        streamed = await client.post({**MODEL, "stream": "true"}, wav(3))
        assert streamed.status == 500  # nothing was sent before


@in_loop
async def test_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running(monkeypatch, api_key="secret") as client:
        for key in ("", "Bearer", "Bearer wrong", "Basic secret"):
            headers = {"authorization": key} if key else {}
            answer = await client.request("GET", "/v1/models", headers=headers)
            assert answer.status == 401
            assert answer.error["code"] == "invalid_api_key"
        headers = {"authorization": "Bearer secret"}
        assert (await client.request("GET", "/v1/models", headers=headers)).status == 200
        assert (await client.request("GET", "/health")).status == 200
        assert (await client.request("GET", "/metrics")).status == 401


@in_loop
async def test_a_body_that_is_too_large_is_refused_before_it_is_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with running(monkeypatch, max_upload=1000) as client:
        headers = {**FORM, "content-length": "9000000"}
        answer = await client.request("POST", "/v1/audio/transcriptions", headers=headers)
        assert (answer.status, answer.error["code"]) == (413, "file_too_large")
        assert answer.headers["x-should-retry"] == "false"
        assert (await client.post(MODEL, wav(3))).status == 413  # of unknown length


@in_loop
async def test_more_requests_than_the_limit_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = HeldEngine()
    async with running(monkeypatch, engine, max_requests=1) as client:
        first = asyncio.ensure_future(client.post(MODEL, wav(3)))
        await until(engine.called.is_set)
        refused = await client.post(MODEL, wav(3))
        assert (refused.status, refused.error["code"]) == (429, "queue_full")
        assert int(refused.headers["retry-after"]) >= 1
        assert (await client.request("GET", "/health")).status == 200
        engine.release.set()
        assert (await first).status == 200
        assert (await client.post(MODEL, wav(3))).status == 200


@pytest.mark.parametrize("stream", ["false", "true"])
def test_the_work_of_a_client_that_is_gone_is_cancelled(
    monkeypatch: pytest.MonkeyPatch, stream: str
) -> None:
    async def test() -> None:
        engine = HeldEngine()
        async with running(monkeypatch, engine) as client:
            request = asyncio.ensure_future(client.post({**MODEL, "stream": stream}, wav(300)))
            await until(engine.called.is_set)
            client.gone.set()
            await request
            assert client.server.admission.active == 0
            engine.release.set()
            client.gone.clear()
            await until(lambda: waiting_rows(client.server) == 0)
            assert len(engine.batches) < 5  # of 10 rows and more

    asyncio.run(test())


def waiting_rows(server: Server) -> int:
    return sum(asr.activity.waiting_rows for asr in server.models.loaded)


@in_loop
async def test_the_work_begins_during_the_upload(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = HeldEngine()
    engine.release.set()
    async with running(monkeypatch, engine) as client:
        body = form(GIVEN, wav(300))
        arrived = asyncio.Event()

        async def pieces() -> AsyncIterator[bytes]:
            yield body[: len(body) - 1000]
            await until(engine.called.is_set)
            arrived.set()
            yield body[len(body) - 1000 :]

        answer = await client.request(
            "POST", "/v1/audio/transcriptions", headers=FORM, pieces=pieces()
        )
        assert arrived.is_set()
        assert answer.status == 200
        with Transcriber(FakeEngine()) as asr:
            expected = asr.transcribe(wav(300), vad=False, language="fr")
        assert answer.json["text"].count(".") == expected.text.count(".")
        assert answer.json["usage"]["seconds"] == 300.0


@in_loop
async def test_a_field_after_the_file_is_honoured(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running(monkeypatch) as client:
        body = form(GIVEN, wav(3))
        late = form({"response_format": "srt"}, b"x").split(b"--" + BOUNDARY.encode())[1]
        end = f"--{BOUNDARY}--\r\n".encode()
        pieces = [body.removesuffix(end), b"--" + BOUNDARY.encode() + late + end]
        answer = await client.request(
            "POST", "/v1/audio/transcriptions", headers=FORM, pieces=pieces
        )
        assert answer.body.startswith(b"1\n00:00:")


@in_loop
async def test_a_slow_upload_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running(monkeypatch, idle_timeout=0.1) as client:

        async def pieces() -> AsyncIterator[bytes]:
            yield form(GIVEN, wav(3))[:5000]
            await asyncio.sleep(20)

        task = asyncio.ensure_future(
            client.request("POST", "/v1/audio/transcriptions", headers=FORM, pieces=pieces())
        )
        await until(lambda: client.server.admission.active == 1)
        await until(lambda: client.server.admission.active == 0)
        task.cancel()


@in_loop
async def test_a_server_that_shuts_down_refuses_new_work(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = HeldEngine()
    async with running(monkeypatch, engine) as client:
        running_request = asyncio.ensure_future(client.post(MODEL, wav(3)))
        await until(engine.called.is_set)
        client.server.admission.closed = True
        assert (await client.post(MODEL, wav(3))).status == 503
        assert (await client.request("GET", "/ready")).status == 503
        assert (await client.request("GET", "/health")).status == 200
        engine.release.set()
        assert (await running_request).status == 200


@in_loop
async def test_requests_that_outlive_the_shutdown_get_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    engine = HeldEngine()
    async with running(monkeypatch, engine) as client:
        posts = [client.post({**MODEL, **more}, wav(3)) for more in ({}, {"stream": "true"})]
        answers = [asyncio.ensure_future(post) for post in posts]
        await until(engine.called.is_set)
        await until(lambda: client.server.admission.active == 2)
        client.server.admission.closed = True
        client.server.admission.cut.set()
        plain, stream = await asyncio.gather(*answers)
        assert plain.status == 503
        assert plain.error["code"] == "unavailable"
        assert plain.headers["x-request-id"]
        if stream.status == 200:  # the answer had begun
            *_, event, done = stream.body.decode().strip().split("\n\n")
            assert json.loads(event.removeprefix("data: "))["error"]["code"] == "unavailable"
            assert done == "data: [DONE]"
        else:
            assert stream.error["code"] == "unavailable"
        engine.release.set()


@in_loop
async def test_an_upload_that_arrives_byte_by_byte_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running(monkeypatch, idle_timeout=0.3, min_upload_rate=1000) as client:

        async def pieces(data: bytes, pause: float) -> AsyncIterator[bytes]:
            yield form(MODEL, data)[:500]
            for at in range(500, len(form(MODEL, data))):
                yield form(MODEL, data)[at : at + 1]
                await asyncio.sleep(pause)

        slow = pieces(wav(3), 0.02)
        answer = await client.request("POST", "/v1/audio/transcriptions", headers=FORM, pieces=slow)
        assert (answer.status, answer.error["code"]) == (408, "upload_timeout")
        assert (await client.post(MODEL, wav(3))).status == 200


@pytest.mark.parametrize("name", ["beam_size", "best_of"])
def test_clients_may_not_ask_for_more_hypotheses_than_the_server_allows(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    async def test() -> None:
        async with running(monkeypatch, max_beams=7) as client:
            fields = {**MODEL, **({"temperature": "0.4"} if name == "best_of" else {})}
            refused = await client.post({**fields, name: "8"}, wav(3))
            assert (refused.status, refused.error["param"]) == (400, name)
            assert "at most 7" in refused.error["message"]
            assert (await client.post({**fields, name: "7"}, wav(3))).status == 200
            if name == "beam_size":
                plain = await client.request(
                    "POST",
                    "/predict",
                    headers={"content-type": "audio/wav"},
                    pieces=[wav(3)],
                    query="beam_size=8",
                )
                assert (plain.status, plain.error["param"]) == (400, name)

    asyncio.run(test())


@pytest.mark.parametrize(("server", "largest"), [(None, 8), (3, 3)])
def test_clients_may_lower_the_batch_size_but_not_raise_it(
    monkeypatch: pytest.MonkeyPatch, server: int | None, largest: int
) -> None:
    async def test() -> None:
        engine = FakeEngine()
        options = {"batch_size": server} if server else {}
        async with running(monkeypatch, engine, options=options) as client:
            several = {**MODEL, "batch_size": "100", "language": "en", "chunk_length": "5"}
            assert (await client.post(several, wav(60))).status == 200
            assert max(engine.batches) <= largest
            engine.batches.clear()
            few = {**several, "batch_size": "2"}
            assert (await client.post(few, wav(60))).status == 200
            assert max(engine.batches) <= 2

    asyncio.run(test())


@in_loop
async def test_one_client_leaves_places_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = HeldEngine()
    async with running(monkeypatch, engine, max_requests=4, api_keys_file=None) as client:
        first = [asyncio.ensure_future(client.post(MODEL, wav(3))) for _ in range(2)]
        await until(lambda: client.server.admission.active == 2)
        refused = await client.post(MODEL, wav(3))
        assert (refused.status, refused.error["code"]) == (429, "too_many_requests")
        client.address = "10.0.0.7"
        other = asyncio.ensure_future(client.post(MODEL, wav(3)))
        await until(lambda: client.server.admission.active == 3)
        engine.release.set()
        assert [each.status for each in await asyncio.gather(*first, other)] == [200] * 3


@in_loop
async def test_keys_are_reloaded(monkeypatch: pytest.MonkeyPatch) -> None:
    with NamedTemporaryFile("w+") as file:

        def write(text: str) -> None:
            file.seek(0)
            file.truncate()
            file.write(text)
            file.flush()

        async def status(key: str) -> int:
            headers = {"authorization": f"Bearer {key}"}
            return (await client.request("GET", "/v1/models", headers=headers)).status

        write("old\n")
        async with running(monkeypatch, api_keys_file=Path(file.name)) as client:
            assert [await status(key) for key in ("old", "new")] == [200, 401]
            write("new\n")
            client.server.reload_keys()
            assert [await status(key) for key in ("old", "new")] == [401, 200]
            write("# no key\n")
            client.server.reload_keys()
            assert [await status(key) for key in ("old", "new")] == [401, 200]


@in_loop
async def test_a_request_that_takes_too_long_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("whisperbatch.server.transcriptions.ERRORS_FIRST", 0.1)
    engine = HeldEngine()
    async with running(monkeypatch, engine, max_time=0.2) as client:
        answer = await client.post(MODEL, wav(3))
        assert (answer.status, answer.error["code"]) == (504, "timeout")
        streamed = await client.post({**MODEL, "stream": "true"}, wav(3))
        engine.release.set()
        assert b'"code":"timeout"' in streamed.body
        assert client.server.admission.active == 0


@in_loop
async def test_metrics(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running(monkeypatch) as client:
        await client.post(MODEL, wav(3))
        await client.post({"model": "other"}, wav(3))
        text = (await client.request("GET", "/metrics")).body.decode()
        path = "/v1/audio/transcriptions"
        assert f'whisperbatch_requests_total{{path="{path}",status="200"}} 1.0' in text
        assert 'whisperbatch_errors_total{code="model_not_found"} 1.0' in text
        assert "whisperbatch_audio_seconds_total 3.0" in text
        assert "whisperbatch_active_requests 0.0" in text
        assert "whisperbatch_waiting_rows 0.0" in text
        figures = dict(line.rsplit(" ", 1) for line in text.splitlines() if line[0] != "#")
        assert float(figures["whisperbatch_engine_calls_total"]) >= 1
        assert float(figures["whisperbatch_engine_rows_total"]) >= 1


@in_loop
async def test_the_openapi_page_describes_all_fields(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running(monkeypatch) as client:
        paths = (await client.request("GET", "/openapi.json")).json["paths"]
        forms = [
            paths[f"/v1/audio/{name}"]["post"]["requestBody"]["content"]["multipart/form-data"]
            for name in ("transcriptions", "translations")
        ]
        transcriptions, translations = (form["schema"]["properties"] for form in forms)
        assert {"file", "model", "language", "keywords[]", "stream", "beam_size"} <= set(
            transcriptions
        )
        assert "stream" not in translations
        assert "task" not in transcriptions


@in_loop
async def test_a_clip_is_not_refused_because_long_recordings_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(submissions, "KNOWN_AFTER", 0.0)
    monkeypatch.setattr(submissions.Places, "of", lambda *_: submissions.Places(4, 1))
    engine = FakeEngine(decode=lambda _: " Good morning.", delay={"decode": 0.05})
    settings: Any = {"max_wait": 0.001, "options": {"batch_size": 1}}
    async with running(monkeypatch, engine, **settings) as client:
        long = asyncio.ensure_future(client.post({**GIVEN, "stream": "true"}, wav(1200)))
        await until(lambda: len(engine.batches) > 3)
        assert (await client.post(GIVEN, wav(3))).status == 200
        refused = await client.post(GIVEN, wav(300))
        assert (refused.status, refused.error["code"]) == (429, "queue_full")
        client.gone.set()
        await long


@in_loop
async def test_an_unfinished_upload_does_not_hold_up_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with running(monkeypatch) as client:

        async def pieces() -> AsyncIterator[bytes]:
            yield form(MODEL, wav(3))[:5000]
            await asyncio.sleep(60)

        upload = asyncio.ensure_future(
            client.request("POST", "/v1/audio/transcriptions", headers=FORM, pieces=pieces())
        )
        await until(lambda: client.server.admission.active == 1)
        client.server.admission.closed = True
        client.server.admission.cut.set()
        answer = await asyncio.wait_for(upload, 5)
        assert (answer.status, answer.error["code"]) == (503, "unavailable")


def test_a_busy_server_does_not_count_its_own_time() -> None:
    async def test() -> list[bytes]:
        data = iter([b"a" * 10, b"b" * 10, b""])

        async def read() -> bytes:
            return next(data)

        received = []
        async for piece in in_time(read, UploadLimits(idle=0.2, total=0.3, rate=1.0)):
            await asyncio.sleep(0.4)
            received.append(piece)
        return received

    assert asyncio.run(test()) == [b"a" * 10, b"b" * 10]
