"""The command `whisperbatch serve`. Needs the extra `server`."""

from collections.abc import Sequence
from typing import Final

from whisperbatch.dependencies import interface_note
from whisperbatch.errors import MissingExtraError

PACKAGES: Final = (
    *("fastapi", "uvicorn", "python_multipart", "pydantic_settings", "prometheus_client"),
    *("pydantic", "starlette"),
)


def run_server(arguments: Sequence[str]) -> None:
    """Run the server until it is stopped.

    Args:
        arguments: the flags.

    Raises:
        MissingExtraError: the extra `server` is not installed.
        WhisperBatchError: a setting is wrong, or a model cannot be loaded.
    """
    try:
        from whisperbatch.server.serve import serve  # noqa: PLC0415 - an extra
    except ImportError as error:
        if (error.name or "").partition(".")[0] not in PACKAGES:
            raise
        missing = f"the server needs {error.name}: pip install 'whisperbatch[server]'"
        note = interface_note(error)
        raise MissingExtraError(f"{error}{note}" if note else missing) from error
    serve(arguments)
