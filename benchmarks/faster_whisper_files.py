"""Lets faster-whisper open files with PyAV 19, to compare with.

faster-whisper 1.2.1 calls `av.open` with `metadata_errors`, a parameter that PyAV 19 does not have:
every path and every file raises TypeError. Arrays of samples work.
"""

from importlib import import_module
from types import ModuleType
from typing import Any

import av

from whisperbatch.audio.track import open_ignoring_metadata


def let_faster_whisper_open_files() -> None:
    """Replace `av.open` in faster-whisper's own module only. Safe to call twice."""
    module = import_module("faster_whisper.audio")

    def open_file(file: object, **_: object) -> Any:  # noqa: ANN401 - PyAV's container
        return open_ignoring_metadata(file, {})

    replacement = ModuleType("av")
    vars(replacement).update({**vars(av), "open": open_file})
    module.__dict__["av"] = replacement
