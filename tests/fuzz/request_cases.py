"""Request cases: hostile requests to a server, and the threads and files that they leave."""

import http.client
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Final

import psutil

from tests.fuzz.cases import Case, Record
from tests.fuzz.inputs.http_requests import Request, request_of, speech
from tests.model import forms
from tests.model.server import RunningServer, running, wait_until

CLIENTS: Final = 12  # at the same time
WARM_UP: Final = 500  # requests, but at most half of them
NO_ANSWER: Final = "no answer"
SHOWN: Final = 500  # bytes of a request that its record shows
ANSWER_TIME: Final = 180.0  # seconds
REST_TIME: Final = 90.0  # seconds until all work has ended
MAX_GROWTH: Final = 200  # MiB
"""The memory grew by 129 MiB in 1,500 requests and by 64 MiB in 3,500 requests: with the recordings
that were open at the same time, not with the number of requests."""
MORE_THREADS: Final = 30
"""Threads that may be there after the requests. FFmpeg's decoders, each with one thread for each
core, end when Python's garbage collector frees their containers: on two cores there were 17 to 39
threads, and in a run of 500 requests 15 after each of two collections. One thread that is left in
every 40 requests fails the run of 2,000 requests; smaller leaks are not found."""
ALLOWED: Final = frozenset({503, 504})  # among the errors of a server
FLAGS: Final = (
    *("--max-upload", "3MB", "--max-duration", "600", "--idle-timeout", "2"),
    *("--max-time", "120", "--max-requests", "64"),
)


@dataclass(frozen=True)
class State:
    """What a server uses."""

    threads: int
    files: int
    memory: float  # MiB

    @classmethod
    def of(cls, server: RunningServer) -> "State":
        """Return the present state."""
        process = psutil.Process(server.process.pid)
        memory = process.memory_info().rss / 2**20
        return cls(process.num_threads(), process.num_fds(), memory)


def run(cases: Sequence[Case], show: Callable[[Record], None] = lambda _: None) -> list[Record]:
    """Send the requests to one server, and return their records, and one of what they leave.

    The first requests warm the server up.
    """
    if not cases:
        return []
    problems: list[str] = []
    warm_up = min(WARM_UP, len(cases) // 2)
    with running(*FLAGS) as server, _trap(problems) as port:
        text = _text(server)
        records = _send_all(server, cases[:warm_up], port, show)
        problems += _wait_for_rest(server)
        before = State.of(server)
        records += _send_all(server, cases[warm_up:], port, show)
        problems += _wait_for_rest(server)
        if len(cases) > 1:  # the first request loads more than it leaves
            with suppress(TimeoutError):  # threads and files are freed a little later
                wait_until(lambda: not leaks(before, State.of(server)), REST_TIME)
            problems += leaks(before, State.of(server))
        if _text(server) != text:
            problems.append("the text of an ordinary request has changed")
    left = Record("request-server", "left" if problems else "nothing left", "; ".join(problems))
    left.failed = bool(problems)
    show(left)
    return [*records, left]


def _send(server: RunningServer, request: Request) -> tuple[str, str]:
    """Send a request; return the status of the answer, and the error in the answer, or nothing."""
    with socket.create_connection(server.address, timeout=ANSWER_TIME) as connection:
        with suppress(BrokenPipeError, ConnectionResetError):  # the answer may be there
            for piece in request.pieces:
                connection.sendall(piece)
                time.sleep(request.pause)
        if request.leaves:
            return NO_ANSWER, ""
        method = request.pieces[0].partition(b" ")[0].decode("latin-1")
        answer = http.client.HTTPResponse(connection, method=method)
        try:
            answer.begin()
            body = answer.read()
        except (http.client.HTTPException, OSError) as error:
            silent = request.may_be_silent and not isinstance(error, TimeoutError)
            return NO_ANSWER, "" if silent else repr(error)
    return str(answer.status), _wrong(answer, body, has_body=method != "HEAD")


def _wrong(answer: http.client.HTTPResponse, body: bytes, *, has_body: bool) -> str:
    text = f"{answer.status} {body[:300]!r}"
    if not answer.getheader("x-request-id"):
        return f"no x-request-id: {text}"
    if answer.status >= 500 and answer.status not in ALLOWED:
        return f"an error of the server: {text}"
    if answer.status < 400 or not has_body:
        return ""
    try:
        error = json.loads(body)["error"]
        right = error.keys() == {"message", "type", "param", "code"} and bool(error["message"])
    except (ValueError, KeyError, TypeError, AttributeError):
        right = False
    return "" if right else f"not OpenAI's form of errors: {text}"


def _send_all(
    server: RunningServer, cases: Sequence[Case], port: int, show: Callable[[Record], None]
) -> list[Record]:
    lock = threading.Lock()

    def send(case: Case) -> Record:
        request = request_of(case.random(), port)
        start = time.monotonic()
        try:
            status, problem = _send(server, request)
        except OSError as error:
            status, problem = NO_ANSWER, repr(error)
        sent = ascii(b"".join(request.pieces)[:SHOWN])
        record = Record(case.name, status, problem, bool(problem), (f"{request.kind}: {sent}",))
        record.seconds = time.monotonic() - start
        with lock:
            show(record)
        return record

    with ThreadPoolExecutor(CLIENTS) as pool:
        return list(pool.map(send, cases))


def _wait_for_rest(server: RunningServer) -> list[str]:
    problems = []
    try:
        wait_until(lambda: server.figure("whisperbatch_active_requests") == 0, REST_TIME)
    except TimeoutError:
        problems.append(f"work goes on {REST_TIME:g} s after the last request")
    time.sleep(1.0)
    return problems


def leaks(before: State, after: State, threads: int = MORE_THREADS) -> list[str]:
    """Return what a server has more than before, if that is more than the limits.

    Args:
        before: the earlier state.
        after: the later state.
        threads: limit of threads.
    """
    return [
        f"{name} left: {old:.0f} before, {new:.0f} after"
        for name, old, new, limit in (
            ("threads", before.threads, after.threads, threads),
            ("files", before.files, after.files, 2),
            ("memory", before.memory, after.memory, MAX_GROWTH),
        )
        if new > old + limit
    ]


def _text(server: RunningServer) -> bytes:
    body = forms.form(forms.field("model", "whisper-1"), forms.file(speech()))
    answer = forms.post(server.address, body)
    assert answer.status == 200, answer.body
    return answer.body


@contextmanager
def _trap(problems: list[str]) -> Iterator[int]:
    """Listen at a port that only a player of hostile playlists would open."""
    with socket.create_server(("127.0.0.1", 0)) as trap:
        yield trap.getsockname()[1]
        trap.settimeout(0)
        with suppress(BlockingIOError):
            trap.accept()[0].close()
            problems.append("the server has opened an address that a file names")
