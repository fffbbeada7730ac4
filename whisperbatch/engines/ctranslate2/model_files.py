"""Model directories that CTranslate2 cannot use as they are.

CTranslate2's `align` fails if config.json does not list the alignment heads, as in models that were
converted before CTranslate2 3.23. CTranslate2 reads config.json itself, so it gets a temporary
directory with a complete config.json and links to the other files.
"""

import functools
import json
import logging
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from whisperbatch.models.files import read_json

log = logging.getLogger(__name__)

CONFIG: Final = "config.json"
LOADED_FILES: Final = ("model.bin", "vocabulary.json", "vocabulary.txt")
"""The files that CTranslate2 reads besides config.json."""

SUBSTITUTES: Final = {
    "suppress_ids": "lists no tokens to suppress",
    "suppress_ids_begin": "lists no tokens to suppress at the start of a text",
    "alignment_heads": (
        "lists no alignment heads of this decoder; times of words come from all heads of the upper "
        "half of the decoder's layers"
    ),
    "lang_ids": "lists no languages, or other tokens as languages; the tokenizer's are used",
}
"""The log message for each setting that is replaced."""


@contextmanager
def with_settings(directory: Path, settings: Mapping[str, Any]) -> Iterator[Path]:
    """Give a directory from which CTranslate2 loads a model with these settings.

    Without settings, the directory is used unchanged. Otherwise the `with` block gets a temporary
    directory, in which the settings replace those of config.json; it is deleted when the block
    ends. CTranslate2 keeps no file open.

    Args:
        directory: of the model.
        settings: see `ModelInfo.missing_settings`.

    Raises:
        ModelError: config.json cannot be read.
    """
    if not settings:
        yield directory
        return
    config = read_json(directory / CONFIG, dict)
    _log_once(directory, tuple(settings))
    with tempfile.TemporaryDirectory(
        prefix="whisperbatch-", ignore_cleanup_errors=True
    ) as temporary:
        complete = Path(temporary)
        for path in (directory / name for name in LOADED_FILES):
            if path.is_file():
                _link(path.resolve(), complete / path.name)
        (complete / CONFIG).write_text(json.dumps({**config, **settings}), encoding="utf-8")
        yield complete


@functools.cache
def _log_once(directory: Path, settings: tuple[str, ...]) -> None:
    for setting in settings:
        log.info("%s: %s", directory / CONFIG, SUBSTITUTES[setting])


def _link(source: Path, target: Path) -> None:
    """Make `source` available as `target`.

    Symbolic links need a privilege on Windows, hard links the same file system; a copy always works
    but takes time and space.
    """
    for link in (os.symlink, os.link):
        with suppress(OSError, NotImplementedError):
            link(source, target)
            return
    shutil.copyfile(source, target)
