"""Which requests find the speakers of a recording.

diarize=true, and an answer that shows speakers        yes
response_format=diarized_json                          yes
model=gpt-4o-transcribe-diarize                        yes, with srt, vtt and verbose_json
response_format=json                                   no: the answer would not show the speakers
"""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import whisperbatch as wb
from whisperbatch.options import NO_SPEAKERS
from whisperbatch.server.errors import invalid

DIARIZED: Final = "diarized_json"
WITHOUT_SPEAKERS: Final = "json"
MODELS: Final = re.compile(r"gpt-4o-transcribe-diarize(-\d{4}-\d\d-\d\d)?")
"""The names of OpenAI's models that find speakers."""


def with_speaker_options(
    changes: Mapping[str, Any],
    defaults: wb.Options,
    *,
    model: str,
    response_format: str,
    stream: bool,
) -> tuple[wb.Options, dict[str, Any]]:
    """Decide whether a request finds the speakers.

    Args:
        changes: the options that the fields of the request set.
        defaults: the server's options.
        model: name of the model, as the client gave it.
        response_format: form of the answer.
        stream: whether the answer is a stream of events.

    Returns:
        The server's options, without those for speakers if the request finds none; and the changes,
        with `diarize` if the request finds speakers without this field.

    Raises:
        ApiError: `diarize` contradicts the form of the answer.
    """
    given = changes.get("diarize")
    if response_format == DIARIZED:
        if given is False:
            raise invalid(
                f"response_format={DIARIZED} needs speakers: leave out diarize", "diarize"
            )
        return defaults, {**changes, "diarize": True}
    if response_format == WITHOUT_SPEAKERS or (response_format == "text" and stream):
        if given:
            form = f"response_format={response_format}{' and stream=true' * stream}"
            raise invalid(
                f"diarize=true has no effect with {form}; use response_format={DIARIZED}", "diarize"
            )
        return without_speakers(defaults), dict(changes)
    if given is None and response_format != "text" and MODELS.fullmatch(model):
        return defaults, {**changes, "diarize": True}
    finds_speakers = defaults.diarize if given is None else given
    return defaults if finds_speakers else without_speakers(defaults), dict(changes)


def without_speakers(options: wb.Options) -> wb.Options:
    """Return options that find no speakers; the options for speakers have their defaults."""
    return replace(options, **NO_SPEAKERS)
