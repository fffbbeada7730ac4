"""Transcripts in the forms of OpenAI's API: one answer, or server-sent events while it is decoded.

transcript.text.delta     the text of the next segment; all deltas together are the text
transcript.text.segment   its times and speaker, with diarized_json and verbose_json
transcript.text.done      the whole text, once, with the usage; and the final speakers
[DONE]                    the end, also after an error
: ping                    a comment, while there is no event; it keeps the connection open

An error after the first event is `data: {"error": ...}`, which OpenAI's clients raise.
"""

import asyncio
import json
import math
import re
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import suppress
from itertools import count, islice, product
from string import ascii_uppercase
from typing import Any, Final

import whisperbatch as wb
from whisperbatch.server.errors import ApiError, as_api_error
from whisperbatch.server.fields import SUBTITLES, TranscriptionRequest
from whisperbatch.server.speakers import DIARIZED
from whisperbatch.text import UNSPACED
from whisperbatch.writers import render, verbose_values

MIN_PROBABILITY: Final = 1e-10  # of a word whose probability is 0: JSON has no infinite numbers
TRANSLATED: Final = "english"
NUMBERED: Final = re.compile(r"SPEAKER_(\d+)")  # a speaker without a known name
CONTENT_TYPES: Final = {
    "json": "application/json",
    "verbose_json": "application/json",
    "text": "text/plain; charset=utf-8",
    "srt": "text/plain; charset=utf-8",
    "vtt": "text/vtt; charset=utf-8",
    "diarized_json": "application/json",
}
PING_INTERVAL: Final = 10.0  # seconds; proxies close connections after 30 to 60 s without data
PING: Final = ": ping\n\n"
DONE: Final = "data: [DONE]\n\n"
WITH_SEGMENTS: Final = ("verbose_json", DIARIZED)


def body_of(transcript: wb.Transcript, request: TranscriptionRequest) -> str:
    """Return the body of the answer to a request.

    Args:
        transcript: of the uploaded recording.
        request: states the form of the answer.

    Returns:
        The text of `CONTENT_TYPES[request.response_format]`.
    """
    response_format = request.response_format
    if response_format in SUBTITLES:
        return render(transcript, response_format, request.layout)
    if response_format == "text":
        return render(transcript, "txt") if transcript.diarization else transcript.text + "\n"
    if response_format == DIARIZED:
        return as_json(
            {
                "task": request.options.task,
                "duration": transcript.duration,
                "text": transcript.text,
                "segments": [segment_of(segment, request) for segment in transcript.segments],
                "usage": usage_of(transcript),
            }
        )
    if response_format == "json":
        value: dict[str, Any] = {"text": transcript.text, "usage": usage_of(transcript)}
        if transcript.language:
            value["languages"] = [{"code": transcript.language}]
        if request.logprobs:
            value["logprobs"] = [
                item for segment in transcript.segments for item in logprobs_of(segment.words)
            ]
        return as_json(value)
    return as_json(_verbose_json(transcript, request))


def _verbose_json(transcript: wb.Transcript, request: TranscriptionRequest) -> dict[str, Any]:
    """Return the keys of the JSON files; all words are in `words`, not in segments."""
    value = verbose_values(transcript)
    value["task"] = request.options.task
    value["language"] = value["language"] or ""  # OpenAI's clients expect text, also for silence
    if request.options.task == "translate":
        value["language"] = TRANSLATED  # OpenAI's API: the language of the text
    found = [word for segment in value["segments"] for word in segment.pop("words", ())]
    if transcript.diarization:
        for word, same_word in zip(value.get("words", ()), found, strict=True):
            word["speaker"] = same_word["speaker"]
    if not request.segments:
        del value["segments"]
    return value | {"usage": usage_of(transcript)}


def usage_of(transcript: wb.Transcript) -> dict[str, Any]:
    """Return what the transcription is billed by: seconds of the recording."""
    return {"type": "duration", "seconds": round(transcript.duration, 3)}


def segment_of(segment: wb.Segment, request: TranscriptionRequest) -> dict[str, Any]:
    """Return a segment in the form of `diarized_json` and of the events of a stream.

    Args:
        segment: of the transcript.
        request: states the form of the answer.

    Returns:
        The segment. With `diarized_json`, the speakers are A, B, ... as in OpenAI's API; otherwise
        they have the names of the transcript. A segment without a speaker has the name "".
    """
    speaker, names = segment.speaker or "", tuple(request.options.known_speakers or ())
    return {
        "type": "transcript.text.segment",
        "id": segment_id(segment),
        "start": segment.start,
        "end": segment.end,
        "text": segment.text,
        "speaker": label_of(speaker, names) if request.response_format == DIARIZED else speaker,
    }


def segment_id(segment: wb.Segment) -> str:
    """Return the identifier of a segment."""
    return f"seg_{segment.id}"


def label_of(speaker: str, names: Sequence[str] = ()) -> str:
    """Return the label of a speaker in OpenAI's API: A, B, ..., Z, AA, ...

    Args:
        speaker: name in the transcript. A name that is not SPEAKER_00, SPEAKER_01, ... stays.
        names: the known speakers. No other speaker gets one of these names as label.

    Returns:
        The label.
    """
    match = NUMBERED.fullmatch(speaker)
    if not match:
        return speaker
    labels = (
        "".join(letters)
        for length in count(1)
        for letters in product(ascii_uppercase, repeat=length)
    )
    free = (label for label in labels if label not in names)
    return next(islice(free, int(match[1]), None))


def logprobs_of(words: Iterable[wb.Word] | None) -> list[dict[str, Any]]:
    """Return the log-probability of each word, in the form of OpenAI's tokens.

    Args:
        words: of a segment; None if it has none.

    Returns:
        For each word its text, the bytes of the text, and the logarithm of the mean probability of
        its tokens.
    """
    return [
        {
            "token": word.word,
            "bytes": list(word.word.encode()),
            "logprob": math.log(max(word.probability, MIN_PROBABILITY)),
        }
        for word in words or ()
    ]


def as_json(value: object) -> str:
    """Return a value as JSON in one line."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


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


def joined(segments: Iterable[wb.Segment]) -> str:
    """Return the text of segments."""
    text = ""
    for segment in segments:
        text += _delta(text, segment)
    return text


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
            item for segment in transcript.segments for item in logprobs_of(segment.words)
        ]
    if request.options.diarize:
        done["segments"] = [segment_of(segment, request) for segment in transcript.segments]
    return done


def _segment_events(
    segment: wb.Segment, delta: str, request: TranscriptionRequest
) -> list[dict[str, Any]]:
    event: dict[str, Any] = {"type": "transcript.text.delta", "delta": delta}
    if request.logprobs:
        event["logprobs"] = logprobs_of(segment.words)
    if request.response_format not in WITH_SEGMENTS:
        return [event]
    event["segment_id"] = segment_id(segment)
    described = segment_of(segment, request)
    if segment.provisional:
        described["provisional"] = True
    return [event, described]


def _event(value: object) -> str:
    return f"data: {as_json(value)}\n\n"
