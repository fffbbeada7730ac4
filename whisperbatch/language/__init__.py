"""Detects the language of a recording, and where the language changes."""

from whisperbatch.language.detection import decide
from whisperbatch.recording import Decision

__all__ = ["Decision", "decide"]
