"""The command `whisperbatch serve`: run the server until it is stopped.

The first SIGTERM or Ctrl-C refuses new work with the status 503, and waits for the running work, at
most `shutdown_timeout`. The second ends the server at once.
"""

import signal
import time
from collections.abc import Sequence
from types import FrameType
from typing import Final

import uvicorn
from pydantic import ValidationError
from pydantic_settings import CliApp

import whisperbatch as wb
from whisperbatch.server.app import Server
from whisperbatch.server.settings import ServerSettings

LAST_ANSWERS: Final = 5  # seconds for answers that are being sent


def serve(arguments: Sequence[str]) -> None:
    """Run the server until it is stopped.

    Args:
        arguments: the flags.

    Raises:
        OptionError: a flag, variable or file of the settings is wrong.
        WhisperBatchError: a model cannot be loaded.
    """
    server = Server(settings_of(arguments))
    config = uvicorn.Config(
        server.app,
        host=server.settings.host,
        port=server.settings.port,
        timeout_graceful_shutdown=LAST_ANSWERS,
        server_header=False,
        log_level="info",
    )
    _Uvicorn(config, server).run()
    if server.failure:
        raise server.failure


def settings_of(arguments: Sequence[str]) -> ServerSettings:
    """Return the settings from flags and variables.

    Raises:
        OptionError: a flag or variable is wrong.
    """
    try:
        return CliApp.run(_Flags, cli_args=list(arguments))
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(str(part) for part in first["loc"])
        raise wb.OptionError(f"{name}: {first['msg']}") from error


class _Flags(ServerSettings):
    """Serve transcriptions over HTTP, with OpenAI's API.

    Each flag can also be a variable: WHISPERBATCH_PORT=8080.
    """


class _Uvicorn(uvicorn.Server):
    """Uvicorn, which finishes the running work before it stops."""

    def __init__(self, config: uvicorn.Config, server: Server) -> None:
        super().__init__(config)
        self._server = server
        self._deadline: float | None = None

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Refuse new work at the first signal; end at the second."""
        del frame
        if self._deadline is not None:
            self.should_exit = self.force_exit = True
            return
        self._deadline = time.monotonic() + self._server.settings.shutdown_timeout
        self._server.admission.closed = True
        if sig == signal.SIGINT:
            self._deadline = time.monotonic()

    async def on_tick(self, counter: int) -> bool:
        """Stop if a model cannot be loaded; after a signal, stop when the work has ended.

        Uvicorn calls this method ten times a second.
        """
        if self._server.failure:
            self.should_exit = True
        if self._deadline is not None and (
            not self._server.admission.active or time.monotonic() >= self._deadline
        ):
            self.should_exit = True
        return await super().on_tick(counter)
