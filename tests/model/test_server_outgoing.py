"""A server connects to nothing, whatever its clients send. Its connections are watched twice:

strace        all connections, also those of libraries; only if it is installed
sitecustomize connections and look-ups of names by Python, on every system
"""

import base64
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from benchmarks import recordings
from benchmarks.recordings import Recording
from tests.model.forms import TRANSCRIPTIONS, field, file, form, post
from tests.model.test_privacy import address_in, connections, environment, traced

WATCH: Final = """
import os, sys

def note(event, arguments):
    if event in {"socket.connect", "socket.getaddrinfo", "socket.gethostbyname", "socket.sendto"}:
        with open(os.environ["WATCHED"], "a") as log:
            print(event, arguments[1:] if event == "socket.connect" else arguments, file=log)

sys.addaudithook(note)
"""
MODEL: Final = field("model", "tiny.en")
JSON: Final = {"content-type": "application/json"}
STARTED: Final = "socket.getaddrinfo ('127.0.0.1',"  # the address that the server listens on


@dataclass(frozen=True)
class Canary:
    """A server of the test that nobody may connect to."""

    listening: socket.socket

    @property
    def url(self) -> str:
        host, port = self.listening.getsockname()
        return f"http://{host}:{port}/canary"

    def was_reached(self) -> bool:
        self.listening.settimeout(0)
        try:
            self.listening.accept()
        except BlockingIOError:
            return False
        return True


@pytest.fixture
def canary() -> Iterator[Canary]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield Canary(listening)


@pytest.fixture(scope="module")
def clip(save: Callable[[Recording, str], Path]) -> bytes:
    return save(recordings.prompts("en", duration=5), ".wav").read_bytes()


def requests(clip: bytes, url: str) -> Iterator[tuple[str, bytes, dict[str, str], set[int]]]:
    """Yield the path, body and headers of requests, and the statuses that they may have."""
    for fields in (
        (field("response_format", "verbose_json"),),
        (field("stream", "true"),),
        (field("language", "en"), field("response_format", "srt")),
    ):
        yield TRANSCRIPTIONS, form(MODEL, *fields, file(clip)), {}, {200}
    speakers = field("response_format", "diarized_json")
    yield TRANSCRIPTIONS, form(MODEL, speakers, file(clip)), {}, {200, 501}
    yield "/v1/audio/translations", form(MODEL, file(clip)), {}, {200, 400}
    inputs = base64.b64encode(clip).decode()
    yield "/", json.dumps({"inputs": inputs}).encode(), JSON, {200}
    yield "/predict", clip, {"content-type": "audio/wav"}, {200}
    # addresses in all places
    yield "/", json.dumps({"inputs": url}).encode(), JSON, {400}
    for name in (url, "openai/whisper-tiny", "https://huggingface.co/openai/whisper-tiny"):
        yield TRANSCRIPTIONS, form(field("model", name), file(clip)), {}, {404}
    references = (field("known_speaker_names[]", "A"), field("known_speaker_references[]", url))
    yield TRANSCRIPTIONS, form(MODEL, speakers, *references, file(clip)), {}, {400, 501}
    yield TRANSCRIPTIONS, form(MODEL, field("diarizer", "pyannote"), file(clip)), {}, {400}
    yield TRANSCRIPTIONS, form(MODEL, file(clip, url)), {"x-forwarded-for": "192.0.2.1"}, {200}
    playlists = {
        "a.m3u8": f"#EXTM3U\n#EXT-X-TARGETDURATION:5\n#EXTINF:5,\n{url}.ts\n#EXT-X-ENDLIST\n",
        "a.ffconcat": f"ffconcat version 1.0\nfile '{url}.wav'\n",
        "a.sdp": "v=0\no=- 0 0 IN IP4 127.0.0.1\ns=x\nc=IN IP4 127.0.0.1\nm=audio 9 RTP/AVP 0\n",
        "a.mpd": f'<?xml version="1.0"?><MPD><BaseURL>{url}</BaseURL></MPD>',
    }
    for name, text in playlists.items():
        yield TRANSCRIPTIONS, form(MODEL, file(text.encode(), name)), {}, {400}


def test_a_server_connects_to_nothing(tmp_path: Path, clip: bytes, canary: Canary) -> None:
    home, trace, log = tmp_path / "home", tmp_path / "trace", tmp_path / "log"
    watched, hooks = tmp_path / "watched", tmp_path / "hooks"
    home.mkdir()
    hooks.mkdir()
    (hooks / "sitecustomize.py").write_text(WATCH)
    variables = environment(home)
    del variables["HF_HUB_OFFLINE"]  # the hub could be asked
    variables["PYTHONPATH"] = os.pathsep.join((str(hooks), variables["PYTHONPATH"]))
    flags = ("serve", "--port", "0", "--model", "tiny.en")
    command = traced(trace, sys.executable, "-m", "whisperbatch", *flags)
    with log.open("wb") as output:
        server = subprocess.Popen(
            command, env={**variables, "WATCHED": str(watched)}, stdout=output, stderr=output
        )
    try:
        address = address_in(log, server)
        for path, body, headers, statuses in requests(clip, canary.url):
            answer = answered(address, body, headers, path)
            assert answer in statuses, (path, answer)
    finally:
        server.terminate()
        server.wait(60)
    assert not canary.was_reached()
    names = watched.read_text().splitlines()
    assert names[0].startswith(STARTED), "the watch works"
    assert names[1:] == []
    assert connections(trace) == []


def answered(address: tuple[str, int], body: bytes, headers: dict[str, str], path: str) -> int:
    """Send a request, again while the model is being loaded; return the status."""
    for _ in range(600):
        if (status := post(address, body, headers, path).status) != 503:
            return status
        time.sleep(0.2)
    raise AssertionError("the model is not loaded")
