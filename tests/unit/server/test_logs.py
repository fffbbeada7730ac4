"""The log: a line for each request, and nothing that must not be in it."""

import asyncio
import json
import logging
import re
import socket
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.unit.fakes import FakeEngine
from tests.unit.server.asgi import FORM, form, in_loop, running, wav
from tests.unit.server.process import serving
from whisperbatch.server.logs import configure_logging

MODEL = {"model": "whisper-1"}
TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}\+00:00"
PATH = "/v1/audio/transcriptions"


@pytest.fixture(autouse=True)
def loggers() -> Iterator[None]:
    """Leave the loggers as they were."""
    kept = {
        log: (log.handlers[:], log.level, log.propagate)
        for log in map(logging.getLogger, ("", "whisperbatch", "uvicorn"))
    }
    yield
    logging.captureWarnings(capture=False)
    for log, (handlers, level, propagate) in kept.items():
        log.handlers, log.propagate = handlers, propagate
        log.setLevel(level)


def lines(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    """The lines of a log in JSON since the last call."""
    return [json.loads(line) for line in capsys.readouterr().err.splitlines()]


def requests(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    return [line for line in lines(capsys) if line["message"] == "request"]


@in_loop
async def test_each_request_has_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    configure_logging("json", "info")
    keys = tmp_path / "keys"
    keys.write_text("key-of-alice name=alice")
    alice = {"authorization": "Bearer key-of-alice", "x-request-id": "mine"}
    async with running(monkeypatch, api_keys_file=keys, allow_origins="http://a") as client:
        capsys.readouterr()
        await client.post(MODEL, wav(3), headers=alice)
        (line,) = requests(capsys)
        assert re.fullmatch(TIME, line.pop("time"))
        assert line.pop("seconds") > 0
        assert line.pop("speed") > 0
        assert line.pop("waited_seconds") >= 0
        assert line == {
            "level": "INFO",
            "logger": "whisperbatch.server.records",
            "message": "request",
            "request_id": "mine",
            "client": "alice",
            "method": "POST",
            "path": PATH,
            "status": 200,
            "audio_seconds": 3.0,
        }
        await client.post({"model": "other"}, wav(3), headers=alice)
        await client.request("GET", "/v1/models", headers={"authorization": "Bearer wrong"})
        await client.request("GET", "/unknown", headers=alice)
        preflight = {"origin": "http://a", "access-control-request-method": "POST"}
        await client.request("OPTIONS", PATH, headers=preflight)
        found = requests(capsys)
        assert [(line["status"], line.get("code"), line["client"]) for line in found] == [
            (404, "model_not_found", "alice"),
            (401, "invalid_api_key", "127.0.0.1"),
            (404, "not_found", "alice"),
            (200, None, "127.0.0.1"),
        ]


@in_loop
async def test_streams_and_clients_that_leave_have_a_line_at_their_end(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    configure_logging("json", "info")
    async with running(monkeypatch) as client:
        capsys.readouterr()
        await client.post({**MODEL, "stream": "true"}, wav(3))
        (line,) = requests(capsys)
        assert (line["status"], line["audio_seconds"]) == (200, 3.0)
        started = asyncio.Event()
        request = asyncio.ensure_future(
            client.post({**MODEL, "stream": "true", "language": "en"}, wav(900), started=started)
        )
        await started.wait()
        client.gone.set()
        await request
        (line,) = requests(capsys)
        assert 0 < line["audio_seconds"] <= 900


@in_loop
async def test_an_unexpected_error_has_the_id_of_its_request(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class FailingEngine(FakeEngine):
        def decode(self, *arguments: Any) -> Any:
            if len(self.batches) > 0:
                raise RuntimeError("out of order\nsecond line")
            return super().decode(*arguments)

    configure_logging("json", "info")
    async with running(monkeypatch, FailingEngine()) as client:
        capsys.readouterr()
        answer = await client.post(MODEL, wav(3))
        request_id = answer.headers["x-request-id"]
        found = [line for line in lines(capsys) if line["logger"].startswith("whisperbatch.server")]
        error, request = found
        assert (error["level"], request["level"]) == ("ERROR", "WARNING")
        assert error["request_id"] == request["request_id"] == request_id
        assert error["client"] == "127.0.0.1"
        assert "out of order" in error["exception"]
        assert (request["status"], request["code"]) == (500, answer.error["code"])


@in_loop
async def test_an_error_in_a_stream_has_its_code(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class FailingEngine(FakeEngine):
        def decode(self, *arguments: Any) -> Any:
            if len(self.batches) > 3:
                raise RuntimeError("out of order")
            return super().decode(*arguments)

    configure_logging("json", "info")
    async with running(monkeypatch, FailingEngine()) as client:
        capsys.readouterr()
        fields = {**MODEL, "stream": "true", "language": "en"}
        answer = await client.post(fields, wav(1800))
        (line,) = requests(capsys)
        assert (line["status"], line["code"]) == (200, "internal_error")
        assert b'"code":"internal_error"' in answer.body
        assert 0 < line["audio_seconds"] < 1800


@in_loop
async def test_no_key_no_field_and_no_text_is_logged(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    configure_logging("text", "debug")
    engine = FakeEngine(decode=lambda _: " Spoken words.")
    async with running(monkeypatch, engine, api_key="the-key") as client:
        capsys.readouterr()
        key = {"authorization": "Bearer the-key"}
        fields = {**MODEL, "prompt": "A private prompt", "keywords": "Private"}
        answer = await client.post(fields, wav(3), headers=key)
        assert "Spoken" in answer.json["text"]
        await client.post({**fields, "language": "private"}, wav(3), headers=key)
        await client.post({**fields, "beam_size": "private"}, wav(3), headers=key)
        await client.post(MODEL, b"private" * 99, "private.wav", headers=key)
        await client.post(MODEL, wav(1), headers={"authorization": "Bearer wrong-key"})
        await client.request(
            "POST",
            "/predict",
            headers={**key, "content-type": "audio/wav"},
            pieces=[wav(1)],
            query="initial_prompt=private&api_key=the-key",
        )
        text = capsys.readouterr().err
        assert text.count(" INFO request request_id=") == 6
        for secret in ("private", "Private", "Spoken", "the-key", "wrong-key", "Bearer"):
            assert secret not in text


def test_a_line_of_text(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging("text", "info")
    log = logging.getLogger("whisperbatch.test")
    log.debug("not shown")
    log.info("a\x1b[31m name\nwith lines", extra={"values": {"path": "/a b", "status": 200}})
    log.error("failed", exc_info=ValueError("bad\x1b\nworse"))
    first, second, *trace = capsys.readouterr().err.splitlines()
    assert re.fullmatch(rf'{TIME} INFO a\\x1b\[31m name\\nwith lines path="/a b" status=200', first)
    assert re.fullmatch(rf"{TIME} ERROR failed", second)
    assert trace == ["ValueError: bad\\x1b", "worse"]


def test_warnings_of_python_are_in_the_log(capsys: pytest.CaptureFixture[str]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        configure_logging("text", "info")
        warnings.warn("old", stacklevel=1)
        logging.captureWarnings(capture=False)
    (line,) = capsys.readouterr().err.splitlines()
    assert re.match(rf"{TIME} WARNING .*UserWarning: old", line)


def test_a_path_cannot_write_other_lines(capsys: pytest.CaptureFixture[str]) -> None:
    async def test() -> None:
        with pytest.MonkeyPatch.context() as patch:
            async with running(patch) as client:
                capsys.readouterr()
                await client.request("GET", "/a\nb c=d\x1b" + "x" * 1000)

    configure_logging("text", "info")
    asyncio.run(test())
    line, *others = capsys.readouterr().err.splitlines()
    assert "path=" in line
    assert "\x1b" not in line
    assert len(line) < 600
    assert not [other for other in others if "b c=d" in other]


@pytest.mark.parametrize("level", ["debug", "info", "warning", "error"])
def test_the_level(capsys: pytest.CaptureFixture[str], level: Any) -> None:
    configure_logging("text", level)
    levels = ("debug", "info", "warning", "error")
    for name in levels:
        logging.getLogger("whisperbatch").log(getattr(logging, name.upper()), name)
        logging.getLogger("other").log(getattr(logging, name.upper()), name)
    shown = re.findall(r"[A-Z]+ (\w+)", capsys.readouterr().err)
    expected = [name for name in levels[levels.index(level) :] for _ in range(2)]
    assert shown == [
        name
        for position, name in enumerate(expected)
        if position % 2 == 0 or name in {"warning", "error"}  # of other packages
    ]


@pytest.mark.parametrize("form_of_log", ["text", "json"])
def test_every_line_of_a_server_has_a_time(tmp_path: Path, form_of_log: str) -> None:
    with serving(tmp_path, "--log-format", form_of_log) as server:
        server.get("/health")
        with socket.create_connection(server.addresses[0]) as connection:
            connection.sendall(b"no HTTP\r\n\r\n")
            assert connection.recv(100).startswith(b"HTTP/1.1 400")
        server.wait_for("invalid_http")
        head = {**FORM, "x-request-id": "mine"}
        assert server.get(PATH, method="POST", headers=head, body=form(MODEL, wav(1)))[0] == 200
        server.wait_for("mine")
        messages = server.messages
    assert messages.count("/health") == 1
    own = {"the model is loaded"}  # printed by the test
    for line in set(messages.splitlines()) - own:
        if form_of_log == "json":
            assert re.fullmatch(TIME, json.loads(line)["time"])
        else:
            assert re.match(rf"{TIME} (DEBUG|INFO|WARNING|ERROR) ", line)


def test_the_level_is_a_setting(tmp_path: Path) -> None:
    with serving(tmp_path, "--log-level", "debug") as server:
        server.wait_for(" DEBUG ")
