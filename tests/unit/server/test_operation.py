"""What operators need: checks, figures, the page of the API, paths below a proxy, spans."""

import inspect
import re
import sys
from html.parser import HTMLParser
from typing import Any

import pytest

from tests.unit.server.asgi import Client, in_loop, running, settings_with, wav
from tests.unit.server.test_app import until
from whisperbatch import MissingExtraError, Transcriber
from whisperbatch.server.app import Server

MODEL = {"model": "whisper-1"}


async def figures(client: Client, **headers: str) -> dict[str, float]:
    text = (await client.request("GET", "/metrics", headers=headers)).body.decode()
    lines = (line.rpartition(" ") for line in text.splitlines() if line[0] != "#")
    return {name: float(value) for name, _, value in lines}


@pytest.mark.parametrize("path", ["/", "/health", "/ready"])
def test_checks_may_use_head(monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    @in_loop
    async def test() -> None:
        async with running(monkeypatch, api_key="secret") as client:
            for method in ("GET", "HEAD"):
                assert (await client.request(method, path)).status == 200
            client.server.admission.closed = True
            answer = await client.request("HEAD", path)
            assert answer.status == (503 if path == "/ready" else 200)

    test()


@in_loop
async def test_a_missing_key_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running(monkeypatch, api_key="secret") as client:
        for key in ({}, {"authorization": "Bearer wrong"}):
            answer = await client.request("GET", "/v1/models", headers=key)
            assert (answer.status, answer.headers["www-authenticate"]) == (401, "Bearer")
        assert "www-authenticate" not in (await client.request("GET", "/health")).headers


@pytest.mark.parametrize("prefix", ["", "/speech"])
def test_the_server_answers_below_the_path_of_its_proxy(
    monkeypatch: pytest.MonkeyPatch, prefix: str
) -> None:
    root = prefix or "/speech"  # some proxies remove the path

    @in_loop
    async def test() -> None:
        async with running(monkeypatch, root_path=root, api_key="secret") as client:
            assert (await client.request("GET", f"{prefix}/health")).status == 200
            assert (await client.request("GET", f"{prefix}/v1/models")).status == 401
            assert (await client.request("GET", f"{root}less/health")).status == 401
            key = {"authorization": "Bearer secret"}
            assert (await client.request("GET", f"{prefix}/v1/models", headers=key)).status == 200
            document = await client.request("GET", f"{prefix}/openapi.json", headers=key)
            assert document.json["servers"] == [{"url": root}]
            assert "/v1/models" in document.json["paths"]
            answer = await client.post(MODEL, wav(1), headers=key)
            assert answer.status == 200
            found = await figures(client, **key)
            assert 'whisperbatch_requests_total{path="/health",status="200"}' in found

    test()


class Page(HTMLParser):
    """The addresses and the text of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.tags: list[str] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.links += [value for name, value in attrs if name in {"href", "src"} and value]

    def handle_data(self, data: str) -> None:
        self.text += data


@in_loop
async def test_the_page_of_the_api_loads_nothing_from_elsewhere(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with running(monkeypatch) as client:
        answer = await client.request("GET", "/docs")
        assert answer.status == 200
        assert answer.headers["content-type"] == "text/html; charset=utf-8"
        page = Page(answer.body.decode())
        assert page.links == ["openapi.json"]  # below any path
        assert not {"script", "link", "img", "iframe"} & set(page.tags)
        assert "://" not in answer.body.decode()
        document = (await client.request("GET", "/openapi.json")).json
        for path, methods in document["paths"].items():
            for method in methods:
                assert f"{method.upper()} {path}" in page.text
        for text in ("initial_prompt", "timestamp_granularities[]", "response_format"):
            assert text in page.text


@in_loop
async def test_counters_do_not_fall_when_a_model_is_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    names = ("whisperbatch_engine_rows_total", "whisperbatch_engine_calls_total")
    async with running(monkeypatch) as client:
        await client.post(MODEL, wav(3))
        before = await figures(client)
        (model,) = client.server.models._models.values()
        asr, model.asr = model.asr, None
        assert asr
        asr.close()
        del asr
        during = await figures(client)
        assert [during[name] for name in names] == [before[name] for name in names]
        await client.post(MODEL, wav(3))  # loads the model again
        after = await figures(client)
        assert all(after[name] > before[name] > 0 for name in names)


@in_loop
async def test_figures_of_recordings_and_of_clients(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    keys = tmp_path / "keys"
    keys.write_text("a name=alice\nb")
    async with running(monkeypatch, api_keys_file=keys) as client:
        key = {"authorization": "Bearer a"}
        await client.post(MODEL, wav(3), headers=key)
        await client.post({"model": "other"}, wav(3), headers=key)
        await client.post(MODEL, wav(3), headers={"authorization": "Bearer wrong"})
        await until(lambda: not client.server.models.loaded[0].submitted.active)
        found = await figures(client, **key)
        assert found["whisperbatch_active_recordings"] == 0
        assert found["whisperbatch_waiting_recordings"] == 0
        assert found["whisperbatch_wait_seconds_count"] == 1
        assert 0 <= found["whisperbatch_wait_seconds_sum"] < 10
        assert found['whisperbatch_client_requests_total{client="alice"}'] == 2
        assert found['whisperbatch_client_audio_seconds_total{client="alice"}'] == 3
        assert sum("client=" in name and "_total" in name for name in found) == 2


@in_loop
async def test_recordings_that_wait_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running(monkeypatch) as client:
        monkeypatch.setattr(
            Transcriber,
            "submitted",
            property(lambda _: type("Counts", (), {"active": 5, "waiting": 7})),
        )
        found = await figures(client)
        assert found["whisperbatch_active_recordings"] == 5
        assert found["whisperbatch_waiting_recordings"] == 7


class Span:
    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        self.name, self.context, self.kind, self.attributes = arguments
        self.start, self.end_time = keywords["start_time"], 0
        self.is_error = False

    def set_attribute(self, name: str, value: object) -> None:
        self.attributes[name] = value

    def set_status(self, code: Any) -> None:
        self.is_error = code.name == "ERROR"

    def end(self, time: int) -> None:
        self.end_time = time


@in_loop
async def test_a_span_for_each_request(monkeypatch: pytest.MonkeyPatch) -> None:
    trace = pytest.importorskip("opentelemetry.trace")
    spans: list[Span] = []

    class Tracer:
        def start_span(self, *arguments: Any, **keywords: Any) -> Span:
            inspect.signature(trace.Tracer.start_span).bind(self, *arguments, **keywords)
            spans.append(Span(*arguments, **keywords))
            return spans[-1]

    monkeypatch.setattr(trace, "get_tracer", lambda _: Tracer())
    async with running(monkeypatch, otel=True, api_key="secret") as client:
        spans.clear()
        parent = {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}
        headers = {"authorization": "Bearer secret", "x-request-id": "mine", **parent}
        await client.post(MODEL, wav(3), headers=headers)
        (span,) = spans
        assert span.name == "POST /v1/audio/transcriptions"
        assert span.kind == trace.SpanKind.SERVER
        parent_context = trace.get_current_span(span.context).get_span_context()
        assert f"{parent_context.trace_id:032x}" == "0af7651916cd43dd8448eb211c80319c"
        assert span.attributes["http.response.status_code"] == 200
        assert span.attributes["whisperbatch.request_id"] == "mine"
        assert span.attributes["whisperbatch.client"] == "api_key"
        assert span.attributes["whisperbatch.audio_seconds"] == 3.0
        assert span.end_time > span.start > 1e18
        assert "secret" not in str(span.attributes)
        assert not span.is_error
        client.server.admission.closed = True
        await client.request("GET", "/ready")
        assert spans[-1].is_error


def test_spans_need_opentelemetry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    with pytest.raises(MissingExtraError, match=re.escape("whisperbatch[telemetry]")):
        Server(settings_with(otel=True))
    Server(settings_with())
