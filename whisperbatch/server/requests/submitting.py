"""Recordings for the model, without a pause of the event loop."""

import asyncio
from typing import BinaryIO

import whisperbatch as wb
from whisperbatch.server.models import Models


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
