"""Which languages are spoken in a recording, and where."""

from whisperbatch.language.voting import Decision, decide

__all__ = ["Decision", "decide"]
