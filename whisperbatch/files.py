"""Write files completely or not at all: under a temporary name, then renamed.

a.srt                                  the old file, until the new file is complete
.whisperbatch-5bd2-71-9c0e41d2.tmp     the new file while it is written. If the process is killed,
                                       the file stays; the next write of a.srt deletes the file

Files of a cache (`new_file`) have other temporary names, and are deleted after an hour.
"""

import errno
import hashlib
import os
import secrets
import stat
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Final

from whisperbatch.errors import WriteError

MAX_WRITE_AGE: Final = 3600  # seconds since the last write: older .part files are abandoned
BLOCK: Final = 1 << 20  # bytes that are read at a time
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

    Raises:
        WriteError: disk full, no permission, no such directory, or the path is not a regular file.
            The old file is unchanged, and no temporary file remains.
    """
    try:
        target = Path(os.path.realpath(path))
        mode = _mode_of_old(target)
        prefix = f".whisperbatch-{zlib.crc32(os.fsencode(target.name)):x}-"
        delete_old(target.parent, f"{prefix}*.tmp", ABANDONED_AFTER)
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


def delete_old(folder: Path, pattern: str, max_age: float) -> None:
    """Delete the files of a folder that match a pattern and were changed `max_age` seconds ago."""
    for path in folder.glob(pattern):
        with suppress(OSError):  # another process has deleted the file
            if time.time() - path.stat().st_mtime > max_age:
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


@contextmanager
def new_file(target: Path, digest: str) -> Iterator[BinaryIO]:
    """Write a file of a cache under a temporary name; then flush it to the disk, and rename it.

    A reader always sees a complete file. Processes that write the same file write the same content.
    If the `with` block fails, no file remains.

    Args:
        target: of the file; its folder is created.
        digest: first digits of the SHA-256 that the file will have.

    Raises:
        OSError: the folder is not writable.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    delete_old(target.parent, ".*.part", MAX_WRITE_AGE)
    scratch = target.with_name(f".{target.name}.{secrets.token_hex(4)}.part")
    try:
        with scratch.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        try:
            scratch.replace(target)
        except OSError:  # Windows: another process wrote the same file and reads it
            if not target.is_file() or not sha256(target).startswith(digest):
                raise
    finally:
        scratch.unlink(missing_ok=True)


def sha256(path: Path) -> str:
    """Return the SHA-256 of a file."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(BLOCK):
            digest.update(block)
    return digest.hexdigest()
