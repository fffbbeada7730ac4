"""Nothing leaves the machine: no files of telemetry in a fresh home folder, and no connection."""

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import pytest

from benchmarks import recordings
from benchmarks.recordings import Recording
from tests.model.forms import field, file, form, post
from whisperbatch.runtimes.telemetry import VARIABLES

ENGINES: Final = ("ctranslate2", "onnxruntime", "openvino")
FOLDERS: Final = ("HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME")
PAUSE: Final = 3.0  # seconds: onnxruntime 1.32 first asked for its collector's address after 1 s
TRACER: Final = shutil.which("strace")
START_TIME: Final = 240.0  # seconds

TRANSCRIBE: Final = f"""
import sys, time, whisperbatch as wb
with wb.load("tiny.en", engine=sys.argv[1]) as asr:
    assert asr.transcribe(sys.argv[2]).segments
time.sleep({PAUSE})
"""


def environment(home: Path) -> dict[str, str]:
    """An environment without any switch, whose folders of the user are new and empty."""
    names = {*VARIABLES, *FOLDERS, "CI", "DO_NOT_TRACK", "DISABLE_TELEMETRY", "WHISPERBATCH_CACHE"}
    kept = {name: value for name, value in os.environ.items() if name not in names}
    folders = {name: str(home / name.lower()) for name in FOLDERS}
    for folder in folders.values():
        Path(folder).mkdir()
    return {**kept, **folders, "PYTHONPATH": str(Path(__file__).parents[2])}


def traced(trace: Path, *command: str) -> list[str]:
    """The command, with its connections written to a file if there is a tracer.

    With -D the tracer is a child of the command, which then receives the signals.
    """
    prefix = [
        TRACER,
        "-D",
        "-f",
        "-qq",
        "-e",
        "trace=connect,sendto,sendmsg,sendmmsg",
        "-o",
        str(trace),
    ]
    return [part for part in (*(prefix if TRACER else ()), *command) if part]


def connections(trace: Path) -> list[str]:
    """The lines of connections that are not to a socket on this machine's file system."""
    if not TRACER:
        return []
    assert trace.exists()
    time.sleep(0.5)  # the tracer may end after the command
    lines = trace.read_text(encoding="utf-8", errors="replace").splitlines()
    return [line for line in lines if " connect(" in line and "AF_UNIX" not in line]


def files(home: Path) -> list[str]:
    """The files that others than whisperbatch have written."""
    found = (str(path.relative_to(home)) for path in home.rglob("*") if path.is_file())
    return [name for name in found if not name.startswith("xdg_cache_home/whisperbatch/")]


@pytest.fixture(scope="module")
def clip(save: Callable[[Recording, str], Path]) -> Path:
    """A few seconds of speech."""
    return save(recordings.prompts("en", duration=12), ".wav")


@pytest.mark.parametrize("engine", ENGINES)
def test_a_transcription_reports_nothing(tmp_path: Path, clip: Path, engine: str) -> None:
    if engine == "openvino" and find_spec("openvino") is None:
        pytest.skip("OpenVINO is not installed")
    home, trace = tmp_path / "home", tmp_path / "trace"
    home.mkdir()
    command = traced(trace, sys.executable, "-c", TRANSCRIBE, engine, str(clip))
    subprocess.run(command, env=environment(home), check=True)
    assert files(home) == []
    assert connections(trace) == []


def test_a_server_reports_nothing(tmp_path: Path, clip: Path) -> None:
    home, trace, log = tmp_path / "home", tmp_path / "trace", tmp_path / "log"
    home.mkdir()
    flags = ("serve", "--host", "127.0.0.1", "--port", "0", "--model", "tiny.en")
    command = traced(trace, sys.executable, "-m", "whisperbatch", *flags)
    with log.open("wb") as output:
        server = subprocess.Popen(command, env=environment(home), stdout=output, stderr=output)
    try:
        body = form(field("model", "tiny.en"), file(clip.read_bytes()))
        assert b"text" in post(address_in(log, server), body).body
        time.sleep(PAUSE)
    finally:
        server.terminate()
        server.wait(60)
    assert files(home) == []
    assert connections(trace) == []


def address_in(log: Path, server: subprocess.Popen[bytes]) -> tuple[str, int]:
    """The address that the server prints when it is ready."""
    end = time.monotonic() + START_TIME
    while time.monotonic() < end and server.poll() is None:
        text = log.read_text(encoding="utf-8", errors="replace")
        if found := re.search(r"http://(127\.0\.0\.1):(\d+)", text):
            return found[1], int(found[2])
        time.sleep(0.2)
    raise AssertionError(log.read_text(encoding="utf-8", errors="replace"))
