"""Transcripts of the spans of a recording become the transcript of the recording."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from whisperbatch.types import (
    Diarization,
    Transcript,
    concerns_empty_only,
    merged,
    to_samples,
    to_seconds,
)


def join_spans(transcripts: Sequence[Transcript]) -> Transcript:
    """Return the transcript of a recording from those of its spans.

    The result is that of a run over the whole recording; a single transcript stays as it is. With
    `multilingual`, the language of the recording is the language in which most of its segments were
    spoken, and its probability is an approximation.

    Args:
        transcripts: of all spans in order, at least one. The last span extends to the end of the
            recording.
    """
    first = transcripts[0]
    if len(transcripts) == 1:
        return first
    language, probability = _language(transcripts)
    segments = [segment for transcript in transcripts for segment in transcript.segments]
    return replace(
        first,
        segments=tuple(replace(segment, id=number) for number, segment in enumerate(segments)),
        language=language,
        language_probability=probability,
        duration=max(transcript.duration for transcript in transcripts),
        omissions=tuple(item for transcript in transcripts for item in transcript.omissions),
        chunks=sum(transcript.chunks for transcript in transcripts),
        redecoded=sum(transcript.redecoded for transcript in transcripts),
        checked_duration=_sum(transcript.checked_duration for transcript in transcripts),
        recovered_duration=_sum(transcript.recovered_duration for transcript in transcripts),
        diarization=_diarization([item.diarization for item in transcripts if item.diarization]),
        notices=merged(
            notice
            for transcript in transcripts
            for notice in transcript.notices
            if not (segments and concerns_empty_only(notice))
        ),
    )


def _sum(durations: Iterable[float]) -> float:
    """Return the sum of durations in seconds, exact to the sample."""
    return to_seconds(sum(map(to_samples, durations)))


def _diarization(found: Sequence[Diarization]) -> Diarization | None:
    """Return the turns of all spans. Speakers with the same name are one speaker."""
    if not found:
        return None
    return replace(
        found[0],
        turns=tuple(turn for diarization in found for turn in diarization.turns),
        duration=max(diarization.duration for diarization in found),
        embeddings={
            name: voice
            for diarization in reversed(found)
            for name, voice in diarization.embeddings.items()
        },
        exclusive=tuple(turn for diarization in found for turn in diarization.exclusive),
    )


def _language(transcripts: Sequence[Transcript]) -> tuple[str | None, float]:
    """Return the language and its probability; weights are the seconds of segments."""
    decisions = {(item.language, item.language_probability) for item in transcripts}
    decisions.discard((None, 0.0))
    if len(decisions) < 2:  # noqa: PLR2004 - the spans agree
        return decisions.pop() if decisions else (None, 0.0)
    seconds: dict[str, float] = {}
    for transcript in transcripts:
        for segment in transcript.segments:
            length = segment.end - segment.start
            seconds[segment.language] = seconds.get(segment.language, 0.0) + length
    if not seconds:
        return max(decisions, key=lambda decision: decision[1])
    language = max(seconds, key=lambda code: seconds[code])
    weights = [
        (sum(s.end - s.start for s in item.segments), item.language_probability)
        for item in transcripts
        if item.language == language
    ]
    total = sum(weight for weight, _ in weights)
    return language, sum(w * p for w, p in weights) / total if total else 0.0
