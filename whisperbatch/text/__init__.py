"""Written language: language codes, scripts, punctuation, control characters, messages."""

from whisperbatch.text.language_names import given_language
from whisperbatch.text.languages import LANGUAGES, UNSPACED
from whisperbatch.text.messages import (
    brief,
    brief_name,
    counted,
    description,
    escape_controls,
    escape_controls_in_json,
    one_line,
    short_repr,
    shown,
)

__all__ = [
    "LANGUAGES",
    "UNSPACED",
    "brief",
    "brief_name",
    "counted",
    "description",
    "escape_controls",
    "escape_controls_in_json",
    "given_language",
    "one_line",
    "short_repr",
    "shown",
]
