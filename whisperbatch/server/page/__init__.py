"""The page for browsers at `/`: text while people speak, and transcripts of files.

    GET / ─┬─ a browser (Accept: text/html) ──> index.html ──> /page/NAME, the files of this folder
           └─ anything else ──────────────────> the health answer

page.js      what is shown, and what the user does
speech.js    the transcript, the live session, the upload of a file, and the files to download
recorder.js  runs in the audio thread: the sound of the microphone at 24 kHz

The page needs no key: it has a field for the key, and sends it with each request. It loads nothing
from elsewhere, and its security policy lets it send nothing elsewhere.
"""

import re
from importlib.resources import files
from typing import Final

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from whisperbatch.server.errors import ApiError
from whisperbatch.text import LANGUAGES

SCRIPT: Final = "text/javascript; charset=utf-8"
FILES: Final = {
    "page.css": "text/css; charset=utf-8",
    "page.js": SCRIPT,
    "speech.js": SCRIPT,
    "recorder.js": SCRIPT,
}
"""The files that the page loads, with their types."""
PATHS: Final = tuple(f"/page/{name}" for name in FILES)
HTML: Final = "text/html"
JSON: Final = "application/json"
COMMON: Final = {"cache-control": "no-cache", "x-content-type-options": "nosniff"}
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "media-src 'self' blob:; connect-src 'self'{sockets}; base-uri 'self'; form-action 'none'; "
    "frame-ancestors 'none'"
)


class Page:
    """Answers the requests of browsers for the page and its files.

    Args:
        root_path: path of the server at its proxy, such as /speech; empty if there is none.
    """

    def __init__(self, root_path: str) -> None:
        folder = files(__name__)
        self._files = {name: (folder / name).read_bytes() for name in FILES}
        base = f'<base href="{root_path}/">' if root_path else ""
        text = (folder / "index.html").read_text(encoding="utf-8")
        self._html = text.replace("<!-- base -->", base).replace(
            "<!-- languages -->", " ".join(LANGUAGES)
        )

    def show(self, request: Request) -> HTMLResponse:
        """Return the page.

        Args:
            request: names the host of the server, to which the page may open a WebSocket.
        """
        host = request.headers.get("host", "")
        known = re.fullmatch(r"[\w.-]+(:\d+)?", host, re.ASCII)
        # For some browsers, 'self' does not include the WebSockets of the same host.
        sockets = f" ws://{host} wss://{host}" if known else ""
        return HTMLResponse(
            self._html,
            headers={
                **COMMON,
                "content-security-policy": POLICY.format(sockets=sockets),
                "permissions-policy": "microphone=(self), camera=(), geolocation=()",
                "referrer-policy": "no-referrer",
                "vary": "Accept",
            },
        )

    async def file(self, name: str) -> Response:
        """Return a file that the page loads.

        Args:
            name: of the file.

        Raises:
            ApiError: there is no such file.
        """
        if name not in self._files:
            raise ApiError(404, "the page has no such file", code="not_found")
        return Response(self._files[name], media_type=FILES[name], headers=COMMON)


def wants_page(headers: Headers) -> bool:
    """Return whether a request is that of a browser that opens an address.

    It names HTML as a type that it accepts, and does not accept JSON as well as HTML.
    Programs that ask for the health of the server name no type, `*/*`, or JSON.

    Args:
        headers: of the request.
    """
    accepted = dict(_quality(part) for part in ",".join(headers.getlist("accept")).split(","))
    return accepted.get(HTML, 0.0) > accepted.get(JSON, 0.0)


def _quality(part: str) -> tuple[str, float]:
    """Return a type in a header `Accept`, and how much the client wants the type, from 0 to 1."""
    kind, *parameters = (text.strip().lower() for text in part.split(";"))
    for parameter in parameters:
        if parameter.startswith("q="):
            match = re.fullmatch(r"q=([01](\.\d{0,3})?)", parameter)
            return kind, float(match[1]) if match else 0.0
    return kind, 1.0
