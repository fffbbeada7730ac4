"""Answers of HTTP servers that state no length.

FFmpeg cannot tell the end of such an answer from a broken connection: it takes a broken chunked
answer for a complete one, and reports an error at the end of an answer that ends with the
connection. Python's client tells them apart, so these answers are read through it.

    Content-Length        read by FFmpeg, which notices a missing end
    chunked               complete only with its last, empty chunk
    neither               ends with the connection
"""

import http.client
import urllib.request
from typing import Final
from urllib.parse import urlsplit

import av
from typing_extensions import Self

PLAYLISTS: Final = frozenset({"hls", "hls,applehttp", "dash", "concat", "sdp", "imf"})
"""FFmpeg's names of formats that name further addresses, which FFmpeg itself must open."""


class HttpAnswer:
    """The body of an answer, as a file that cannot seek.

    Attributes:
        name: the address without its query; FFmpeg guesses the format from it.
        broken: whether the connection ended before the answer did.
    """

    def __init__(self, address: str, response: http.client.HTTPResponse) -> None:
        self.name = urlsplit(address).path
        self.broken = False
        self._response = response

    @classmethod
    def get(cls, address: str) -> Self | None:
        """Request an address; None if the answer states its length, or there is no answer."""
        version = ".".join(map(str, av.library_versions["libavformat"]))
        headers = {"User-Agent": f"Lavf/{version}", "Accept": "*/*"}
        try:
            request = urllib.request.Request(address, headers=headers)  # noqa: S310 - is_http
            response = urllib.request.urlopen(request)  # noqa: S310
        except (OSError, ValueError, http.client.HTTPException):
            return None
        if not isinstance(response, http.client.HTTPResponse) or response.length is not None:
            response.close()
            return None
        return cls(address, response)

    def read(self, size: int) -> bytes:
        """Return up to `size` bytes; no bytes at the end, or where the connection broke."""
        if self.broken or not size:
            return b""
        try:
            return self._response.read1(size)
        except (http.client.HTTPException, ConnectionError):
            self.broken = True
            return b""

    def close(self) -> None:
        """Close the connection. Safe to call twice."""
        self._response.close()


def is_http(address: str) -> bool:
    """Return whether Python's client can request an address: HTTP without a password."""
    parts = urlsplit(address)
    return parts.scheme in ("http", "https") and "@" not in parts.netloc
