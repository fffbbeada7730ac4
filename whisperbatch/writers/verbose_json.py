"""JSON in the shape of OpenAI's `verbose_json`, and what more there is to say beside it."""

import json
import re
from dataclasses import asdict
from typing import Any, Final

from whisperbatch.text.languages import LANGUAGES
from whisperbatch.types import HOP, Segment, Transcript, Word, to_samples

_HALVES: Final = re.compile("[\ud800-\udfff]")  # of a pair: JSON can write them, UTF-8 cannot


def verbose_json(transcript: Transcript) -> str:
    """OpenAI's keys first, in its order; ours are named in `docs/reference/writers.md`."""
    words = [word for segment in transcript.segments for word in segment.words or ()]
    value: dict[str, Any] = {
        "task": _task(transcript),
        "language": LANGUAGES.get(transcript.language or "", transcript.language),
        "duration": transcript.duration,
        "text": transcript.text,
        "segments": [_segment(segment) for segment in transcript.segments],
    }
    if any(segment.words is not None for segment in transcript.segments):
        value["words"] = [_openai_word(word) for word in words]
    value |= {
        "language_code": transcript.language,
        "language_probability": transcript.language_probability,
        "source": transcript.source,
        "omissions": [asdict(dropped) for dropped in transcript.omissions],
        "chunks": transcript.chunks,
        "redecoded": transcript.redecoded,
    }
    written = json.dumps(value, ensure_ascii=False, indent=2)
    return _HALVES.sub(lambda half: f"\\u{ord(half[0]):04x}", written) + "\n"


def _task(transcript: Transcript) -> str:
    """What was done: a translation is in English throughout, where that is not what is spoken."""
    written = {segment.language for segment in transcript.segments}
    translated = written == {"en"} and transcript.language not in (None, "en")
    return "translate" if translated else "transcribe"


def _segment(segment: Segment) -> dict[str, Any]:
    value = {
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
    if segment.words is not None:
        value["words"] = [asdict(word) for word in segment.words]
    return value


def _openai_word(word: Word) -> dict[str, Any]:
    return {"word": word.word.strip(), "start": word.start, "end": word.end}
