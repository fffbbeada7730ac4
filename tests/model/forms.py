"""Forms as clients send them, and the answers: byte for byte, without the help of a client."""

import http.client
import io
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

BOUNDARY: Final = "boundary-of-the-tests"
FORM_TYPE: Final = f"multipart/form-data; boundary={BOUNDARY}"
TRANSCRIPTIONS: Final = "/v1/audio/transcriptions"


@dataclass(frozen=True)
class Answer:
    """An answer of the server."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def error(self) -> dict[str, Any]:
        """The error in OpenAI's form."""
        error = json.loads(self.body)["error"]
        assert error.keys() == {"message", "type", "param", "code"}
        assert isinstance(error, dict)
        return error


def field(name: str, value: str) -> bytes:
    """Return a field of a form."""
    return _part(f'name="{name}"', value.encode())


def file(data: bytes, name: str = "speech.wav") -> bytes:
    """Return the file of a form."""
    return _part(f'name="file"; filename="{name}"', data)


def form(*parts: bytes) -> bytes:
    """Return a form with these parts."""
    return b"".join(parts) + f"--{BOUNDARY}--\r\n".encode()


def beginning(*parts: bytes) -> bytes:
    """Return the beginning of a form, whose last part goes on."""
    return b"".join(parts).removesuffix(b"\r\n")


def post(
    address: tuple[str, int],
    body: bytes | Iterable[bytes],
    headers: Mapping[str, str] | None = None,
    path: str = TRANSCRIPTIONS,
    method: str = "POST",
) -> Answer:
    """Send a body, and return the answer. Several pieces are sent without a length (chunked)."""
    connection = http.client.HTTPConnection(*address, timeout=120)
    try:
        connection.request(method, path, body, {"content-type": FORM_TYPE, **(headers or {})})
        answer = connection.getresponse()
        return Answer(answer.status, dict(answer.getheaders()), answer.read())
    finally:
        connection.close()


def request_head(length: int, headers: Mapping[str, str] | None = None) -> bytes:
    """Return the head of a request for a transcription."""
    lines = [
        f"POST {TRANSCRIPTIONS} HTTP/1.1",
        "host: test",
        f"content-type: {FORM_TYPE}",
        f"content-length: {length}",
        *(f"{name}: {value}" for name, value in (headers or {}).items()),
    ]
    return "\r\n".join((*lines, "", "")).encode()


def in_pieces(data: bytes, size: int = 65_536) -> Iterator[bytes]:
    """Yield data in pieces."""
    yield from (data[start : start + size] for start in range(0, len(data), size))


class Pipe(io.RawIOBase):
    """Bytes that are read in order, as from a pipe."""

    def __init__(self, data: bytes, name: str = "pipe") -> None:
        super().__init__()
        self._data = io.BytesIO(data)
        self.name = name

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return False

    def readinto(self, buffer: Any) -> int:
        return self._data.readinto(buffer)


def _part(parameters: str, value: bytes) -> bytes:
    head = f"--{BOUNDARY}\r\nContent-Disposition: form-data; {parameters}\r\n\r\n"
    return head.encode() + value + b"\r\n"
