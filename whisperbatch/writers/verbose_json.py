"""JSON: files with the keys of OpenAI's `verbose_json` and additional keys, and lines of JSON."""

import json
import math
import re
from dataclasses import replace
from typing import Any, Final

from whisperbatch.addresses import without_secrets
from whisperbatch.text.languages import LANGUAGES
from whisperbatch.text.messages import escape_controls_in_json
from whisperbatch.types import HOP, Segment, Transcript, to_samples, to_values
from whisperbatch.writers.formatting import has_speakers

SPEAKER_FIELDS: Final = ("speaker", "speaker_confidence", "other_speakers")
"""The fields of words and segments that say who speaks."""

_SEGMENT_KEYS: Final = (
    *("id", "seek", "start", "end", "text", "tokens", "temperature", "avg_logprob"),
    *("compression_ratio", "no_speech_prob", "language", *SPEAKER_FIELDS, "words"),
)
_SURROGATES: Final = re.compile("[\ud800-\udfff]")  # JSON can escape them; UTF-8 cannot hold them


def verbose_json(transcript: Transcript) -> str:
    """Return `verbose_values` as a file.

    Every text keeps its characters; control characters are escaped.
    """
    text = json.dumps(verbose_values(transcript), ensure_ascii=False, indent=2)
    text = escape_controls_in_json(text)
    return _SURROGATES.sub(lambda match: f"\\u{ord(match[0]):04x}", text) + "\n"


def verbose_values(transcript: Transcript) -> dict[str, Any]:
    """Return OpenAI's keys in OpenAI's order, then those of `docs/reference/writers.md`.

    None replaces NaN and infinite scores: JSON has no such numbers.
    """
    speakers = has_speakers(transcript)
    value: dict[str, Any] = {
        "task": _task(transcript),
        "language": LANGUAGES.get(transcript.language or "", transcript.language),
        "duration": transcript.duration,
        "text": transcript.text,
        "segments": [_segment(segment, speakers=speakers) for segment in transcript.segments],
    }
    if any(segment.words is not None for segment in transcript.segments):
        value["words"] = [
            {"word": word.word.strip(), "start": word.start, "end": word.end}
            for segment in transcript.segments
            for word in segment.words or ()
        ]
    value |= {
        "language_code": transcript.language,
        "language_probability": transcript.language_probability,
        "source": without_secrets(transcript.source, whole=True),
        "omissions": to_values(transcript.omissions),
        "notices": to_values(transcript.notices),
        "missing_duration": transcript.missing_duration,
        "chunks": transcript.chunks,
        "redecoded": transcript.redecoded,
        "checked_duration": transcript.checked_duration,
        "recovered_duration": transcript.recovered_duration,
        **_speaker_values(transcript),
    }
    finite: dict[str, Any] = _without_nan(value)
    return finite


def segment_values(segment: Segment) -> dict[str, Any]:
    """Return the fields of a segment; those of speakers only if the segment has one, or may yet."""
    value: dict[str, Any] = to_values(segment)
    if segment.speaker is None and not segment.provisional:
        del value["provisional"]
        _delete_speakers(value)
    return value


def transcript_values(transcript: Transcript) -> dict[str, Any]:
    """Return the fields of a transcript whose segments were printed before, without its source.

    With a diarization, the segments have their final speakers only now, and come again.
    """
    value = replace(transcript, segments=(), diarization=None).to_dict()
    del value["segments"], value["source"], value["diarization"]
    value |= {"missing_duration": transcript.missing_duration, **_speaker_values(transcript)}
    if transcript.diarization:
        value["segments"] = [segment_values(segment) for segment in transcript.segments]
    return value


def _speaker_values(transcript: Transcript) -> dict[str, Any]:
    """Return the names of the speakers and their turns; empty without a diarization."""
    if transcript.diarization is None:
        return {}
    turns = to_values(transcript.diarization.turns)
    return {"speakers": list(transcript.speakers), "turns": turns}


def _delete_speakers(value: dict[str, Any]) -> None:
    """Delete the fields of speakers from the values of a segment."""
    for timed in (value, *(value["words"] or ())):
        for name in SPEAKER_FIELDS:
            del timed[name]


def _segment(segment: Segment, *, speakers: bool) -> dict[str, Any]:
    value = to_values(segment) | {"seek": to_samples(segment.start) // HOP, "tokens": []}
    if not speakers:
        _delete_speakers(value)
    if value["words"] is None:
        del value["words"]
    return {name: value[name] for name in _SEGMENT_KEYS if name in value}


def _without_nan(value: Any) -> Any:  # noqa: ANN401 - any value of JSON
    """Return a value in which None replaces NaN and infinite scores."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _without_nan(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_without_nan(item) for item in value]
    return value


def _task(transcript: Transcript) -> str:
    """Return "translate" if all text is English and the recording is not; else "transcribe"."""
    languages = {segment.language for segment in transcript.segments}
    translated = languages == {"en"} and transcript.language not in (None, "en")
    return "translate" if translated else "transcribe"
