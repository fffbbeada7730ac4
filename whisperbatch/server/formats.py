"""Transcripts in the forms of OpenAI's API."""

import json
import math
from typing import Any, Final

import whisperbatch as wb
from whisperbatch.server.fields import SUBTITLES, TranscriptionRequest
from whisperbatch.writers import render

MIN_PROBABILITY: Final = 1e-10  # of a word whose probability is 0: JSON has no infinite numbers
TRANSLATED: Final = "english"
CONTENT_TYPES: Final = {
    "json": "application/json",
    "verbose_json": "application/json",
    "text": "text/plain; charset=utf-8",
    "srt": "text/plain; charset=utf-8",
    "vtt": "text/vtt; charset=utf-8",
}


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
        return render(transcript, response_format)
    if response_format == "text":
        return transcript.text + "\n"
    if response_format == "json":
        value: dict[str, Any] = {"text": transcript.text, "usage": usage_of(transcript)}
        if transcript.language:
            value["languages"] = [{"code": transcript.language}]
        if request.logprobs:
            value["logprobs"] = [
                item for segment in transcript.segments for item in logprobs_of(segment)
            ]
        return as_json(value)
    value = json.loads(render(transcript, "json"))
    value["task"] = request.options.task
    if request.options.task == "translate":
        value["language"] = TRANSLATED  # OpenAI's API: the language of the text
    if not request.segments:
        del value["segments"]
    for segment in value.get("segments", ()):
        segment.pop("words", None)  # `words` of the answer has all words
    return as_json(value | {"usage": usage_of(transcript)})


def usage_of(transcript: wb.Transcript) -> dict[str, Any]:
    """Return what the transcription is billed by: seconds of the recording."""
    return {"type": "duration", "seconds": round(transcript.duration, 3)}


def logprobs_of(segment: wb.Segment) -> list[dict[str, Any]]:
    """Return the log-probability of each word, in the form of OpenAI's tokens.

    Args:
        segment: with words.

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
        for word in segment.words or ()
    ]


def as_json(value: object) -> str:
    """Return a value as JSON in one line."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
