"""A server of recordings whose URLs have secrets, and a check that nothing shows them."""

import http.server
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from tests.unit.fakes import noise
from tests.unit.media_files import encode

SECRET: Final = "hush"  # noqa: S105 - of no account
SIGNATURE: Final = f"v=1&X-Amz-Credential={SECRET}&X-Amz-Signature={SECRET}"


class Handler(http.server.BaseHTTPRequestHandler):
    """Serves a recording as /a.wav and as /b.wav, no media as /no.mp3, and nothing else."""

    sound = encode([noise(3)], "wav", "pcm_s16le", rate=16_000)

    def do_GET(self) -> None:
        """Answer with the file."""
        path = self.path.partition("?")[0]
        known = {"/a.wav": self.sound, "/b.wav": self.sound, "/no.mp3": b"no media" * 99}
        if path not in known:
            self.send_error(403)
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(known[path])))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(known[path])

    do_HEAD = do_GET  # noqa: N815 - the base class's name

    def log_message(self, *arguments: object) -> None:
        """Print nothing."""


@contextmanager
def serving() -> Iterator[str]:
    """Run the server, and yield its address with a user and a password."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://me:{SECRET}@127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def texts_of(error: BaseException | None) -> Iterator[str]:
    """Everything that a user may see of an exception and those that it is chained to."""
    if error is None:
        return
    yield "".join(traceback.format_exception(error))
    seen: set[int] = set()
    pending: list[BaseException | None] = [error]
    while pending:
        link = pending.pop()
        if link is not None and id(link) not in seen:
            seen.add(id(link))
            yield f"{link} {link!r} {link.args}"
            pending += [link.__cause__, link.__context__]


def check(error: BaseException) -> None:
    """Check that an exception shows no secret."""
    for text in texts_of(error):
        assert SECRET not in text
    assert SECRET not in str(getattr(error, "source", ""))
