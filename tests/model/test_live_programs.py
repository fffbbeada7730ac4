"""`whisperbatch live`, `whisperbatch wyoming` and the example with FastRTC, with real speech."""

import ast
import asyncio
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
from wyoming.asr import Transcribe, Transcript, TranscriptChunk
from wyoming.audio import AudioChunk, AudioStart, AudioStop
from wyoming.client import AsyncTcpClient
from wyoming.info import Describe, Info

from benchmarks import recordings, scoring
from examples import fastrtc_live
from tests.model.command_line import FAST, command, run
from tests.model.server import running

SPEECH: Final = recordings.read_speech(14, seed=2)
SILENCE: Final = np.zeros(2 * 16_000, np.int16)
MAX_ERRORS: Final = 0.15  # of words, with tiny.en


def errors(text: str) -> float:
    return scoring.word_error_rate(SPEECH.text, text).rate


def test_raw_samples_become_text_and_a_file(tmp_path: Path) -> None:
    result = run(
        *("live", "--raw", "16000", *FAST, "-o", "texts/talk.srt"),
        cwd=tmp_path,
        data=np.concatenate((SPEECH.samples, SILENCE)).tobytes(),
    )
    assert errors(result.stdout) <= MAX_ERRORS
    cues = (tmp_path / "texts/talk.srt").read_text().split("\n\n")
    assert errors(" ".join(line for cue in cues for line in cue.splitlines()[2:])) <= MAX_ERRORS


@pytest.mark.parametrize("source", [("--raw", "16000"), ("-",)], ids=" ".join)
def test_ctrl_c_ends_the_audio_and_the_last_text_follows(
    source: tuple[str, ...], tmp_path: Path
) -> None:
    """The samples end within a turn; the pipe stays open."""
    recordings.write(SPEECH, tmp_path / "talk.wav")
    content = SPEECH.samples.tobytes() if source != ("-",) else (tmp_path / "talk.wav").read_bytes()
    process = subprocess.Popen(
        command("live", *source, *FAST),
        cwd=tmp_path,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdin
    assert process.stdout
    assert process.stderr
    with process:
        process.stdin.write(content)
        process.stdin.flush()
        first = process.stdout.read(1)
        process.send_signal(signal.SIGINT)
        text = (first + process.stdout.read()).decode()
        messages = process.stderr.read().decode()
    assert process.returncode == 0, messages
    assert text.endswith("\n")
    assert len(text.split()) > 3


@contextmanager
def wyoming_server(folder: Path) -> Iterator[int]:
    """Run the server; yield its port."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    flags = ("wyoming", *FAST, "--uri", f"tcp://127.0.0.1:{port}")
    process = subprocess.Popen(command(*flags), cwd=folder, stderr=subprocess.PIPE, text=True)
    assert process.stderr
    with process:
        try:
            while "serving" not in (line := process.stderr.readline()):
                assert line, "the server has ended"
            while True:
                try:
                    socket.create_connection(("127.0.0.1", port)).close()
                    break
                except OSError:
                    assert process.poll() is None
            yield port
        finally:
            process.terminate()
    assert process.returncode == 0


async def spoken(port: int, *, rate: int = 16_000) -> tuple[str, str]:
    """Speak to the server; return the streamed text and the final text."""
    form: dict[str, Any] = {"rate": rate, "width": 2, "channels": 1}
    samples = np.repeat(SPEECH.samples, rate // 16_000).tobytes()
    streamed = ""
    async with AsyncTcpClient("127.0.0.1", port) as client:
        await client.write_event(Transcribe(language="en").event())
        await client.write_event(AudioStart(**form).event())
        for start in range(0, len(samples), 8192):
            chunk = AudioChunk(audio=samples[start : start + 8192], **form)
            await client.write_event(chunk.event())
        await client.write_event(AudioStop().event())
        while event := await asyncio.wait_for(client.read_event(), 120):
            if TranscriptChunk.is_type(event.type):
                streamed += TranscriptChunk.from_event(event).text
            elif Transcript.is_type(event.type):
                return streamed, Transcript.from_event(event).text
    raise AssertionError("no transcript")


def test_home_assistant_gets_the_text_of_several_speakers(tmp_path: Path) -> None:
    async def check(port: int) -> None:
        async with AsyncTcpClient("127.0.0.1", port) as client:
            await client.write_event(Describe().event())
            event = await client.read_event()
            assert event
            [model] = Info.from_event(event).asr[0].models
            assert (model.name, model.languages) == ("tiny.en", ["en"])
        answers = await asyncio.gather(spoken(port), spoken(port), spoken(port, rate=48_000))
        assert answers[0] == answers[1], "a result does not depend on other clients"
        for streamed, final in answers:
            assert errors(streamed) <= MAX_ERRORS
            assert errors(final) <= MAX_ERRORS

    with wyoming_server(tmp_path) as port:
        asyncio.run(check(port))


def test_the_example_with_fastrtc_gets_text_from_the_server() -> None:
    pcm = np.concatenate((SPEECH.samples, SILENCE))
    places = np.arange(0, len(pcm), 16_000 / fastrtc_live.RATE)
    resampled = np.interp(places, np.arange(len(pcm)), pcm).astype(np.int16)

    async def ask(url: str) -> str:
        connection = await fastrtc_live.connect(url)
        for start in range(0, len(resampled), 480):
            await fastrtc_live.send(connection, resampled[start : start + 480])
        text = ""
        while len(text.split()) < 0.9 * len(SPEECH.text.split()):
            text += await asyncio.wait_for(fastrtc_live.next_text(connection), 120)
        await connection.close()
        return text

    with running() as server:
        assert errors(asyncio.run(ask(server.api))) <= MAX_ERRORS + 0.1  # the end may be missing


def test_the_example_uses_names_of_fastrtc_that_exist() -> None:
    """FastRTC is not installed here: its names were read in version 0.0.34."""
    tree = ast.parse(Path(fastrtc_live.__file__).read_text())
    imported = {
        alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module == "fastrtc"
        for alias in node.names
    }
    assert imported == {"AdditionalOutputs", "AsyncStreamHandler", "Stream"}
    methods = {node.name for node in ast.walk(tree) if isinstance(node, ast.AsyncFunctionDef)}
    assert {"start_up", "receive", "emit", "shutdown"} <= methods
    assert "fastrtc" not in sys.modules
