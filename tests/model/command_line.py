"""Run the command line: as a program, in a pipe or on a terminal, or in this process."""

import fcntl
import io
import logging
import os
import pty
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

import pyte
import pytest

from benchmarks import recordings
from whisperbatch.cli import app

FAST = ("--model", "tiny.en", "--beam-size", "1")


def write_media(directory: Path) -> Path:
    """Write talk.mp3, and a subdirectory with two recordings; return the directory."""
    (directory / "talks" / "monday").mkdir(parents=True)
    for name, duration, seed in (
        ("talk.mp3", 20, 0),
        ("talks/a.mp3", 10, 1),
        ("talks/monday/b.wav", 10, 2),
    ):
        recordings.write(recordings.prompts("en", duration, seed), directory / name)
    return directory


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "whisperbatch", *arguments]


def run(
    *arguments: str, cwd: Path, status: int = 0, data: bytes | None = None
) -> subprocess.CompletedProcess[str]:
    process = subprocess.run(
        command(*arguments), cwd=cwd, capture_output=True, check=False, input=data
    )
    result = subprocess.CompletedProcess(
        process.args, process.returncode, process.stdout.decode(), process.stderr.decode()
    )
    assert result.returncode == status, result.stderr
    return result


def run_here(*arguments: str, cwd: Path, status: int = 0) -> subprocess.CompletedProcess[str]:
    """Like `run`, but in this process, which has imported everything.

    With the fixture `kept_models` the models are loaded already, too.
    """
    streams = [
        io.TextIOWrapper(io.BytesIO(), encoding="utf-8", errors="backslashreplace")
        for _ in range(2)
    ]
    log = logging.getLogger("whisperbatch")
    level = log.level
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(cwd)
        patch.setattr(sys, "argv", ["whisperbatch", *arguments])
        for name, stream in zip(("stdout", "stderr"), streams, strict=True):
            patch.setattr(sys, name, stream)
        patch.setattr(app, "exit_now", sys.exit)  # instead of the end of this process
        patch.setattr(app, "return_large_arrays_at_once", lambda: None)
        patch.setattr(log, "handlers", [])
        try:
            with pytest.raises(SystemExit) as ended:
                app.run()
        finally:
            log.setLevel(level)
    output, errors = (bytes(stream.detach().getvalue()).decode() for stream in streams)
    code = int(ended.value.code or 0)
    assert code == status, errors
    return subprocess.CompletedProcess(arguments, code, output, errors)


class TerminalCommand:
    """A command on a terminal of 30 lines, with the content of the screen.

    Args:
        arguments: of the command.
        cwd: its working directory.
        output: the file of its standard output; None for the terminal.
        columns: of the terminal.
    """

    def __init__(
        self,
        arguments: Iterable[str],
        cwd: Path,
        output: BinaryIO | None = None,
        columns: int = 100,
    ) -> None:
        self.screen = pyte.Screen(columns, 30)
        self._stream = pyte.ByteStream(self.screen)
        controller, terminal = pty.openpty()
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 30, columns, 0, 0))
        environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": str(columns)}
        self.process = subprocess.Popen(
            command(*arguments),
            cwd=cwd,
            stdin=terminal,
            stdout=output or terminal,
            stderr=terminal,
            env=environment,
        )
        os.close(terminal)
        self._controller = controller

    def text(self) -> str:
        return "\n".join(line.rstrip() for line in self.screen.display).strip()

    def wait_for(self, condition: Callable[[str], object], seconds: float = 120.0) -> str:
        """Return the screen as soon as it meets the condition, or the process has ended."""
        limit = time.monotonic() + seconds
        while time.monotonic() < limit and not condition(self.text()):
            if not select.select([self._controller], [], [], 0.1)[0]:
                continue
            data = b""
            with suppress(OSError):  # the process has closed the terminal
                data = os.read(self._controller, 65536)
            if not data:
                break
            self._stream.feed(data)
        return self.text()

    def end(self) -> int:
        self.wait_for(lambda _: False)
        os.close(self._controller)
        return self.process.wait()
