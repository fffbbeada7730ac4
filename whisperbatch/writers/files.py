"""Write files completely or not at all: under a temporary name, then renamed.

a.srt                                  the old file, until the new file is complete
.whisperbatch-5bd2-71-9c0e41d2.tmp     the new file while it is written. If the process is killed,
                                       the file stays; the next write of a.srt deletes the file
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

ABANDONED_AFTER: Final = 60.0
"""Seconds after which a temporary file is deleted; writing a transcript takes a few hundredths."""


def make_folder(folder: Path) -> None:
    """Create a directory and its parents; a directory that exists is left as it is.

    Raises:
        WriteError: the directory cannot be created.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:
        raise write_error(folder, "the directory cannot be created", error) from error


def write_error(path: str | os.PathLike[str], problem: str, error: Exception) -> WriteError:
    """Return the error that states the path, the problem and the reason on one line.

    Args:
        path: of a file or directory.
        problem: what cannot be done.
        error: an OSError, or the ValueError of a path that contains a NUL.
    """
    reason = (isinstance(error, OSError) and error.strerror) or error
    return WriteError(" ".join(f"{os.fspath(path)}: {problem}: {reason}".splitlines()))


def write_atomically(path: str | os.PathLike[str], data: bytes) -> Path:
    """Write a file so that readers see either the complete old file or the complete new file.

    The new file is created in the same directory and is on the disk before it replaces the old
    file. The new file has the permissions of the old file; without an old file, those that the
    umask allows. If the path is a symbolic link, the link stays and its target is replaced.

    Returns:
        The path.

    Raises:
        WriteError: disk full, no permission, no such directory, or the path is not a regular file.
            The old file is unchanged, and no temporary file remains.
    """
    try:
        target = Path(os.path.realpath(path))
        mode = _mode_of_old(target)
        prefix = f".whisperbatch-{zlib.crc32(os.fsencode(target.name)):x}-"
        _delete_abandoned(target.parent, prefix)
        temporary = target.with_name(f"{prefix}{os.getpid()}-{secrets.token_hex(4)}.tmp")
        try:
            write_through(temporary, data)
            if mode is not None:
                temporary.chmod(mode)
            temporary.replace(target)
        finally:
            with suppress(OSError):  # already renamed, or never created
                temporary.unlink()
        _sync_directory(target.parent)
    except (OSError, ValueError) as error:
        raise write_error(path, "cannot be written", error) from error
    return Path(path)


def _mode_of_old(target: Path) -> int | None:
    """Return the permissions of the file that is replaced; None if there is no file.

    Raises:
        OSError: the path is not a regular file, or the file is not writable.
    """
    try:
        mode = target.stat().st_mode
    except FileNotFoundError:
        return None
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not stat.S_ISREG(mode):  # a device or a pipe, which must not be replaced
        raise OSError(errno.EINVAL, "Is not a file")
    if not os.access(target, os.W_OK):  # renaming needs only permission for the directory
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    return stat.S_IMODE(mode)


def _delete_abandoned(directory: Path, prefix: str) -> None:
    """Delete temporary files of processes that died while they wrote the same file."""
    for path in directory.glob(f"{prefix}*.tmp"):
        with suppress(OSError):  # another process has deleted the file
            if time.time() - path.stat().st_mtime > ABANDONED_AFTER:
                path.unlink()


def write_through(path: Path, data: bytes, *, private: bool = False) -> None:
    """Create a file and wait until its content is on the disk.

    Args:
        path: of the file.
        data: its content.
        private: only the user may read the file (mode 0600).
    """
    if private:
        path.touch(0o600, exist_ok=False)
    with path.open("wb" if private else "xb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _sync_directory(directory: Path) -> None:
    """Write the new file name to the disk, if the system supports this."""
    with suppress(OSError):  # Windows cannot open a directory; some file systems cannot sync it
        descriptor = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
