"""The rows of the result: one for each span of a plan, or for each recording of a dataset."""

from collections.abc import Mapping
from typing import Any, Final

import pyarrow as pa

from whisperbatch.jobs import Recording, SpanOutcome
from whisperbatch.types import to_values

WORD: Final = pa.struct(
    {
        "start": pa.float64(),
        "end": pa.float64(),
        "word": pa.string(),
        "probability": pa.float64(),
        "speaker": pa.string(),
        "speaker_confidence": pa.float64(),
        "other_speakers": pa.list_(pa.string()),
    }.items()
)
SEGMENT: Final = pa.struct(
    {
        "id": pa.int64(),
        "start": pa.float64(),
        "end": pa.float64(),
        "text": pa.string(),
        "language": pa.string(),
        "avg_logprob": pa.float64(),
        "no_speech_prob": pa.float64(),
        "compression_ratio": pa.float64(),
        "temperature": pa.float64(),
        "words": pa.list_(WORD),
        "speaker": pa.string(),
        "speaker_confidence": pa.float64(),
        "other_speakers": pa.list_(pa.string()),
        "provisional": pa.bool_(),
    }.items()
)
SCHEMA: Final = pa.schema(
    {
        "id": pa.string(),
        "uri": pa.string(),
        "start": pa.float64(),
        "end": pa.float64(),
        "text": pa.string(),
        "segments": pa.list_(SEGMENT),
        "language": pa.string(),
        "error": pa.string(),
    }.items()
)
"""Arrow cannot infer these types from rows without segments, words or errors."""


def span_row(outcome: SpanOutcome) -> dict[str, Any]:
    """Return the row of a span of a plan."""
    return {**_row(outcome), "start": outcome.start, "end": outcome.end}


def recording_row(outcome: SpanOutcome) -> dict[str, Any]:
    """Return the row of a whole recording, whose duration is known after it was read."""
    end = outcome.end if outcome.transcript else None
    return {**_row(outcome), "start": 0.0, "end": end}


def unreadable_row(recording: Recording) -> dict[str, Any]:
    """Return the row of a recording that could not be probed when the plan was made."""
    failure = recording.failure
    error = failure and f"{failure.kind}: {failure.message}"
    return {"id": recording.id, "uri": recording.name, "error": error}


def table(*rows: Mapping[str, Any]) -> pa.Table:
    """Return rows as a table; values that are missing are null."""
    return pa.Table.from_pylist(list(rows), schema=SCHEMA)


def _row(outcome: SpanOutcome) -> dict[str, Any]:
    transcript, failure = outcome.transcript, outcome.failure
    return {
        "id": outcome.span.id,
        "uri": outcome.span.name,
        "text": transcript and transcript.text,
        "segments": transcript and to_values(transcript.segments),
        "language": transcript and transcript.language,
        "error": failure and f"{failure.kind}: {failure.message}",
    }
