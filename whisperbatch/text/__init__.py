"""Written language: language codes, scripts and punctuation."""

from whisperbatch.text.languages import LANGUAGES, UNSPACED, check_language

__all__ = ["LANGUAGES", "UNSPACED", "check_language"]
