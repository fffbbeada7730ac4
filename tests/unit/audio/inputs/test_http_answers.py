"""Recordings from HTTP servers: complete answers, broken answers, and answers without a length."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache

import pytest

from tests.unit.media_files import bursts, encode
from whisperbatch.audio.file_objects import HttpAnswer, is_http
from whisperbatch.audio.reader import open_audio
from whisperbatch.errors import AudioError
from whisperbatch.types import SAMPLING_RATE, Notice

SECONDS = 20.0
FORMATS = {
    "ogg": ("ogg", "libopus"),
    "mp3": ("mp3", "libmp3lame"),
    "webm": ("webm", "libopus"),
    "wav": ("wav", "pcm_s16le"),
}
CLOSE = b"Connection: close\r\n"


@cache
def recording(kind: str) -> bytes:
    container, codec = FORMATS[kind]
    return encode([bursts([2, 15], SECONDS, 48_000)], container, codec, rate=48_000)


@contextmanager
def server(head: bytes, body: bytes) -> Iterator[str]:
    """The address of a server that sends an answer, and closes the connection."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            with suppress(OSError):
                while True:
                    connection, _ = listener.accept()
                    with connection, suppress(OSError):
                        connection.recv(65_536)
                        connection.sendall(b"HTTP/1.1 200 OK\r\n" + head + b"\r\n" + body)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}/recording"
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()


def chunked(data: bytes, *, last: bool) -> bytes:
    pieces = (data[start : start + 5000] for start in range(0, len(data), 5000))
    return b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n" * last


def read(address: str) -> tuple[float, tuple[Notice, ...]]:
    with open_audio(address) as reader:
        return sum(map(len, reader.blocks())) / SAMPLING_RATE, reader.notices.all()


@pytest.mark.parametrize("head", [b"", CLOSE])
@pytest.mark.parametrize("kind", FORMATS)
def test_answer_without_a_length_ends_with_its_connection(kind: str, head: bytes) -> None:
    with server(head, recording(kind)) as address:
        length, notices = read(address)
    assert length == pytest.approx(SECONDS, abs=0.1)
    assert not notices


@pytest.mark.parametrize("head", [b"", CLOSE])
@pytest.mark.parametrize("kind", FORMATS)
def test_chunked_answer(kind: str, head: bytes) -> None:
    head += b"Transfer-Encoding: chunked\r\n"
    with server(head, chunked(recording(kind), last=True)) as address:
        length, notices = read(address)
    assert length == pytest.approx(SECONDS, abs=0.1)
    assert not notices


@pytest.mark.parametrize("within", [False, True])
@pytest.mark.parametrize("head", [b"", CLOSE])
@pytest.mark.parametrize("kind", FORMATS)
def test_chunked_answer_that_breaks(kind: str, head: bytes, *, within: bool) -> None:
    part = recording(kind)
    part = part[: len(part) * 4 // 10]
    body = chunked(part, last=False)
    if within:
        body = b"%x\r\n%b" % (len(part) + 100, part)
    with server(head + b"Transfer-Encoding: chunked\r\n", body) as address:
        length, (notice,) = read(address)
    assert notice.kind == "incomplete"
    assert "connection" in notice.text
    assert notice.start == pytest.approx(length, abs=0.1)
    assert 0.2 * SECONDS < length < 0.5 * SECONDS
    if kind in ("mp3", "webm", "wav"):  # the header states the duration
        assert notice.end == pytest.approx(SECONDS, abs=0.5)


def test_chunked_answer_that_breaks_between_two_chunks_of_an_mp3_without_a_header_frame() -> None:
    part = recording("mp3")[2000:80_000]
    with server(b"Transfer-Encoding: chunked\r\n", chunked(part, last=False)) as address:
        _, (notice,) = read(address)
    assert notice.kind == "incomplete"


@pytest.mark.parametrize("kind", FORMATS)
def test_answer_shorter_than_its_length_is_an_error(kind: str) -> None:
    media = recording(kind)
    head = b"Content-Length: %d\r\n" % len(media)
    with (
        server(head, media[: len(media) * 4 // 10]) as address,
        pytest.raises(AudioError, match="cannot be read"),
    ):
        read(address)
    with server(head, media) as address:
        length, notices = read(address)
    assert length == pytest.approx(SECONDS, abs=0.1)
    assert not notices


def test_answers_that_ffmpeg_reads_itself() -> None:
    with server(b"Content-Length: 3\r\n", b"abc") as address:
        assert HttpAnswer.get(address) is None
    assert HttpAnswer.get(address) is None, "there is no server any more"
    assert is_http("https://host/a.wav?token=x")
    assert not is_http("https://user:password@host/a.wav")
    assert not is_http("rtsp://host/a")
    assert not is_http("/home/a.wav")
