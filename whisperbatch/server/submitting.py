"""The recording for the model, and waiting for its result while the client waits, too."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, BinaryIO, TypeVar, cast

from starlette.requests import Request
from starlette.types import Receive

import whisperbatch as wb
from whisperbatch.audio import known_duration
from whisperbatch.decoding.prompts import with_end_of_prompt
from whisperbatch.live import LiveSession
from whisperbatch.protocols import EngineTraits
from whisperbatch.server.admission import Admission
from whisperbatch.server.clients import Client
from whisperbatch.server.errors import ApiError, client_gone
from whisperbatch.server.models import Models
from whisperbatch.server.records import RECORD, Record, note_submission
from whisperbatch.server.uploads import Spool
from whisperbatch.types import DeferredSource, Source

T = TypeVar("T")
C = TypeVar("C", wb.Submission, LiveSession)


def client_of(request: Request) -> Client:
    """Return the client of a request."""
    record: Record = request.scope[RECORD]
    return record.client


def fit_prompt(asr: wb.Transcriber, options: wb.Options) -> tuple[wb.Options, dict[str, str]]:
    """Use the end of a prompt that is too long, as OpenAI does.

    Args:
        asr: the model.
        options: of the transcription.

    Returns:
        The options, and headers of the answer that tell that the prompt was cut.
    """
    fitting = with_end_of_prompt(options, asr.engine)
    return fitting, {} if fitting is options else {"x-whisperbatch-prompt": "truncated"}


async def submit(
    asr: wb.Transcriber,
    models: Models,
    spool: Spool,
    options: wb.Options,
    *,
    client: Client,
    admission: Admission,
    max_batch: int | None,
    in_order: bool = False,
) -> wb.Submission:
    """Submit a recording.

    Speakers' networks are loaded, and known voices read, in a thread.

    Args:
        asr: the model.
        models: of the server.
        spool: the recording.
        options: of the transcription.
        client: of the request; clients take turns, in the ratio of their priorities.
        admission: limits the wait.
        max_batch: largest batch size; None for that of the engine.
        in_order: the recording is read like a pipe.

    Raises:
        ApiError: the recording would wait too long, or the client has too little audio left (429).
        OptionError: the model cannot honour an option.
        AudioError: the recording of a known speaker cannot be used.
        MissingExtraError: the networks that find speakers are not installed.
        ModelError: the networks are damaged.
    """
    options = _limit_batch(options, asr, max_batch)
    file: Source = cast("BinaryIO", spool.open())
    if in_order:  # a new reader for each time that the recording is read
        file = DeferredSource(lambda: cast("BinaryIO", spool.open(in_order=True)))
    length, submitted = None, asr.submitted_beside(client.name)
    # the library measures files that have to wait, but no pipes
    is_limited = client.audio_per_day is not None or submitted.long_wait > admission.limits.wait
    if spool.complete and (in_order or is_limited):
        length = await asyncio.to_thread(known_duration, cast("BinaryIO", spool.open()), options)
    admission.check_length(client, length, submitted)

    def start() -> wb.Submission:
        submission = asr.submit(
            file, options=options, group=client.name, weight=client.priority, length=length
        )
        note_submission(submission)
        return submission

    if not options.diarize:
        return start()
    if options.speaker == "voice":
        await models.load_diarizer(options.diarizer)
    return await started(start)


async def started(start: Callable[[], C]) -> C:
    """Start something in a thread, and return it. It is cancelled if the caller is.

    Raises:
        WhisperBatchError: as `start` raises it.
    """
    starting = asyncio.ensure_future(asyncio.to_thread(start))
    try:
        return await asyncio.shield(starting)
    except asyncio.CancelledError:
        starting.add_done_callback(_cancel)
        raise


def _limit_batch(options: wb.Options, asr: wb.Transcriber, most: int | None) -> wb.Options:
    """Return the options with at most the batch size `most`; None for that of the engine."""
    if options.batch_size is None:
        return options
    most = most or EngineTraits.of(asr.engine).default_batch_size(options.hypotheses)
    return replace(options, batch_size=min(options.batch_size, most))


def _cancel(started: "asyncio.Future[C]") -> None:
    """End a recording or a live session whose client is gone."""
    if not started.cancelled() and not started.exception():
        started.result().cancel()


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


def timed_out(seconds: float) -> ApiError:
    """Return the error of a request that takes too long (status 504)."""
    return ApiError(
        504,
        f"the transcription has not ended within {seconds:g} s, the limit of this server",
        kind="server_error",
        code="timeout",
        may_retry=False,
    )
