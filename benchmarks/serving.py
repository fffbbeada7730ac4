"""Measure the server: 64 clients with clips, next to a client with a long recording.

python -m benchmarks.serving                 # on base, with a recording of 3 hours
python -m benchmarks.serving --hours 0.5 --rounds 1

The clips of 5 to 60 s are sent twice: without the long recording, and while it is transcribed. The
throughput is compared with `transcribe_many` on the same audio, in a separate process.
"""

import argparse
import asyncio
import io
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import wave
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from statistics import median
from typing import Any, Final
from urllib.request import urlopen

import numpy as np
import psutil
from openai import AsyncOpenAI

import whisperbatch as wb
from benchmarks.scheduling import CLIP_LENGTHS, CLIPS, Floats, pieces, repeated, spoken
from whisperbatch.types import SAMPLING_RATE

HEALTH_INTERVAL: Final = 0.02  # seconds between two requests of /health
OPTIONS: Final[dict[str, Any]] = {"beam_size": 1, "language": "en"}
START_LIMIT: Final = 120.0  # seconds until the server is ready


def wav(blocks: Sequence[Floats]) -> io.BytesIO:
    """Return blocks of samples as a WAV file."""
    file = io.BytesIO()
    with wave.open(file, "wb") as output:
        output.setparams((1, 2, SAMPLING_RATE, 0, "NONE", ""))
        for block in blocks:
            output.writeframesraw((block.clip(-1, 1) * 32767).astype(np.int16).tobytes())
    file.seek(0)
    file.name = "clip.wav"
    return file


class Watch:
    """Measures a server from outside while it works.

    Attributes:
        health: seconds that each request of /health took.
        memory: highest memory of the process, in bytes.
    """

    def __init__(self, url: str, process: psutil.Process) -> None:
        self.health: list[float] = []
        self.memory = 0
        self._url, self._process = url, process
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop measuring."""
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._ended.wait(HEALTH_INTERVAL):
            started = time.perf_counter()
            with urlopen(f"{self._url}/health") as answer:  # noqa: S310 - our own server
                answer.read()
            self.health.append(time.perf_counter() - started)
            self.memory = max(self.memory, self._process.memory_info().rss)


@contextmanager
def server(model: str, *flags: str) -> Iterator[tuple[str, psutil.Process]]:
    """Run a server until the end of a `with` block; yield its address and its process."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "whisperbatch", "serve", "--model", model]
    command += ["--port", str(port), "--options", json.dumps({"beam_size": OPTIONS["beam_size"]})]
    command += flags
    environment = {**os.environ, "HF_HUB_OFFLINE": "1"}
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        url = f"http://127.0.0.1:{port}"
        try:
            deadline = time.monotonic() + START_LIMIT
            while not is_ready(url):
                if process.poll() is not None or time.monotonic() > deadline:
                    raise SystemExit("the server does not start")
                time.sleep(0.2)
            yield url, psutil.Process(process.pid)
        finally:
            process.send_signal(signal.SIGTERM)


def is_ready(url: str) -> bool:
    """Return whether the models of a server are loaded."""
    try:
        with urlopen(f"{url}/ready") as answer:  # noqa: S310 - our own server
            return bool(answer.status == 200)
    except OSError:
        return False


async def send_clips(
    client: AsyncOpenAI, model: str, files: Sequence[bytes], rounds: int
) -> list[float]:
    """Send each clip from a separate client, several times; return the seconds of each answer."""

    async def send(data: bytes) -> list[float]:
        times = []
        for _ in range(rounds):
            started = time.perf_counter()
            await client.audio.transcriptions.create(
                file=("clip.wav", data), model=model, language=OPTIONS["language"]
            )
            times.append(time.perf_counter() - started)
        return times

    results = await asyncio.gather(*(send(data) for data in files))
    return [seconds for times in results for seconds in times]


async def measure(model: str, hours: float, rounds: int) -> list[str]:
    """Return the lines of the report."""
    clips = pieces(CLIP_LENGTHS, CLIPS)
    files = [wav([clip]).getvalue() for clip in clips]
    samples = spoken()
    long = wav(list(repeated(samples, hours * 3600).blocks()))
    clip_seconds = rounds * sum(map(len, clips)) / SAMPLING_RATE
    with server(model) as (url, process):
        client = AsyncOpenAI(api_key="none", base_url=f"{url}/v1", max_retries=0, timeout=36_000.0)
        await send_clips(client, model, files[:8], 1)
        alone = await send_clips(client, model, files, rounds)
        watch = Watch(url, process)
        began = asyncio.Event()

        async def send_long() -> None:
            stream = await client.audio.transcriptions.create(
                file=long, model=model, language=OPTIONS["language"], stream=True
            )
            async for event in stream:
                began.set()
                if event.type == "transcript.text.done" and not event.text:
                    raise SystemExit("the long recording has no text")

        started = time.perf_counter()
        sending = asyncio.ensure_future(send_long())
        await began.wait()
        beside = await send_clips(client, model, files, rounds)
        await sending
        took = time.perf_counter() - started
        watch.stop()
    with wb.load(model) as asr:
        asr.transcribe(samples[: 20 * SAMPLING_RATE], **OPTIONS)
        many = [samples, *clips]
        begun = time.perf_counter()
        seconds = sum(t.duration for t in asr.transcribe_many(many, ordered=False, **OPTIONS))
        rate = seconds / (time.perf_counter() - begun)
    ratios = sorted(a / b for a, b in zip(beside, alone, strict=True))
    health = sorted(watch.health)
    speed = (hours * 3600 + clip_seconds) / took
    return [
        (
            f"clips: {median(alone):.2f} s without and {median(beside):.2f} s beside the long "
            f"recording (medians): {median(beside) / median(alone):.2f} times; "
            f"median of the ratios {median(ratios):.2f}"
        ),
        (
            f"throughput: {speed:.1f} times real time, {speed / rate:.0%} of transcribe_many "
            f"({rate:.1f})"
        ),
        (
            f"/health: median {1000 * median(health):.0f} ms, "
            f"99 % {1000 * health[int(0.99 * len(health))]:.0f} ms, "
            f"longest {1000 * health[-1]:.0f} ms, {len(health)} requests"
        ),
        f"memory of the server: at most {watch.memory / 1e6:.0f} MB",
    ]


def main() -> None:
    """Measure, and print the figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", default="base")
    parser.add_argument("--hours", type=float, default=3.0, help="of the long recording")
    parser.add_argument("--rounds", type=int, default=2, help="how often each clip is sent")
    arguments = parser.parse_args()
    for line in asyncio.run(measure(arguments.model, arguments.hours, arguments.rounds)):
        print(line)


if __name__ == "__main__":
    main()
