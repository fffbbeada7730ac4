"""faster-whisper's tokenizer: the original class, for programs that import it."""

from typing import Any, Final

from whisperbatch.compat.faster_whisper._reexports import reexported

ORIGINALS: Final = ("Tokenizer", "_LANGUAGE_CODES", "_TASKS")


def __getattr__(name: str) -> Any:  # noqa: ANN401 - untyped
    return reexported("tokenizer", ORIGINALS, name)
