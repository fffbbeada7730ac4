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
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from whisperbatch.engines.layout import Layout, alignment_heads
from whisperbatch.errors import ModelError
from whisperbatch.models.model_bin import read_arrays

log = logging.getLogger(__name__)

CONFIG: Final = "config.json"
LOADED_FILES: Final = ("model.bin", "vocabulary.json", "vocabulary.txt")
"""The files that CTranslate2 reads besides config.json."""


@contextmanager
def with_alignment_heads(directory: Path) -> Iterator[Path]:
    """Give a directory from which CTranslate2 can load a model that aligns.

    A directory whose config.json lists the alignment heads is used unchanged. Otherwise the `with`
    block gets a temporary directory, in which config.json lists all heads of the upper half of the
    decoder's layers; it is deleted when the block ends. CTranslate2 keeps no file open.

    Args:
        directory: of the model.

    Raises:
        ModelError: a file of the model cannot be read.
    """
    config = _read_config(directory / CONFIG)
    if config.get("alignment_heads"):
        yield directory
        return
    heads = alignment_heads(_decoder_layout(directory / "model.bin"), config)
    _log_once(directory)
    with tempfile.TemporaryDirectory(
        prefix="whisperbatch-", ignore_cleanup_errors=True
    ) as temporary:
        complete = Path(temporary)
        for path in (directory / name for name in LOADED_FILES):
            if path.is_file():
                _link(path.resolve(), complete / path.name)
        (complete / CONFIG).write_text(
            json.dumps({**config, "alignment_heads": heads}), encoding="utf-8"
        )
        yield complete


@functools.cache
def _log_once(directory: Path) -> None:
    log.info(
        "%s: lists no alignment heads; times of words come from all heads of the upper half of the "
        "decoder's layers",
        directory / CONFIG,
    )


def _read_config(path: Path) -> dict[str, Any]:
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ModelError(f"{path}: cannot be read ({error}); download it again") from error
    if not isinstance(config, dict):
        raise ModelError(f"{path}: is damaged (not a JSON dict); download it again")
    return config


def _decoder_layout(path: Path) -> Layout:
    """Return the sizes of the decoder of a model.bin."""
    try:
        return Layout.from_arrays(read_arrays(path, "decoder/"), "decoder")
    except LookupError as error:
        raise ModelError(f"{path}: has no {error}; convert the model again") from error


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
