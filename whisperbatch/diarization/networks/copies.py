"""Networks in the cache, whose names have the first digits of their SHA-256.

    segmentation-5d0ae44f82ba6e1c.onnx       complete
    .segmentation.onnx.1a2b3c4d.part         being written

A file with another SHA-256 is damaged. Several processes may write at the same time: each writes
complete files, whose names tell whether they are right.
"""

import hashlib
import logging
import os
import secrets
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

log = logging.getLogger(__name__)

MAX_WRITE_AGE: Final = 3600  # seconds since the last write: older .part files are abandoned
DIGITS: Final = 16  # of the SHA-256 in the name


def copies(folder: Path, name: str) -> list[tuple[Path, bool]]:
    """Return the copies of this name, and whether each has the SHA-256 of its name."""
    found = []
    for path in sorted(folder.glob(f"{name}-*.onnx")):
        with suppress(FileNotFoundError):  # another process deleted a damaged copy
            found.append((path, path.stem == f"{name}-{sha256(path)[:DIGITS]}"))
    return found


def right_copy(folder: Path, name: str) -> Path | None:
    """Return a copy of this name; None if there is none. Delete damaged copies."""
    right = None
    for path, is_right in copies(folder, name):
        if is_right:
            right = path
            continue
        log.warning("diarization: %s is damaged; it is made again", path)
        path.unlink(missing_ok=True)
    return right


def write_copy(folder: Path, name: str, content: bytes) -> Path:
    """Write a copy under a temporary name, flush it to the disk, and rename it.

    A reader always sees a complete file. Two processes that write the same file write the same
    content.

    Raises:
        OSError: the folder is not writable.
    """
    digest = hashlib.sha256(content).hexdigest()[:DIGITS]
    target = folder / f"{name}-{digest}.onnx"
    folder.mkdir(parents=True, exist_ok=True)
    for path in folder.glob(".*.part"):
        with suppress(OSError):  # another process deleted the file
            if time.time() - path.stat().st_mtime > MAX_WRITE_AGE:
                path.unlink()
    scratch = target.with_name(f".{name}.onnx.{secrets.token_hex(4)}.part")
    try:
        with scratch.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        try:
            scratch.replace(target)
        except OSError:  # Windows: another process wrote the same file and reads it
            if not target.is_file():
                raise
    finally:
        scratch.unlink(missing_ok=True)
    return target


def sha256(path: Path) -> str:
    """Return the SHA-256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()
