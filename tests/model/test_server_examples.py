"""The usual examples of OpenAI's transcription API: only `base_url` is changed."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from benchmarks import recordings
from benchmarks.recordings import Recording
from tests.model.server import FAST, RunningServer, running

Save = Callable[[Recording, str], Path]

CREATE = """
from openai import OpenAI
client = OpenAI()
audio_file = open("speech.mp3", "rb")
transcription = client.audio.transcriptions.create(
    model="gpt-4o-transcribe", file=audio_file
)
print(transcription.text)
audio_file.close(); client.close()
"""
ASYNC = """
import asyncio
from openai import AsyncOpenAI

async def main():
    client = AsyncOpenAI()
    with open("speech.mp3", "rb") as audio_file:
        stream = await client.audio.transcriptions.create(
            model="gpt-4o-transcribe", file=audio_file, stream=True, language="en"
        )
        async for event in stream:
            if event.type == "transcript.text.done":
                print(event.text)

asyncio.run(main())
"""
EXAMPLES = {"create": CREATE, "async": ASYNC}
"""test_server_openai.py has the other forms of requests."""


@pytest.fixture(scope="module")
def server() -> Iterator[RunningServer]:
    with running(model=FAST) as server:
        yield server


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("examples")
    recordings.write(recordings.prompts("en", duration=10), folder / "speech.mp3")
    return folder


@pytest.mark.slow
def test_the_examples(server: RunningServer, folder: Path) -> None:
    """All run at the same time; the variable OPENAI_BASE_URL has the effect of `base_url`."""
    environment = {**os.environ, "OPENAI_BASE_URL": server.api, "OPENAI_API_KEY": "none"}

    async def outputs() -> list[tuple[int | None, bytes, bytes]]:
        processes = [
            await asyncio.create_subprocess_exec(
                *(sys.executable, "-c", code),
                cwd=folder,
                env=environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
            for code in EXAMPLES.values()
        ]
        texts = [await process.communicate() for process in processes]
        return [(p.returncode, *text) for p, text in zip(processes, texts, strict=True)]

    results = dict(zip(EXAMPLES, asyncio.run(outputs()), strict=True))
    for name, (status, text, errors) in results.items():
        assert status == 0, f"{name}: {errors.decode()}"
        assert "currently" in text.decode().lower(), name


def test_curl(server: RunningServer, folder: Path) -> None:
    command = ["curl", "--silent", "--show-error", f"{server.api}/audio/transcriptions"]
    command += ["-H", "Authorization: Bearer none", "-H", "Content-Type: multipart/form-data"]
    command += ["-F", "file=@speech.mp3", "-F", "model=gpt-4o-transcribe"]
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        pytest.skip("curl is not installed")
    assert not done.returncode, done.stderr
    assert "currently" in json.loads(done.stdout)["text"].lower()
