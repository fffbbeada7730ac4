"""The server with a fake engine, in a separate process."""

import http.client
import os
import re
import signal
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final

ROOT: Final = Path(__file__).parents[3]
START_TIME: Final = 120.0  # seconds, on a busy machine
NO_HEADERS: Final[Mapping[str, str]] = MappingProxyType({})
PROGRAM: Final = """
import sys
from tests.unit.server.asgi import speaking_engine
from whisperbatch import Transcriber
from whisperbatch.cli import main
from whisperbatch.server.settings import ServerSettings

def load(settings, source):
    sys.stderr.write("the model is loaded\\n")
    return Transcriber(speaking_engine())

ServerSettings.load = load
sys.argv = ["whisperbatch", "serve", *sys.argv[1:]]
main()
"""
FLAGS: Final = ("--options", '{"vad": false, "language": "en"}')


def command(*flags: str) -> list[str]:
    """The command of the server."""
    return [sys.executable, "-c", PROGRAM, *FLAGS, *flags]


def environment(variables: Mapping[str, str] = NO_HEADERS) -> dict[str, str]:
    """The environment of this process, without settings of the server."""
    kept = {name: text for name, text in os.environ.items() if not name.startswith("WHISPERBATCH")}
    return {**kept, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1", **variables}


def failing(*flags: str, **variables: str) -> tuple[int, str]:
    """Return the status and the messages of a server that cannot start."""
    done = subprocess.run(
        command("--port", "0", *flags),
        env=environment(variables),
        capture_output=True,
        text=True,
        check=False,
        timeout=START_TIME,
    )
    return done.returncode, done.stderr


@dataclass(frozen=True)
class Process:
    """A server that runs."""

    process: "subprocess.Popen[bytes]"
    log: Path

    @property
    def messages(self) -> str:
        return self.log.read_text(encoding="utf-8")

    @property
    def addresses(self) -> list[tuple[str, int]]:
        """Host and port of each address."""
        found = re.findall(r"Uvicorn running on https?://\[?([^ ]+?)\]?:(\d+) ", self.messages)
        return [(host, int(port)) for host, port in found]

    def get(
        self,
        path: str,
        host: str = "127.0.0.1",
        *,
        method: str = "GET",
        headers: Mapping[str, str] = NO_HEADERS,
        body: bytes = b"",
        tls: ssl.SSLContext | None = None,
        uds: Path | None = None,
    ) -> tuple[int, bytes]:
        """Return the status and the body of the answer to a request."""
        port = self.addresses[0][1] if self.addresses else None
        connection = http.client.HTTPConnection(host, port, timeout=START_TIME)
        if tls:
            connection = http.client.HTTPSConnection(host, port, timeout=START_TIME, context=tls)
        if uds:
            connection.sock = socket.socket(socket.AF_UNIX)
            connection.sock.connect(str(uds))
        connection.request(method, path, body, dict(headers))
        answer = connection.getresponse()
        content = answer.read()
        connection.close()
        return answer.status, content

    def wait_for(self, text: str) -> None:
        """Wait until the log has a text."""
        end = time.monotonic() + START_TIME
        while text not in self.messages:
            assert time.monotonic() < end, self.messages
            assert self.process.poll() is None, self.messages
            time.sleep(0.05)


@contextmanager
def serving(folder: Path, *flags: str, **variables: str) -> Iterator[Process]:
    """Start a server at a free port, and stop it at the end."""
    log = folder / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            command("--port", "0", *flags),
            env=environment(variables),
            stdout=output,
            stderr=output,
        )
    try:
        server = Process(process, log)
        server.wait_for("Uvicorn running on")
        yield server
        assert process.poll() is None, server.messages
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0, log.read_text()
