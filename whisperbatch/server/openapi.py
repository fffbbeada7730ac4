"""The forms of the API for its OpenAPI page."""

from dataclasses import fields
from types import MappingProxyType
from typing import Any, Final, get_args

import whisperbatch as wb
from whisperbatch.options import documented_fields
from whisperbatch.server.fields import FIXED, LAYOUT, SUBTITLES, ResponseFormat
from whisperbatch.writers import SubtitleOptions

TEXT: Final = MappingProxyType({"type": "string"})
TEXTS: Final = MappingProxyType({"type": "array", "items": dict(TEXT)})

COMMON: Final = MappingProxyType(
    {
        "file": ({"type": "string", "format": "binary"}, "The recording: any audio or video file."),
        "url": (TEXT, "In place of file: a URL that the server allows."),
        "model": (TEXT, "A name from /v1/models. The first model without it, or with whisper-1."),
        "prompt": (TEXT, "Text that precedes the recording: names, spelling, style."),
        "keywords[]": (TEXTS, "Words and phrases to expect."),
        "response_format": (
            {"type": "string", "enum": list(get_args(ResponseFormat)), "default": "json"},
            "Form of the answer; diarized_json is not for translations.",
        ),
        "temperature": (
            {"type": "number"},
            "0 selects beam search; a value above 0 selects sampling.",
        ),
        "chunking_strategy": (
            TEXT,
            (
                '"auto", or an object: {"type": "server_vad", "threshold": 0.5, '
                '"prefix_padding_ms": 100, "silence_duration_ms": 160}.'
            ),
        ),
    }
)
TRANSCRIPTIONS: Final = MappingProxyType(
    {
        "language": (
            TEXT,
            "The spoken language: a code, a tag such as pt-BR, an English name, or auto.",
        ),
        "languages[]": (TEXTS, "The languages that detection chooses from."),
        "stream": ({"type": "boolean"}, "Send the text while it is decoded, as events."),
        "timestamp_granularities[]": (
            {"type": "array", "items": {"type": "string", "enum": ["word", "segment"]}},
            "What verbose_json contains. No effect on other forms.",
        ),
        "include[]": (
            {"type": "array", "items": {"type": "string", "enum": ["logprobs"]}},
            "logprobs: the log-probability of each word, with json.",
        ),
        "known_speaker_names[]": (TEXTS, "Names of speakers, with diarized_json."),
        "known_speaker_references[]": (
            TEXTS,
            "The voice of each speaker: 2 to 10 s of speech in a data: URL with base64.",
        ),
    }
)


def form_of(task: str) -> dict[str, Any]:
    """Return the description of the form of a path.

    Args:
        task: "transcribe" or "translate".

    Returns:
        The request body in the form of OpenAPI.
    """
    known = {**COMMON, **(TRANSCRIPTIONS if task == "transcribe" else {})}
    properties = {name: {**schema, "description": text} for name, (schema, text) in known.items()}
    descriptions = documented_fields(wb.Options)
    for field in fields(wb.Options):
        if field.name not in (*FIXED, *properties, "languages"):
            properties[field.name] = {**TEXT, "description": descriptions[field.name]}
    for name, text in documented_fields(SubtitleOptions).items():
        if name in LAYOUT:
            properties[name] = {**TEXT, "description": f"With {' or '.join(SUBTITLES)}: {text}"}
    schema = {"type": "object", "required": ["file"], "properties": properties}
    return {
        "requestBody": {"required": True, "content": {"multipart/form-data": {"schema": schema}}}
    }
