"""Session cases: hostile live sessions beside people who speak, and what the sessions leave.

Two clients play real speech in real time: first alone, then beside the hostile sessions of another
client. A settled word is as old as the audio that was spoken since its end, when it arrives.
"""

import asyncio
import json
import math
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any, Final

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from benchmarks import recordings
from benchmarks.crowd import quantile
from tests.fuzz.cases import Case, Record
from tests.fuzz.inputs.live_sessions import (
    ANSWER_TIME,
    PATH,
    RATE,
    Hostile,
    append,
    hostile_of,
    update,
)
from tests.fuzz.request_cases import REST_TIME, State, leaks
from tests.model.server import RunningServer, running, wait_until

CLIENTS: Final = 24  # hostile sessions at the same time
PLACES: Final = 20  # of the hostile client
FRIENDS: Final = 2
KEYS: Final = {"friend": "f-key", "stranger": "s-key"}
WARM_UP: Final = 60  # hostile sessions, but at most two thirds of them
MORE_THREADS: Final = 8
"""Threads that may be there after the sessions: those of asyncio, and of a session that ends."""
REFUSED: Final = "refused with 429"
AGAIN: Final = 1.0  # seconds after which a client without a place tries again
ALONE: Final = 60.0  # seconds in which the friends are measured without hostile sessions
LATER: Final = 1.5  # how much later 95 % of the words may be beside the hostile sessions
BLOCK: Final = 0.1  # seconds of speech in an event
WORKERS: Final = 2  # calls of the engine that may run when the last client leaves
LAST_TEXT: Final = 3.0  # seconds in which a friend gets the last words
IDLE: Final = 2.0  # seconds without a call, after which no call runs


@dataclass
class Friend:
    """Someone who speaks. One session, in a thread of its own.

    Attributes:
        ages: time at which each settled word arrived, and its age in seconds.
        texts: the final texts.
        problem: why the session has failed; empty if it has not.
    """

    server: RunningServer
    seed: int
    ages: list[tuple[float, float]] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    problem: str = ""

    def __post_init__(self) -> None:
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def stop(self) -> None:
        """End the session, after the words that were spoken."""
        self._stopped.set()
        self._thread.join()

    def between(self, start: float, end: float = math.inf) -> list[float]:
        """Return the ages of the words that arrived in a time."""
        return [age for at, age in self.ages if start <= at <= end]

    def _run(self) -> None:
        try:
            asyncio.run(self._speak())
        except Exception as error:  # noqa: BLE001 - reported
            self.problem = repr(error)

    async def _speak(self) -> None:
        samples = recordings.read_speech(60, self.seed).samples.astype("<i2").tobytes()
        size = round(BLOCK * RATE) * 2
        async with _connect(self.server, KEYS["friend"]) as connection:
            await connection.send(update({"type": "server_vad"}))
            begun = time.monotonic()
            reading = asyncio.ensure_future(self._read(connection, begun))
            sent = 0
            with suppress(ConnectionClosed):  # `_read` says why
                while not self._stopped.is_set() and not reading.done():
                    start = sent * size % (len(samples) // size * size)
                    await connection.send(append(samples[start : start + size]))
                    sent += 1
                    await asyncio.sleep(max(begun + sent * BLOCK - time.monotonic(), 0.0))
                await connection.send(append(bytes(2 * RATE)))  # a pause, which ends the turn
            await asyncio.wait({reading}, timeout=LAST_TEXT)
            if reading.done():
                reading.result()
                raise ValueError("the server has closed the session")
            reading.cancel()

    async def _read(self, connection: ClientConnection, begun: float) -> None:
        while True:
            message = await connection.recv()
            now = time.monotonic()
            event = json.loads(message)
            kind = event["type"].rpartition(".")[2]
            if kind == "delta":
                self.ages += [(now, now - begun - word["end"]) for word in event["words"]]
            elif kind == "completed":
                self.texts.append(event["transcript"])
            elif kind in {"error", "failed"}:
                raise ValueError(f"{event['type']}: {event['error']}")


def run(
    cases: Sequence[Case],
    show: Callable[[Record], None] = lambda _: None,
    *,
    alone: float = ALONE,
    model: str = "tiny.en",
) -> list[Record]:
    """Open the sessions at one server; return their records, and one of what they leave.

    Args:
        cases: the hostile sessions.
        show: is given each record.
        alone: seconds in which the others are measured before; 0: their times are not compared.
        model: of the server.
    """
    if not cases:
        return []
    warm_up = min(WARM_UP, 2 * len(cases) // 3)
    with tempfile.TemporaryDirectory() as folder:
        keys = Path(folder, "keys")
        keys.write_text(
            f"{KEYS['friend']} name=friend\n{KEYS['stranger']} name=stranger requests={PLACES}\n"
        )
        flags = ("--api-keys-file", str(keys))
        with running(*flags, model=("--model", model)) as server:
            records = _attack(server, cases[:warm_up], show)
            problems = _rest(server)
            before = State.of(server)
            friends = [Friend(server, 300 + number) for number in range(FRIENDS)]
            time.sleep(alone)
            begun = time.monotonic()
            records += _attack(server, cases[warm_up:], show)
            ended = time.monotonic()
            for friend in friends:
                friend.stop()
            problems += _rest(server)
            with suppress(TimeoutError):  # threads and files are freed a little later
                wait_until(lambda: not leaks(before, State.of(server), MORE_THREADS), REST_TIME)
            after = State.of(server)
            problems += leaks(before, after, MORE_THREADS)
            if "Traceback" in server.messages():
                problems.append(f"the server has logged: {server.messages()[-3000:]}")
    problems += [friend.problem for friend in friends if friend.problem]
    problems += ["a friend has no text" for friend in friends if not any(friend.texts)]
    notes = [f"before {before}, after {after}; {ended - begun:.0f} s"]
    quiet = [age for friend in friends for age in friend.between(begun - alone, begun)]
    beside = [age for friend in friends for age in friend.between(begun, ended)]
    if quiet and beside:
        notes.append(f"settled, alone: {_ages(quiet)}; beside hostile sessions: {_ages(beside)}")
        if alone and quantile(beside, 0.95) > LATER * quantile(quiet, 0.95):
            problems.append(notes[-1])
    left = Record("session-server", "left" if problems else "nothing left", "; ".join(problems))
    left.failed, left.notes = bool(problems), tuple(notes)
    show(left)
    return [*records, left]


def _attack(
    server: RunningServer, cases: Sequence[Case], show: Callable[[Record], None]
) -> list[Record]:
    """Open hostile sessions, `CLIENTS` at a time."""

    async def attack_all() -> list[Record]:
        places = asyncio.Semaphore(CLIENTS)

        async def attack(case: Case) -> Record:
            async with places:
                record = await _session(server, case)
            show(record)
            return record

        return await asyncio.gather(*(attack(case) for case in cases))

    return asyncio.run(attack_all())


async def _session(server: RunningServer, case: Case) -> Record:
    rng = case.random()
    hostile = hostile_of(rng)
    record = Record(case.name, "", notes=(hostile.kind,))
    started = time.monotonic()
    try:
        while (ended := await _opened(server, hostile, rng)) == REFUSED:  # noqa: ASYNC110 - the server's places
            await asyncio.sleep(AGAIN)
        record.verdict = f"{hostile.kind}: {ended}"
    except Exception as error:  # noqa: BLE001 - a finding
        record.verdict, record.message = f"{hostile.kind}: failed", repr(error)
        record.failed = True
    record.seconds = time.monotonic() - started
    return record


async def _opened(server: RunningServer, hostile: Hostile, rng: Any) -> str:
    """Do what a hostile client does, and return how its session has ended."""
    if hostile.raw:
        reader, writer = await asyncio.open_connection(*server.address)
        writer.write(hostile.raw)
        with suppress(asyncio.TimeoutError, ConnectionError):
            await asyncio.wait_for(reader.read(100), rng.uniform(0, 2))
        writer.transport.abort()
        return "left"
    key = KEYS["stranger"] if hostile.has_key else ""
    try:
        async with _connect(server, key, hostile.headers) as connection:
            if not hostile.act:
                raise ValueError("a stranger has a session")
            return await hostile.act(connection, rng)
    except InvalidStatus as refused:
        status = refused.response.status_code
        if status != (429 if hostile.has_key else 401):
            raise
        return REFUSED if hostile.has_key else "refused with 401"


def _connect(server: RunningServer, key: str, headers: Iterable[tuple[str, str]] = ()) -> connect:
    given = [("authorization", f"Bearer {key}")] if key else []
    return connect(
        server.url.replace("http", "ws", 1) + PATH,
        additional_headers=[*given, *headers],
        max_size=None,
        open_timeout=ANSWER_TIME,
        close_timeout=1,
        proxy=None,
        compression=None,
    )


def _rest(server: RunningServer) -> list[str]:
    """Wait until all sessions have ended; only the calls that ran then are still computed."""
    headers = {"authorization": f"Bearer {KEYS['friend']}"}

    def figure(name: str) -> float:
        return server.figure(f"whisperbatch_{name}", headers)

    try:
        wait_until(lambda: figure("live_sessions") == 0, REST_TIME)
    except TimeoutError:
        return [f"{figure('live_sessions'):.0f} sessions {REST_TIME:g} s after the last client"]
    left = now = figure("engine_calls_total")
    last = math.nan
    while last != now:
        time.sleep(IDLE)
        last, now = now, figure("engine_calls_total")
    more = now - left
    return [f"{more:.0f} calls for clients that are gone"] if more > WORKERS else []


def _ages(ages: list[float]) -> str:
    return f"median {median(ages):.2f} s, 95 % {quantile(ages, 0.95):.2f} s, {len(ages)} words"
