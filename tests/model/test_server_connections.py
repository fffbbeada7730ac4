"""Connections that break the rules of HTTP, or are slow, and servers that cannot start."""

import json
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from benchmarks import recordings
from benchmarks.recordings import Recording
from tests.model.command_line import command
from tests.model.forms import beginning, field, file, form, post, request_head
from tests.model.server import RunningServer, running, wait_until

Save = Callable[[Recording, str], Path]
FIELDS = (field("model", "whisper-1"), field("language", "en"))


@pytest.fixture(scope="module")
def server() -> Iterator[RunningServer]:
    with running() as server:
        yield server


@pytest.mark.parametrize(
    "data",
    [
        b"\x00\xff\r\n\r\n",
        b"GET /health HTTP/1.1\r\n\r\n",  # no host
        b"POST /v1/audio/transcriptions HTTP/1.1\r\nhost: a\r\ncontent-length: many\r\n\r\n",
    ],
)
def test_the_answer_to_broken_http(server: RunningServer, data: bytes) -> None:
    with socket.create_connection(server.address, timeout=60) as connection:
        connection.sendall(data)
        head, _, body = connection.recv(10_000).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400")
    assert b"x-request-id: req_" in head
    assert json.loads(body)["error"]["code"] == "invalid_http"


@pytest.mark.slow
def test_a_client_that_never_ends_is_disconnected(server: RunningServer) -> None:
    """It gets the answer, and 10 s later the end of the connection."""
    piece = b"400\r\n" + bytes(1024) + b"\r\n"
    with socket.create_connection(server.address, timeout=60) as connection:
        connection.sendall(
            b"POST /v1/audio/transcriptions HTTP/1.1\r\nhost: a\r\ncontent-type: text/plain\r\n"
            b"transfer-encoding: chunked\r\n\r\n"
        )
        wait_until(lambda: not _is_open(connection, piece), 120)


def _is_open(connection: socket.socket, piece: bytes) -> bool:
    try:
        connection.sendall(piece)
    except OSError:
        return False
    return True


def test_slow_uploads_leave_places_to_others(server: RunningServer, save: Save) -> None:
    """More uploads than the 64 recordings that are active at a time."""
    data = save(recordings.prompts("en", duration=5), ".wav").read_bytes()
    with ExitStack() as stack:
        for _ in range(70):
            connection = socket.create_connection(server.address, timeout=60)
            stack.enter_context(connection)
            start = beginning(*FIELDS, file(data[:10_000]))
            connection.sendall(request_head(10**6, {}) + start)
        wait_until(lambda: server.figure("whisperbatch_active_requests") == 70)
        answer = post(server.address, form(*FIELDS, file(data)))
        assert answer.status == 200
    wait_until(lambda: server.figure("whisperbatch_active_requests") == 0)


def test_a_model_that_cannot_be_loaded(tmp_path: Path) -> None:
    """The server ends with the reason, in one line."""
    missing = str(tmp_path / "missing")
    done = subprocess.run(
        command("serve", "--port", "0", "--model", missing),
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert done.returncode not in {0, None}
    assert "there is no such directory" in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr
