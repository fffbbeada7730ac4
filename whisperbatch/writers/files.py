"""Files that are whole or not there: written under another name, then renamed into place.

a.srt                                  whole: the old one until it is the new one
.whisperbatch-5bd2-71-9c0e41d2.tmp     being written, or left by a process that was killed: the
                                       next one to write a.srt deletes it
"""

import errno
import os
import secrets
import stat
import time
import zlib
from contextlib import suppress
from pathlib import Path
from typing import Final

from whisperbatch.errors import WriteError

LEFT: Final = 60.0  # seconds after the last write: writing a transcript takes a few hundredths


def make_folder(folder: Path) -> None:
    """Make a directory and those that it lies in; one that is there will do.

    Raises:
        WriteError: it cannot be made.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise WriteError(f"{folder}: cannot be made: {error.strerror or error}") from error


def write_text_atomically(path: str | os.PathLike[str], text: str) -> Path:
    """Write a text in UTF-8, its line breaks as they are; otherwise as `write_atomically`."""
    return write_atomically(path, text.encode())


def write_atomically(path: str | os.PathLike[str], data: bytes) -> Path:
    """Write a file, so that whoever reads it reads all of the old one or all of the new one.

    The new file is on the disk before it takes the old one's place, in the same directory. It has
    the old one's mode, or what the umask leaves. A link stays, and what it leads to is replaced.

    Returns:
        The path.

    Raises:
        WriteError: no room, no permission, no such directory, or something else than a file in
            the way. The old file is as it was, and nothing is left beside it.
    """
    try:
        target = Path(os.path.realpath(path))
        mode = _mode_of_old(target)
        start = f".whisperbatch-{zlib.crc32(os.fsencode(target.name)):x}-"
        _sweep(target.parent, start)
        scratch = target.with_name(f"{start}{os.getpid()}-{secrets.token_hex(4)}.tmp")
        try:
            _write_through(scratch, data)
            if mode is not None:
                scratch.chmod(mode)
            scratch.replace(target)
        finally:
            with suppress(OSError):  # it is in its place, or was never made
                scratch.unlink()
        _sync_directory(target.parent)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        reason = (isinstance(error, OSError) and error.strerror) or error
        message = f"{os.fspath(path)}: cannot be written: {reason}"
        raise WriteError(" ".join(message.splitlines())) from error
    return Path(path)


def _mode_of_old(target: Path) -> int | None:
    """The permissions of the file that is replaced; None where there is none.

    Raises:
        OSError: something else than a file is there, or a file that may not be written.
    """
    try:
        mode = target.stat().st_mode
    except FileNotFoundError:
        return None
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not stat.S_ISREG(mode):  # a device or a pipe, which must not be renamed away
        raise OSError(errno.EINVAL, "Is not a file")
    if not os.access(target, os.W_OK):  # renaming would ask the directory alone
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    return stat.S_IMODE(mode)


def _sweep(directory: Path, start: str) -> None:
    """Delete what processes that died while writing the same file have left."""
    for path in directory.glob(f"{start}*.tmp"):
        with suppress(OSError):  # another process was faster
            if time.time() - path.stat().st_mtime > LEFT:
                path.unlink()


def _write_through(path: Path, data: bytes) -> None:
    """Make a file, and return when it is on the disk."""
    with path.open("xb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _sync_directory(directory: Path) -> None:
    """Put the new name on the disk, where the system can."""
    with suppress(OSError):  # Windows opens no directory, and some file systems cannot sync one
        descriptor = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
