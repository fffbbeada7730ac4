"""Transcripts in the form of the published handler for ASR with diarization."""

from typing import Any

import whisperbatch as wb


def answer_of(transcript: wb.Transcript) -> dict[str, Any]:
    """Return the answer to a request.

    Args:
        transcript: of the recording.

    Returns:
        `text`, `chunks` and `speakers`. A chunk is a segment: its text, its start and end in
        seconds, and its words if the request asks for word timestamps. `speakers` has the chunks
        with their speaker, as in the published handler; without `diarize`, it is empty.
    """
    chunks = [_chunk(segment) for segment in transcript.segments]
    return {
        "text": transcript.text,
        "chunks": chunks,
        "speakers": [
            {"speaker": segment.speaker, **chunk}
            for segment, chunk in zip(transcript.segments, chunks, strict=True)
            if segment.speaker is not None
        ],
    }


def _chunk(segment: wb.Segment) -> dict[str, Any]:
    chunk: dict[str, Any] = {"text": segment.text, "timestamp": [segment.start, segment.end]}
    if segment.words is not None:
        chunk["words"] = [
            {"text": word.word, "timestamp": [word.start, word.end]} for word in segment.words
        ]
    return chunk
