"""Run the steps of docker/Dockerfile.cpu without Docker: python -m tests.container DIRECTORY

Each instruction has the effect that it has in Docker, below a directory in place of the root:

FROM          begins with an empty directory; the earlier stage stays beside it
COPY          copies files of the project (those that .dockerignore allows), or of the earlier stage
RUN           runs the shell command; absolute paths of the image are replaced
ENV, WORKDIR  hold for the following instructions
USER          the server runs as this user, if this program runs as root
HEALTHCHECK   asks the server until it is ready; then a recording is sent to /predict, and the
              diarizer listens to this recording

`useradd` only makes the home directory. The system is that of this machine, so this does not show
whether the base image has all that the server needs.
"""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests.unit.fakes import write_noise

# ruff: noqa: T201 - a program

ROOT: Final = Path(__file__).parents[1]
PATHS: Final = re.compile(r"(?<![\w/.])/(?=(?:opt|build|home)\b)")  # of the image
NETWORK: Final = re.compile(r"PIP_|SSL_|\w+_proxy$", re.IGNORECASE)  # variables for pip
HOME: Final = "home/whisperbatch"
PORT: Final = "18000"
START: Final = 120.0  # seconds until the server answers
USERADD: Final = '#!/bin/sh\nfor user; do :; done\nmkdir -p "$IMAGE/home/$user"\n'


def instructions(path: Path) -> Iterator[tuple[str, str]]:
    """Yield the name and the text of each instruction."""
    lines = [line for line in path.read_text().splitlines() if not line.startswith("#")]
    for line in "\n".join(lines).replace("\\\n", " ").splitlines():
        if line.strip():
            name, _, text = line.partition(" ")
            yield name, " ".join(text.split())


class Image:
    """The image while it is built.

    Args:
        directory: in place of the root of the file system.
    """

    def __init__(self, directory: Path) -> None:
        self.root = directory / "image"
        self._earlier = directory / "earlier"
        self._tools = directory / "tools"
        self._tools.mkdir(parents=True)
        (self._tools / "useradd").write_text(USERADD)
        (self._tools / "useradd").chmod(0o755)
        (self._tools / "python").symlink_to("/usr/bin/python3")
        self.environment = {
            "PATH": f"{self._tools}:/usr/local/bin:/usr/bin:/bin",
            "IMAGE": str(self.root),
            **{name: text for name, text in os.environ.items() if NETWORK.match(name)},
        }
        self.workdir = self.root
        self.user = ""
        self.health: list[str] = []
        self.command: list[str] = []

    def step(self, name: str, text: str) -> None:
        """Apply an instruction."""
        if name not in {"VOLUME", "EXPOSE"}:
            getattr(self, f"_{name.lower()}")(PATHS.sub(f"{self.root}/", text))

    def _from(self, _: str) -> None:
        if self.root.exists():
            self.root.rename(self._earlier)
        self.root.mkdir()
        self.workdir = self.root

    def _arg(self, text: str) -> None:
        name, _, value = text.partition("=")
        self.environment[name] = value

    def _env(self, text: str) -> None:
        for pair in shlex.split(text):
            name, _, value = pair.partition("=")
            self.environment[name] = value.replace("$PATH", self.environment["PATH"])

    def _run(self, text: str) -> None:
        command = ["/bin/sh", "-ec", text]
        subprocess.run(command, env=self.environment, cwd=self.workdir, check=True)

    def _workdir(self, text: str) -> None:
        self.workdir = Path(text)
        self.workdir.mkdir(parents=True, exist_ok=True)

    def _user(self, text: str) -> None:
        self.user = text

    def _healthcheck(self, text: str) -> None:
        self.health = json.loads(text.partition("CMD ")[2])

    def _cmd(self, text: str) -> None:
        self.command = json.loads(text)

    def _copy(self, text: str) -> None:
        words = text.split()
        source_root = ROOT
        if words[0].startswith("--from="):
            del words[0]
            words[0] = words[0].replace(str(self.root), str(self._earlier))
            source_root = Path("/")
        target = self.workdir / words[-1]
        for word in words[:-1]:
            source = source_root / word
            ignored = shutil.ignore_patterns("__pycache__") if source_root == ROOT else None
            if source.is_dir():
                shutil.copytree(source, target, symlinks=True, ignore=ignored)
            else:
                into = target if words[-1].endswith("/") else target.parent
                into.mkdir(parents=True, exist_ok=True)
                shutil.copy(source, target)

    def start(self, command: list[str]) -> "subprocess.Popen[bytes]":
        """Start a command of the image, as its user."""
        if os.getuid() == 0:
            ids = ("--clear-groups", f"--reuid={self.user}", f"--regid={self.user}")
            command = ["setpriv", *ids, *command]
        environment = {**self.environment, "WHISPERBATCH_PORT": PORT, "HF_HUB_OFFLINE": "1"}
        environment["HOME"] = str(self.root / HOME)
        return subprocess.Popen(command, env=environment, cwd=self.workdir)


def main(directory: Path) -> None:
    """Build and check the image in an empty directory."""
    directory.mkdir(parents=True)
    directory.chmod(0o755)
    image = Image(directory)
    for name, text in instructions(ROOT / "docker/Dockerfile.cpu"):
        print(name, text, flush=True)
        image.step(name, text)
    if os.getuid() == 0:  # the home directory belongs to the user
        for path in (image.root / HOME, *(image.root / HOME).rglob("*")):
            os.chown(path, int(image.user), int(image.user))
    server = image.start(image.command)
    try:
        wait_until_healthy(image, server)
        recording = write_noise(directory / "noise.wav").read_bytes()
        request = urllib.request.Request(
            f"http://127.0.0.1:{PORT}/predict", recording, {"content-type": "audio/wav"}
        )
        with urllib.request.urlopen(request, timeout=START) as answer:  # noqa: S310
            print("answer:", answer.read().decode())
        program = (
            f"import whisperbatch; print(whisperbatch.diarize({str(directory)!r} + '/noise.wav'))"
        )
        if image.start(["python", "-c", program]).wait(START):
            raise RuntimeError("the diarizer does not work")
    finally:
        server.terminate()
        print("exit status after SIGTERM:", server.wait(60))


def wait_until_healthy(image: Image, server: "subprocess.Popen[bytes]") -> None:
    """Run the health check until it succeeds."""
    deadline = time.monotonic() + START
    while image.start(image.health).wait():
        if server.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError("the server does not answer")
        time.sleep(1)
    print("healthy", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
