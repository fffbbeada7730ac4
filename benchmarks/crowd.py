"""Measure the server with many long recordings: clips of another client, memory, threads, the end.

python -m benchmarks.crowd                  # tiny.en, 70 and then 200 recordings of 30 minutes
python -m benchmarks.crowd --long 70 --model base

Clips of 2 s are sent one after the other: without other requests, and while the server has the long
recordings of another client. Then the client of the long recordings closes all connections at the
same moment. The time of an engine call is that of the calls during the load.
"""

import argparse
import asyncio
import math
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Final
from urllib.request import Request, urlopen

import psutil
from openai import APIStatusError, APITimeoutError, AsyncOpenAI

from benchmarks import corpora, recordings
from benchmarks.scheduling import pieces
from benchmarks.serving import server, wav

CLIPS: Final = 30
CLIP_SECONDS: Final = 2
MINUTES: Final = 30
PATIENCE: Final = 30.0  # seconds in which each clip has an answer or the status 429
KEYS: Final = ("archive", "visitor")
START: Final = 20.0  # seconds in which the long recordings arrive, before clips are sent
POLL: Final = 0.1


@dataclass(frozen=True)
class Figures:
    """Figures of the server, from its metrics.

    Attributes:
        rows: rows computed.
        calls: calls of the engine.
        active: requests that have not ended.
    """

    rows: int
    calls: int
    active: int


class Crowd:
    """The clients of a server.

    Args:
        url: address of the server.
        process: of the server.
    """

    def __init__(self, url: str, process: psutil.Process) -> None:
        self._url, self._process = url, process
        self.memory = self.threads = 0
        self.statuses: dict[int, int] = {}

    async def figures(self) -> Figures:
        """Return the figures of the server."""
        lines = (await asyncio.to_thread(self._metrics)).splitlines()
        values = dict(line.rsplit(" ", 1) for line in lines if line[0] != "#")
        names = ("engine_rows_total", "engine_calls_total", "active_requests")
        return Figures(*(int(float(values[f"whisperbatch_{name}"])) for name in names))

    async def watch(self) -> None:
        """Note the largest memory and number of threads, until the task is cancelled."""
        while True:
            self.memory = max(self.memory, self._process.memory_info().rss)
            self.threads = max(self.threads, self._process.num_threads())
            await asyncio.sleep(POLL)

    async def send(self, data: bytes, name: str, client: str, limit: float) -> tuple[int, float]:
        """Send a recording; return the status, 0 without an answer, and the seconds."""
        started = time.perf_counter()
        connection = AsyncOpenAI(
            api_key=client, base_url=f"{self._url}/v1", max_retries=0, timeout=limit
        )
        status = 200
        async with connection:
            try:
                await connection.audio.transcriptions.create(
                    file=(name, data), model="whisper-1", language="en"
                )
            except APITimeoutError:
                status = 0
            except APIStatusError as error:
                status = error.status_code
        return status, time.perf_counter() - started

    def _metrics(self) -> str:
        request = Request(f"{self._url}/metrics", headers={"Authorization": f"Bearer {KEYS[1]}"})  # noqa: S310 - our own server
        with urlopen(request) as answer:  # noqa: S310 - as above
            return str(answer.read().decode())

    async def clips(self, files: list[bytes]) -> list[float]:
        """Send clips one after the other; return the seconds of each answer."""
        times = []
        for data in files:
            status, seconds = await self.send(data, "clip.wav", KEYS[1], PATIENCE)
            self.statuses[status] = self.statuses.get(status, 0) + 1
            times.append(seconds if status == 200 else math.inf)
        return times


def quantile(values: list[float], share: float) -> float:
    """Return the value that a share of the values does not exceed."""
    return sorted(values)[math.ceil(share * len(values)) - 1]


async def measure(model: str, long: int, files: list[bytes], recording: bytes) -> list[str]:
    """Return the lines of the report for a number of long recordings."""
    with tempfile.NamedTemporaryFile("w") as keys:
        keys.write("\n".join(KEYS))
        keys.flush()
        flags = ("--api-keys-file", keys.name, "--max-client-requests", "250")
        with server(model, *flags) as (url, process):
            crowd = Crowd(url, process)
            await crowd.clips(files[:3])
            alone = await crowd.clips(files)
            crowd.statuses.clear()
            watching = asyncio.ensure_future(crowd.watch())
            sending = [
                asyncio.ensure_future(crowd.send(recording, "long.mp3", KEYS[0], 36_000))
                for _ in range(long)
            ]
            await asyncio.sleep(START)
            before, began = await crowd.figures(), time.perf_counter()
            beside = await crowd.clips(files)
            after, took = await crowd.figures(), time.perf_counter() - began
            workers = min(2, psutil.cpu_count() or 1)
            call = workers * took / max(after.calls - before.calls, 1)
            for task in sending:
                task.cancel()
            await asyncio.gather(*sending, return_exceptions=True)
            left = time.perf_counter()
            rows = [(await crowd.figures()).rows]
            while (now := await crowd.figures()).active:
                rows.append(now.rows)
                await asyncio.sleep(POLL)
            ended = time.perf_counter() - left
            await asyncio.sleep(2 * call + 1)
            rows.append((await crowd.figures()).rows)
            watching.cancel()
    bounds = (3 * median(alone) + call, 6 * quantile(alone, 0.95) + call)
    return [
        f"{long} recordings of {MINUTES} minutes, {model}; an engine call takes {call:.1f} s",
        f"  clips alone:  median {median(alone):.2f} s, 95 % {quantile(alone, 0.95):.2f} s",
        f"  clips beside: median {median(beside):.2f} s, 95 % {quantile(beside, 0.95):.2f} s",
        f"  bounds: {bounds[0]:.2f} and {bounds[1]:.2f} s; statuses: {crowd.statuses}",
        f"  server: at most {crowd.memory / 1e6:.0f} MB and {crowd.threads} threads",
        f"  after all have left: {rows[-1] - rows[0]} rows, no request after {ended:.1f} s",
    ]


def main() -> None:
    """Measure, and print the figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", default="tiny.en")
    parser.add_argument("--long", type=int, nargs="+", default=[70, 200], help="recordings")
    arguments = parser.parse_args()
    files = [wav([clip]).getvalue() for clip in pieces([CLIP_SECONDS], CLIPS)]
    recording = mp3(MINUTES * 60)
    for long in arguments.long:
        for line in asyncio.run(measure(arguments.model, long, files, recording)):
            print(line, flush=True)


def mp3(seconds: int) -> bytes:
    """Return a recording as an MP3 file."""
    with tempfile.TemporaryDirectory() as folder:
        recording = corpora.build(f"prompts:en:{seconds}:0")
        return recordings.write(recording, Path(folder) / "long.mp3").read_bytes()


if __name__ == "__main__":
    main()
