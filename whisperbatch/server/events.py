"""The text of a recording as server-sent events, while it is decoded.

transcript.text.delta     the text of the next segment; all deltas together are the text
transcript.text.segment   its times and speaker, with diarized_json and verbose_json
transcript.text.done      the whole text, once, with the usage; and the final speakers
[DONE]                    the end, also after an error
: ping                    a comment, while there is no event; it keeps the connection open

An error after the first event is `data: {"error": ...}`, which OpenAI's clients raise.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any, Final

import whisperbatch as wb
from whisperbatch.server.errors import ApiError, as_api_error
from whisperbatch.server.fields import TranscriptionRequest
from whisperbatch.server.formats import (
    as_json,
    logprobs_of,
    segment_id,
    segment_of,
    usage_of,
)
from whisperbatch.server.requests.speakers import DIARIZED
from whisperbatch.text import UNSPACED

PING_INTERVAL: Final = 10.0  # seconds; proxies close connections after 30 to 60 s without data
PING: Final = ": ping\n\n"
DONE: Final = "data: [DONE]\n\n"
WITH_SEGMENTS: Final = ("verbose_json", DIARIZED)


async def events_of(submission: wb.Submission, request: TranscriptionRequest) -> AsyncIterator[str]:
    """Yield the events of a recording.

    Args:
        submission: the recording.
        request: what the client asks for.

    Yields:
        Each event as text, and pings while there is none.
    """
    segments = aiter(submission)
    text = ""
    try:
        while True:
            following = asyncio.ensure_future(anext(segments, None))
            try:
                while not (await asyncio.wait({following}, timeout=PING_INTERVAL))[0]:
                    yield PING
            finally:
                if not following.done():
                    following.cancel()
                    with suppress(asyncio.CancelledError):
                        await following
            segment = following.result()
            if segment is None:
                break
            delta = _delta(text, segment)
            text += delta
            for value in _segment_events(segment, delta, request):
                yield _event(value)
        yield _event(_done(await submission, request))
        yield DONE
    except wb.WhisperBatchError as error:
        for event in ending_with(as_api_error(error)):
            yield event


def ending_with(error: ApiError) -> tuple[str, str]:
    """Return the last events of a recording that failed."""
    return _event(error.body), DONE


def _delta(text: str, segment: wb.Segment) -> str:
    """Return what a segment adds to the text, as `Transcript.text` joins segments."""
    return (" " if text and segment.language not in UNSPACED else "") + segment.text


def _done(transcript: wb.Transcript, request: TranscriptionRequest) -> dict[str, Any]:
    """Return the last event of a recording."""
    done: dict[str, Any] = {
        "type": "transcript.text.done",
        "text": transcript.text,
        "usage": usage_of(transcript),
    }
    if transcript.language:
        done["languages"] = [{"code": transcript.language}]
    if request.logprobs:
        done["logprobs"] = [
            item for segment in transcript.segments for item in logprobs_of(segment)
        ]
    if request.options.diarize:
        done["segments"] = [segment_of(segment, request) for segment in transcript.segments]
    return done


def _segment_events(
    segment: wb.Segment, delta: str, request: TranscriptionRequest
) -> list[dict[str, Any]]:
    event: dict[str, Any] = {"type": "transcript.text.delta", "delta": delta}
    if request.logprobs:
        event["logprobs"] = logprobs_of(segment)
    if request.response_format not in WITH_SEGMENTS:
        return [event]
    event["segment_id"] = segment_id(segment)
    described = segment_of(segment, request)
    if segment.provisional:
        described["provisional"] = True
    return [event, described]


def _event(value: object) -> str:
    return f"data: {as_json(value)}\n\n"
