"""OpenAI's client for Node.js and the server. The client is installed from npm's registry, once."""

import json
import socket
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

import whisperbatch as wb
from benchmarks import recordings
from benchmarks.recordings import Recording
from tests.model import node_client
from tests.model.forms import beginning, file, request_head
from tests.model.server import FAST, RunningServer, running, wait_until

SCRIPT: Final = """
import fs from "node:fs";
import OpenAI from "openai";
const [baseURL, path, settings] = process.argv.slice(2);
const { stream, model = "whisper-1", maxRetries = 0, ...fields } = JSON.parse(settings);
const client = new OpenAI({ baseURL, apiKey: "none", maxRetries });
const body = { file: fs.createReadStream(path), model, ...fields };
try {
  if (stream) {
    const events = [];
    const received = await client.audio.transcriptions.create({ ...body, stream: true });
    for await (const event of received) events.push(event);
    console.log(JSON.stringify(events));
  } else {
    console.log(JSON.stringify(await client.audio.transcriptions.create(body)));
  }
} catch (error) {
  const { status, code, param, type, message, requestID } = error;
  const retryAfter = error.headers?.get("retry-after");
  const name = error.constructor.name;
  console.log(JSON.stringify({ name, status, code, param, type, message, requestID, retryAfter }));
}
"""

Save = Callable[[Recording, str], Path]


@pytest.fixture(scope="module")
def script() -> Path:
    """Return the program, in a folder where the client is installed."""
    if reason := node_client.install():
        pytest.skip(reason)
    return node_client.write_script(SCRIPT)


@pytest.fixture(scope="module")
def server(script: Path) -> Iterator[RunningServer]:
    """A server that works on one request at a time."""
    with running("--max-requests", "1", model=FAST) as server:
        yield server
    script.unlink()


@pytest.fixture(scope="module")
def mp3(save: Save) -> Path:
    return save(recordings.prompts("en", duration=10), ".mp3")


@pytest.fixture
def ask(server: RunningServer, script: Path, mp3: Path) -> Callable[..., Any]:
    def run(path: Path = mp3, **settings: Any) -> Any:
        done = subprocess.run(
            ["node", str(script), server.api, str(path), json.dumps(settings)],  # noqa: S607
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        assert not done.returncode, done.stderr
        return json.loads(done.stdout)

    wait_until(lambda: not server.figure("whisperbatch_active_requests"))
    return run


@pytest.fixture(scope="module")
def expected(tiny: wb.Transcriber, mp3: Path) -> wb.Transcript:
    return tiny.transcribe(mp3, beam_size=1)


def test_json(ask: Callable[..., Any], expected: wb.Transcript) -> None:
    assert ask()["text"] == expected.text


def test_text(ask: Callable[..., Any], expected: wb.Transcript) -> None:
    assert ask(response_format="text") == f"{expected.text}\n"


def test_verbose_json(ask: Callable[..., Any], expected: wb.Transcript) -> None:
    result = ask(response_format="verbose_json", timestamp_granularities=["word", "segment"])
    assert result["language"] == "english"
    assert len(result["segments"]) == len(expected.segments)
    assert result["words"]


def test_objects_and_lists(ask: Callable[..., Any]) -> None:
    strategy = {"type": "server_vad", "threshold": 0.5, "silence_duration_ms": 200}
    result = ask(chunking_strategy=strategy, include=["logprobs"], keywords=["mailbox"])
    assert result["logprobs"]


def test_a_stream(ask: Callable[..., Any], expected: wb.Transcript) -> None:
    *deltas, done = ask(stream=True, model="gpt-4o-transcribe")
    assert "".join(event["delta"] for event in deltas) == expected.text
    assert done["type"] == "transcript.text.done"
    assert done["text"] == expected.text


def test_wrong_requests(ask: Callable[..., Any], script: Path) -> None:
    error = ask(model="whisperbatch-1")
    assert (error["name"], error["status"]) == ("NotFoundError", 404)
    assert (error["code"], error["param"]) == ("model_not_found", "model")
    assert error["requestID"]
    error = ask(response_format="docx")
    assert (error["name"], error["param"]) == ("BadRequestError", "response_format")
    error = ask(path=script)
    assert (error["name"], error["code"]) == ("BadRequestError", "invalid_audio")


def test_no_place(ask: Callable[..., Any], server: RunningServer) -> None:
    start = beginning(file(b"RIFF"))
    with socket.create_connection(server.address, timeout=60) as connection:
        connection.sendall(request_head(1_000_000) + start)
        wait_until(lambda: server.figure("whisperbatch_active_requests") == 1)
        error = ask(maxRetries=0)
    assert (error["name"], error["status"]) == ("RateLimitError", 429)
    assert error["code"] == "queue_full"
    assert int(error["retryAfter"]) >= 1
