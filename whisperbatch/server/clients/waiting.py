"""Waiting for a result while the client waits, too."""

import asyncio
from collections.abc import Awaitable
from typing import Any, TypeVar

from starlette.types import Receive

from whisperbatch.server.errors import ApiError

T = TypeVar("T")


async def disconnect(receive: Receive) -> None:
    """Wait until the client is gone."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def before(gone: "asyncio.Future[None]", work: Awaitable[T], seconds: float) -> T | None:
    """Wait for a result.

    Args:
        gone: `disconnect` of the request.
        work: the result.
        seconds: longest time to wait.

    Returns:
        The result; None after `seconds`.

    Raises:
        ApiError: the client is gone.
    """
    task: asyncio.Future[T] = asyncio.ensure_future(_awaited(work))
    both: set[asyncio.Future[Any]] = {gone, task}
    try:
        await asyncio.wait(both, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        if gone.done():
            raise client_gone()
        return None
    finally:
        task.cancel()


async def _awaited(work: Awaitable[T]) -> T:
    return await work


def client_gone() -> ApiError:
    """Return the error of a request without a client (status 499): no client receives it."""
    return ApiError(499, "the client has closed the connection", code="client_gone")


def timed_out(seconds: float) -> ApiError:
    """Return the error of a request that takes too long (status 504)."""
    return ApiError(
        504,
        f"the transcription has not ended within {seconds:g} s, the limit of this server",
        kind="server_error",
        code="timeout",
        may_retry=False,
    )
