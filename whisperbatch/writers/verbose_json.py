"""JSON with the keys of OpenAI's `verbose_json`, and additional keys of whisperbatch."""

import json
import math
import re
from dataclasses import asdict
from typing import Any, Final

from whisperbatch.addresses import without_secrets
from whisperbatch.text.control_characters import escape_controls_in_json
from whisperbatch.text.languages import LANGUAGES
from whisperbatch.types import HOP, Segment, Transcript, Word, to_samples
from whisperbatch.writers.speakers import (
    SPEAKER_FIELDS,
    has_speakers,
    speaker_values,
    word_values,
)

_SURROGATES: Final = re.compile("[\ud800-\udfff]")  # JSON can escape them; UTF-8 cannot hold them


def verbose_json(transcript: Transcript) -> str:
    """Return OpenAI's keys in OpenAI's order, then those of `docs/reference/writers.md`.

    Every text keeps its characters; control characters are escaped.
    """
    speakers = has_speakers(transcript)
    words = [word for segment in transcript.segments for word in segment.words or ()]
    value: dict[str, Any] = {
        "task": _task(transcript),
        "language": LANGUAGES.get(transcript.language or "", transcript.language),
        "duration": transcript.duration,
        "text": transcript.text,
        "segments": [_segment(segment, speakers=speakers) for segment in transcript.segments],
    }
    if any(segment.words is not None for segment in transcript.segments):
        value["words"] = [_openai_word(word) for word in words]
    value |= {
        "language_code": transcript.language,
        "language_probability": transcript.language_probability,
        "source": without_secrets(transcript.source, whole=True),
        "omissions": [asdict(omission) for omission in transcript.omissions],
        "notices": [asdict(notice) for notice in transcript.notices],
        "missing_duration": transcript.missing_duration,
        "chunks": transcript.chunks,
        "redecoded": transcript.redecoded,
        "checked_duration": transcript.checked_duration,
        "recovered_duration": transcript.recovered_duration,
        **speaker_values(transcript),
    }
    text = json.dumps(_without_nan(value), ensure_ascii=False, indent=2)
    text = escape_controls_in_json(text)
    return _SURROGATES.sub(lambda match: f"\\u{ord(match[0]):04x}", text) + "\n"


def _without_nan(value: Any) -> Any:  # noqa: ANN401 - any value of JSON
    """Return a value in which None replaces NaN and infinite scores: JSON has no such numbers."""
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


def _segment(segment: Segment, *, speakers: bool) -> dict[str, Any]:
    value: dict[str, Any] = {
        "id": segment.id,
        "seek": to_samples(segment.start) // HOP,
        "start": segment.start,
        "end": segment.end,
        "text": segment.text,
        "tokens": [],
        "temperature": segment.temperature,
        "avg_logprob": segment.avg_logprob,
        "compression_ratio": segment.compression_ratio,
        "no_speech_prob": segment.no_speech_prob,
        "language": segment.language,
    }
    if speakers:
        value |= {name: getattr(segment, name) for name in SPEAKER_FIELDS}
    if segment.words is not None:
        value["words"] = [word_values(word, speakers=speakers) for word in segment.words]
    return value


def _openai_word(word: Word) -> dict[str, Any]:
    return {"word": word.word.strip(), "start": word.start, "end": word.end}
