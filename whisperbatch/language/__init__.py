"""Detects the language of a recording, and where the language changes."""

from whisperbatch.language.voting import Decision, decide

__all__ = ["Decision", "decide"]
