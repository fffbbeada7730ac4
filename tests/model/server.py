"""Run the server as a program, and look at its figures."""

import os
import re
import signal
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final
from urllib.parse import urlsplit

FAST: Final = ("--model", "tiny.en", "--options", '{"beam_size": 1}')
START_TIME: Final = 240.0  # seconds for the imports and the model on a busy machine
STOP_TIME: Final = 60.0
NO_HEADERS: Final[Mapping[str, str]] = MappingProxyType({})
ADDRESS: Final = re.compile(rb"Uvicorn running on (https?://127\.0\.0\.1:\d+)")


@dataclass(frozen=True)
class RunningServer:
    """A server in a separate process."""

    url: str  # without a slash at its end
    process: subprocess.Popen[bytes]
    log: Path
    certificate: Path | None = None  # of a server with TLS

    @property
    def api(self) -> str:
        """The `base_url` of OpenAI's clients."""
        return f"{self.url}/v1"

    @property
    def address(self) -> tuple[str, int]:
        """Host and port."""
        parts = urlsplit(self.url)
        assert parts.hostname
        assert parts.port
        return parts.hostname, parts.port

    @property
    def tls(self) -> ssl.SSLContext | None:
        """What trusts the certificate."""
        return ssl.create_default_context(cafile=self.certificate) if self.certificate else None

    def get(self, path: str, headers: Mapping[str, str] = NO_HEADERS) -> tuple[int, bytes]:
        """Return the status and the body of a GET request."""
        request = urllib.request.Request(f"{self.url}{path}", headers=dict(headers))  # noqa: S310 - our own server
        try:
            with urllib.request.urlopen(request, timeout=60, context=self.tls) as answer:  # noqa: S310
                return answer.status, answer.read()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read()

    def figure(self, name: str, headers: Mapping[str, str] = NO_HEADERS) -> float:
        """Return the sum of a figure of /metrics over its labels; 0 if there is none."""
        status, text = self.get("/metrics", headers)
        assert status == 200, text
        lines = (line for line in text.decode().splitlines() if not line.startswith("#"))
        return sum(
            float(line.rpartition(" ")[2])
            for line in lines
            if re.match(rf"{re.escape(name)}[{{ ]", line)
        )

    def messages(self) -> str:
        """Return what the server has printed so far."""
        return self.log.read_text(encoding="utf-8", errors="replace")


@contextmanager
def running(
    *flags: str,
    model: tuple[str, ...] = FAST,
    tls: bool = False,
    port: int = 0,
    stops: bool = False,
) -> Iterator[RunningServer]:
    """Start a server, wait until its model is loaded, and stop it at the end.

    Args:
        *flags: of the server.
        model: the flags of the model.
        tls: make a certificate.
        port: to listen on; 0: any free port.
        stops: the server may have ended before the end of the block.
    """
    with tempfile.TemporaryDirectory(prefix="whisperbatch-server-") as folder:
        log = Path(folder, "log")
        uploads = Path(folder, "uploads")
        uploads.mkdir()
        command = [sys.executable, "-m", "whisperbatch", "serve", "--port", str(port), *model]
        command += ["--upload-directory", str(uploads), *flags]
        certificate = None
        if tls:
            certificate, key = make_certificate(Path(folder))
            command += ["--tls-cert", str(certificate), "--tls-key", str(key)]
        with log.open("wb") as file:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                env={**os.environ, "PYTHONUNBUFFERED": "1"},
            )
        try:
            server = _ready(process, log, certificate)
            yield server
            assert stops or process.poll() is None, (
                f"status {process.returncode}\n{server.messages()[-4000:]}"
            )
        finally:
            _stop(process)


def wait_until(condition: Callable[[], bool], seconds: float = 60.0) -> float:
    """Wait for a condition, and return the seconds that this took.

    Raises:
        TimeoutError: the condition is not met in time.
    """
    started = time.monotonic()
    while not condition():
        if time.monotonic() - started > seconds:
            raise TimeoutError(f"not within {seconds:g} s")
        time.sleep(0.05)
    return time.monotonic() - started


def make_certificate(folder: Path) -> tuple[Path, Path]:
    """Make a certificate for 127.0.0.1, and return its file and that of its key."""
    certificate, key = folder / "cert.pem", folder / "key.pem"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-days", "2", "-nodes"),
            *("-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"),
            *("-keyout", str(key), "-out", str(certificate)),
        ],
        check=True,
        capture_output=True,
    )
    return certificate, key


def _ready(process: subprocess.Popen[bytes], log: Path, certificate: Path | None) -> RunningServer:
    def is_due() -> bool:
        return process.poll() is not None or ADDRESS.search(log.read_bytes()) is not None

    wait_until(is_due, START_TIME)
    match = ADDRESS.search(log.read_bytes())
    assert match, log.read_text(encoding="utf-8", errors="replace")
    server = RunningServer(match[1].decode(), process, log, certificate)
    wait_until(lambda: process.poll() is not None or server.get("/ready")[0] == 200, START_TIME)
    assert process.poll() is None, server.messages()
    return server


def _stop(process: subprocess.Popen[bytes]) -> None:
    """End the process; at once, if SIGTERM does not end it."""
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
    try:
        process.wait(STOP_TIME)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
