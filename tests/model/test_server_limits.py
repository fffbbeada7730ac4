"""OpenAI's Python client and the server's limits: keys, sizes, places, errors, gone clients."""

import asyncio
import json
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import openai
import pytest

from benchmarks import recordings
from benchmarks.recordings import Recording
from tests.model.forms import beginning, field, file, form, in_pieces, post, request_head
from tests.model.server import FAST, RunningServer, running, wait_until

Save = Callable[[Recording, str], Path]
KEY = "the-key-of-the-tests"
AUTHORIZED = {"authorization": f"Bearer {KEY}"}
MAX_UPLOAD = 20_000_000  # bytes
CANCELLED = 5.0  # seconds, on a busy machine; otherwise it takes milliseconds
FIELDS = (field("model", "whisper-1"), field("language", "en"))


@pytest.fixture(scope="module")
def server() -> Iterator[RunningServer]:
    """A server that works on one request at a time."""
    with running(
        *("--api-key", KEY, "--max-requests", "1"),
        *("--max-upload", str(MAX_UPLOAD), "--max-duration", "150", "--idle-timeout", "8"),
        model=FAST,
    ) as server:
        yield server


@pytest.fixture
def client(server: RunningServer) -> Iterator[openai.OpenAI]:
    wait_until(lambda: not active(server))
    with openai.OpenAI(base_url=server.api, api_key=KEY, max_retries=0) as client:
        yield client


@pytest.fixture(scope="module")
def short(save: Save) -> Path:
    return save(recordings.prompts("en", duration=5), ".wav")


@pytest.fixture(scope="module")
def two_minutes(speech: Recording, save: Save) -> Path:
    return save(speech, ".ogg")


@pytest.fixture(scope="module")
def too_long(save: Save) -> Path:
    """Longer than `--max-duration`. Ogg does not state its duration at its start."""
    return save(recordings.prompts("en", duration=200), ".ogg")


def figure(server: RunningServer, name: str) -> float:
    return server.figure(name, AUTHORIZED)


def active(server: RunningServer) -> float:
    return figure(server, "whisperbatch_active_requests")


def unfinished_upload(server: RunningServer, data: bytes) -> socket.socket:
    """Send the beginning of an upload, and keep the connection open."""
    connection = socket.create_connection(server.address, timeout=60)
    start = beginning(*FIELDS, file(data))
    connection.sendall(request_head(len(start) + 1_000_000, AUTHORIZED) + start)
    wait_until(lambda: active(server) == 1)
    return connection


@pytest.mark.parametrize("key", ["wrong", "", KEY[:-1], KEY + "x", "\u00e9"])
def test_a_wrong_key(server: RunningServer, short: Path, key: str) -> None:
    headers = {"authorization": f"Bearer {key}".encode().decode("latin-1")} if key else {}
    answer = post(server.address, form(*FIELDS, file(short.read_bytes())), headers)
    assert answer.status == 401
    assert answer.error["code"] == "invalid_api_key"
    assert "x-request-id" in answer.headers


def test_the_client_reports_a_wrong_key(server: RunningServer, short: Path) -> None:
    with (
        openai.OpenAI(base_url=server.api, api_key="wrong") as client,
        pytest.raises(openai.AuthenticationError) as caught,
    ):
        client.audio.transcriptions.create(model="whisper-1", file=short)
    assert caught.value.code == "invalid_api_key"


def test_every_page_but_two_needs_a_key(server: RunningServer) -> None:
    for path in ("/v1/models", "/metrics", "/docs", "/openapi.json", "/unknown"):
        assert server.get(path)[0] == 401
    assert server.get("/health")[0] == server.get("/ready")[0] == 200


def test_the_client_reports_a_large_file(client: openai.OpenAI) -> None:
    with pytest.raises(openai.APIStatusError) as caught:
        client.audio.transcriptions.create(
            model="whisper-1", file=("a.wav", bytes(MAX_UPLOAD + 3_000_000))
        )
    assert caught.value.status_code == 413
    assert caught.value.code == "file_too_large"
    assert caught.value.request_id


@pytest.mark.parametrize("parts", [FIELDS, ()], ids=["fields first", "file first"])
def test_a_large_body_without_a_length(
    server: RunningServer, client: openai.OpenAI, parts: tuple[bytes, ...]
) -> None:
    body = form(*parts, file(bytes(MAX_UPLOAD + 100_000)))
    answer = post(server.address, in_pieces(body), AUTHORIZED)
    assert answer.status == 413
    assert answer.error["param"] == "file"
    assert answer.headers["x-should-retry"] == "false"


def test_a_body_without_a_length(server: RunningServer, client: openai.OpenAI, short: Path) -> None:
    body = form(*FIELDS, file(short.read_bytes()))
    answer = post(server.address, in_pieces(body, 1000), AUTHORIZED)
    assert answer.status == 200
    assert json.loads(answer.body)["text"]


def test_no_place(server: RunningServer, client: openai.OpenAI, short: Path) -> None:
    with unfinished_upload(server, short.read_bytes()):
        with pytest.raises(openai.RateLimitError) as caught:
            client.audio.transcriptions.create(model="whisper-1", file=short)
        assert server.get("/health")[0] == 200
    assert caught.value.code == "queue_full"
    assert caught.value.type == "rate_limit_error"
    assert 1 <= int(caught.value.response.headers["retry-after"]) <= 120


def test_the_client_repeats_its_request(
    server: RunningServer, client: openai.OpenAI, short: Path
) -> None:
    for _ in range(25):  # requests that end quickly, so that Retry-After is small
        assert post(server.address, form(), AUTHORIZED).status == 400
    refused = figure(server, "whisperbatch_errors_total")
    connection = unfinished_upload(server, short.read_bytes())

    def free_the_place() -> None:
        wait_until(lambda: figure(server, "whisperbatch_errors_total") > refused, 120)
        connection.close()

    thread = threading.Thread(target=free_the_place)
    thread.start()
    patient = client.with_options(max_retries=10)
    assert patient.audio.transcriptions.create(model="whisper-1", file=short).text
    thread.join()


def test_a_long_recording(client: openai.OpenAI, too_long: Path) -> None:
    """The client cannot raise the limit."""
    with pytest.raises(openai.BadRequestError, match="max_duration=150") as caught:
        client.audio.transcriptions.create(
            model="whisper-1", file=too_long, extra_body={"max_duration": 10_000}
        )
    assert caught.value.code == "audio_too_long"
    assert caught.value.param == "file"


def test_an_error_in_a_stream(server: RunningServer, client: openai.OpenAI, too_long: Path) -> None:
    """The recording turns out to be too long after its first segments."""
    before = figure(server, "whisperbatch_errors_total")
    deltas: list[str] = []
    with (
        pytest.raises(openai.APIError, match="max_duration") as caught,
        client.audio.transcriptions.create(
            model="whisper-1", file=too_long, language="en", stream=True
        ) as stream,
    ):
        deltas.extend(event.type for event in stream)
    assert set(deltas) == {"transcript.text.delta"}
    assert caught.value.code == "audio_too_long"
    assert figure(server, "whisperbatch_errors_total") == before + 1


@pytest.mark.parametrize("data", [b"not a recording", b"RIFF1234WAVE", b"", b"fLaC" + bytes(5000)])
@pytest.mark.parametrize("language", ["", "en"])
@pytest.mark.parametrize("stream", [False, True])
def test_a_file_without_sound(
    client: openai.OpenAI, data: bytes, language: str, stream: Any
) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        client.audio.transcriptions.create(
            model="whisper-1", file=("a.wav", data), language=language, stream=stream
        )
    assert caught.value.code == "invalid_audio"
    assert caught.value.param == "file"


@pytest.mark.parametrize("stream", ["false", "true"])
@pytest.mark.parametrize("language", [(), FIELDS[1:]], ids=["detected", "given"])
def test_the_work_of_a_gone_client_is_cancelled(
    server: RunningServer,
    client: openai.OpenAI,
    two_minutes: Path,
    stream: str,
    language: tuple[bytes, ...],
) -> None:
    audio = figure(server, "whisperbatch_audio_seconds_total")
    rows = figure(server, "whisperbatch_engine_rows_total")
    body = form(
        FIELDS[0],
        *language,
        field("stream", stream),
        field("beam_size", "5"),
        field("batch_size", "1"),
        file(two_minutes.read_bytes()),
    )
    with socket.create_connection(server.address, timeout=60) as connection:
        connection.sendall(request_head(len(body), AUTHORIZED) + body)
        wait_until(lambda: figure(server, "whisperbatch_engine_rows_total") > rows)
        assert active(server) == 1
    wait_until(lambda: not active(server), CANCELLED)
    assert figure(server, "whisperbatch_audio_seconds_total") == audio


def test_an_unfinished_upload_of_a_gone_client_is_cancelled(
    server: RunningServer, client: openai.OpenAI, short: Path
) -> None:
    unfinished_upload(server, short.read_bytes()).close()
    wait_until(lambda: not active(server), CANCELLED)


@pytest.mark.slow
def test_an_upload_that_stops_is_refused(
    server: RunningServer, client: openai.OpenAI, short: Path
) -> None:
    """`--idle-timeout` is 8 s."""
    with unfinished_upload(server, short.read_bytes()) as connection:
        connection.settimeout(120)
        answer = connection.recv(65_536)
    assert answer.startswith(b"HTTP/1.1 408")
    assert b"x-should-retry: false" in answer


def test_a_task_that_is_cancelled(
    server: RunningServer, client: openai.OpenAI, two_minutes: Path
) -> None:
    async def give_up() -> None:
        async with openai.AsyncOpenAI(base_url=server.api, api_key=KEY, max_retries=0) as one:
            task = asyncio.ensure_future(
                one.audio.transcriptions.create(model="whisper-1", file=two_minutes)
            )
            await asyncio.to_thread(wait_until, lambda: active(server) == 1)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    asyncio.run(give_up())
    wait_until(lambda: not active(server), CANCELLED)
