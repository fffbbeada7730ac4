"""The body of a request, piece by piece, and the file that receives an upload."""

import asyncio
import time
from collections.abc import AsyncIterator

from starlette.requests import ClientDisconnect, Request

from whisperbatch.server.clients.waiting import client_gone
from whisperbatch.server.errors import ApiError
from whisperbatch.server.spool import Spool


async def pieces(request: Request, idle: float, total: float) -> AsyncIterator[bytes]:
    """Yield the body of a request.

    Args:
        request: of a client.
        idle: longest time without data, in seconds.
        total: longest time of the upload, in seconds.

    Yields:
        The bytes, as they arrive.

    Raises:
        ApiError: the client is too slow, or is gone.
    """
    deadline = time.monotonic() + total
    stream = request.stream()
    while True:
        limit = min(idle, max(deadline - time.monotonic(), 0.0))
        try:
            data = await asyncio.wait_for(anext(stream, b""), limit)
        except asyncio.TimeoutError as error:
            raise ApiError(
                408, "the upload is too slow", code="upload_timeout", may_retry=False
            ) from error
        except ClientDisconnect as error:
            raise client_gone() from error
        if not data:
            return
        yield data


def new_spool(name: str, directory: str | None) -> Spool:
    """Return a file for an upload.

    Raises:
        ApiError: there is no room on the disk (507).
    """
    try:
        return Spool(name, directory)
    except OSError as error:
        raise disk_full(error) from error


def disk_full(error: OSError) -> ApiError:
    """Return the error of an upload that cannot be written (status 507)."""
    return ApiError(
        507, f"the upload cannot be stored: {error.strerror}", kind="server_error", code="storage"
    )
