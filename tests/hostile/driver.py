"""Sends hostile requests to a server; checks the answers and the remaining threads and files."""

import http.client
import json
import socket
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Final

import psutil

from tests.hostile.cases import Case, case_of
from tests.hostile.materials import speech
from tests.model import forms
from tests.model.server import RunningServer, wait_until

CLIENTS: Final = 12  # at the same time
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


@dataclass
class Report:
    """The outcomes of the requests."""

    failures: list[str] = field(default_factory=list)
    statuses: Counter[int] = field(default_factory=Counter)
    before: State | None = None
    after: State | None = None

    def __str__(self) -> str:
        counts = ", ".join(
            f"{status or 'none'}: {n}" for status, n in sorted(self.statuses.items())
        )
        return "\n".join((f"answers {counts}", f"{self.before} -> {self.after}", *self.failures))


def run(server: RunningServer, seed: int, count: int, warm_up: int) -> Report:
    """Send requests, and return their outcomes. The first requests warm the server up."""
    report = Report()
    with _trap(report) as port:
        text = _text(server)
        _send_all(server, [(n, case_of(seed, n, port)) for n in range(warm_up)], report)
        _wait_for_rest(server, report)
        report.before = State.of(server)
        rest = [(n, case_of(seed, n, port)) for n in range(warm_up, count)]
        _send_all(server, rest, report)
        _wait_for_rest(server, report)
        with suppress(TimeoutError):  # threads and files are freed a little later
            wait_until(lambda: not _leaks(report.before, State.of(server)), REST_TIME)
        report.after = State.of(server)
        report.failures += _leaks(report.before, report.after)
        if _text(server) != text:
            report.failures.append("the text of an ordinary request has changed")
    return report


def check(server: RunningServer, case: Case, statuses: Counter[int]) -> str:
    """Send a request; return the error in the answer, or nothing."""
    with socket.create_connection(server.address, timeout=ANSWER_TIME) as connection:
        with suppress(BrokenPipeError, ConnectionResetError):  # the answer may be there
            for piece in case.pieces:
                connection.sendall(piece)
                time.sleep(case.pause)
        if case.leaves:
            return ""
        method = case.pieces[0].partition(b" ")[0].decode("latin-1")
        answer = http.client.HTTPResponse(connection, method=method)
        try:
            answer.begin()
            body = answer.read()
        except (http.client.HTTPException, OSError) as error:
            return "" if case.may_be_silent and not isinstance(error, TimeoutError) else repr(error)
    statuses[answer.status] += 1
    return _wrong(answer, body, has_body=method != "HEAD")


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


def _send_all(server: RunningServer, cases: Iterable[tuple[int, Case]], report: Report) -> None:
    lock = threading.Lock()

    def send(numbered: tuple[int, Case]) -> None:
        number, case = numbered
        statuses = Counter[int]()
        try:
            problem = check(server, case, statuses)
        except OSError as error:
            problem = repr(error)
        with lock:
            report.statuses += statuses
            if problem:
                report.failures.append(f"{number} ({case.kind}): {problem}")

    with ThreadPoolExecutor(CLIENTS) as pool:
        list(pool.map(send, cases))


def _wait_for_rest(server: RunningServer, report: Report) -> None:
    try:
        wait_until(lambda: server.figure("whisperbatch_active_requests") == 0, REST_TIME)
    except TimeoutError:
        report.failures.append(f"work goes on {REST_TIME:g} s after the last request")
    time.sleep(1.0)


def _leaks(before: State | None, after: State) -> list[str]:
    assert before
    return [
        f"{name} left: {old:.0f} before, {new:.0f} after"
        for name, old, new, limit in (
            ("threads", before.threads, after.threads, MORE_THREADS),
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
def _trap(report: Report) -> Iterator[int]:
    """Listen at a port that only a player of hostile playlists would open."""
    with socket.create_server(("127.0.0.1", 0)) as trap:
        yield trap.getsockname()[1]
        trap.settimeout(0)
        with suppress(BlockingIOError):
            trap.accept()[0].close()
            report.failures.append("the server has opened an address that a file names")
