"""Helpers of faster-whisper that handle data and do not transcribe: its own functions and classes.

Programs import tokenizer, feature extractor and small functions from faster-whisper's modules. The
modules of the drop-in return the originals. They are imported at their first use, because importing
faster-whisper takes long.
"""

from collections.abc import Container
from importlib import import_module
from typing import Any


def reexported(module: str, names: Container[str], name: str) -> Any:  # noqa: ANN401 - untyped
    """Return a name of one of faster-whisper's modules, for a module's `__getattr__`.

    Args:
        module: name of the module below `faster_whisper`.
        names: the names that the drop-in's module of the same name returns.
        name: the attribute to return.

    Raises:
        AttributeError: `name` is none of `names`.
    """
    if name not in names:
        raise AttributeError(f"module {__package__}.{module} has no attribute {name!r}")
    return getattr(import_module(f"faster_whisper.{module}"), name)
