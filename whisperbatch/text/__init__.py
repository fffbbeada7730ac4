"""Written language: language codes, scripts, punctuation and control characters."""

from whisperbatch.text.control_characters import escape_controls, escape_controls_in_json
from whisperbatch.text.languages import LANGUAGES, UNSPACED, check_language

__all__ = [
    "LANGUAGES",
    "UNSPACED",
    "check_language",
    "escape_controls",
    "escape_controls_in_json",
]
