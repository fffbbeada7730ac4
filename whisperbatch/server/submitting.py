"""The recording for the model, and waiting for its result while the client waits, too."""

import asyncio
from collections.abc import Awaitable
from typing import Any, BinaryIO, TypeVar

from starlette.types import Receive

import whisperbatch as wb
from whisperbatch.server.errors import ApiError
from whisperbatch.server.models import Models

T = TypeVar("T")


async def submit(
    asr: wb.Transcriber, models: Models, file: BinaryIO, options: wb.Options
) -> wb.Submission:
    """Submit a recording.

    The networks that find speakers are loaded, and the voices of known speakers are read, in a
    thread.

    Args:
        asr: the model.
        models: of the server.
        file: the recording.
        options: of the transcription.

    Returns:
        The recording.

    Raises:
        OptionError: the model cannot honour an option.
        AudioError: the recording of a known speaker cannot be used.
        MissingExtraError: the networks that find speakers are not installed.
        ModelError: the networks are damaged.
    """
    if not options.diarize:
        return asr.submit(file, options=options)
    if options.speaker == "voice":
        await models.load_diarizer(options.diarizer)
    submitting = asyncio.ensure_future(asyncio.to_thread(asr.submit, file, options=options))
    try:
        return await asyncio.shield(submitting)
    except asyncio.CancelledError:
        submitting.add_done_callback(_cancel)
        raise


def _cancel(submitted: "asyncio.Future[wb.Submission]") -> None:
    """End a recording whose request has ended."""
    if not submitted.cancelled() and not submitted.exception():
        submitted.result().cancel()


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
    task: asyncio.Future[T] = asyncio.ensure_future(_await_result(work))
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


async def _await_result(work: Awaitable[T]) -> T:
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
