"""Written language: language codes, scripts, punctuation, control characters, messages."""

from whisperbatch.text.control_characters import escape_controls, escape_controls_in_json
from whisperbatch.text.languages import LANGUAGES, UNSPACED, check_language
from whisperbatch.text.messages import one_line, shown

__all__ = [
    "LANGUAGES",
    "UNSPACED",
    "check_language",
    "escape_controls",
    "escape_controls_in_json",
    "one_line",
    "shown",
]
