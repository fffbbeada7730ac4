"""A store of small objects: a local folder, or a folder of any file system that fsspec opens.

    store.create("results/ab/abcd.json", data)   written only if there is no such object
    store.write("leases/ef01.0.json", data)      replaces an object
    store.names("results")                       the names of the objects in a folder

A reader never sees an object that is only partly written.
"""

import os
import re
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, TypeVar

import fsspec
from fsspec.implementations.local import LocalFileSystem
from fsspec.implementations.memory import MemoryFileSystem

from whisperbatch.boundary import describe, hide_secrets
from whisperbatch.errors import MissingExtraError, OptionError, WriteError
from whisperbatch.jobs.names import has_key
from whisperbatch.writers import write_through

T = TypeVar("T")

PAUSES: Final = (0.5, 2.0, 8.0, 30.0, 60.0)  # seconds before a failed request is sent again
FINAL_ERRORS: Final = (FileNotFoundError, FileExistsError, PermissionError, IsADirectoryError)
"""Errors that a further attempt does not change."""

TEMPORARY: Final = re.compile(r"\..*-\d+-[0-9a-f]{8}\.tmp")
ABANDONED_AFTER: Final = 3600.0
"""Seconds after which a temporary file is deleted; clocks of machines may differ by minutes."""

PACKAGES: Final = {
    **dict.fromkeys(("http", "https"), "aiohttp"),
    **dict.fromkeys(("s3", "s3a"), "s3fs"),
    **dict.fromkeys(("gs", "gcs"), "gcsfs"),
    **dict.fromkeys(("abfs", "abfss", "az"), "adlfs"),
}
"""The packages with which fsspec opens these stores."""

MEMORY_LOCK: Final = threading.RLock()
"""Held for each operation on memory://, whose open files share one position."""


def file_system(uri: str) -> tuple[Any, str]:
    """Return the fsspec file system of a URI and the path in it.

    Args:
        uri: a local path, or a URL such as "s3://bucket/folder".

    Raises:
        MissingExtraError: the package for this kind of URL is not installed.
        OptionError: fsspec knows no such kind of URL, or refuses its settings.
    """
    if "://" not in uri:
        return LocalFileSystem(), Path(os.path.abspath(uri)).as_posix()  # noqa: PTH100 - links stay
    try:
        if "::" in uri and has_key(uri):  # else fsspec takes it for two URLs
            kind = fsspec.get_filesystem_class(uri.partition("://")[0])
            return kind(**kind._get_kwargs_from_urls(uri)), str(kind._strip_protocol(uri))  # noqa: SLF001 - as `url_to_fs`
        system, path = fsspec.core.url_to_fs(uri)
    except ImportError as error:
        hide_secrets(error)
        package = PACKAGES.get(uri.partition("://")[0])
        remedy = f"pip install {package}" if package else describe(error)
        raise MissingExtraError(
            f"{uri}: the package for this store is missing: {remedy}"
        ) from error
    except ValueError as error:
        hide_secrets(error)
        raise OptionError(f"{uri}: {describe(error)}") from error
    return system, str(path)


def is_local(system: object) -> bool:
    """Return whether a file system is the local one."""
    return isinstance(system, LocalFileSystem)


class Store:
    """A folder of small objects. Thread-safe.

    A request that fails is sent again after `PAUSES`. With a store that has no exclusive creation,
    two processes that create one object at the same time may both succeed; the object of the last
    one stays.

    Args:
        uri: of the folder: a local path or a URL. It need not exist.

    Raises:
        MissingExtraError: the package for this kind of URL is not installed.
        OptionError: fsspec knows no such kind of URL.
    """

    def __init__(self, uri: str) -> None:
        self.uri = uri.rstrip("/")
        self._system, root = file_system(uri)
        self._root = root.rstrip("/")
        self._local = is_local(self._system)
        self._lock = MEMORY_LOCK if isinstance(self._system, MemoryFileSystem) else None
        self._sleep: Callable[[float], object] = time.sleep

    def read(self, name: str) -> bytes | None:
        """Return the content of an object; None if there is no such object.

        Raises:
            WriteError: the store cannot be read.
        """
        return self._retry(name, "read", lambda: self._read(name))

    def exists(self, name: str) -> bool:
        """Return whether there is such an object.

        Raises:
            WriteError: the store cannot be read.
        """
        return self._retry(name, "read", lambda: self._exists(name))

    def write(self, name: str, data: bytes, *, private: bool = False) -> None:
        """Write an object; an object of this name is replaced.

        Args:
            name: of the object.
            data: its content.
            private: only the user may read the file (mode 0600). Other stores than local folders
                have their own rules.

        Raises:
            WriteError: the object cannot be written.
        """
        self._retry(name, "written", lambda: self._write(name, data, private=private))

    def create(self, name: str, data: bytes) -> bool:
        """Write an object if there is none of this name. Return whether it was written.

        An object that exists stays, even if the store ignores the condition of the request, as
        some servers of S3 do. Only then two processes at the same moment may both succeed.

        Raises:
            WriteError: the object cannot be written, or cannot be read after a failed attempt.
        """
        attempts = 0

        def create() -> bool:
            nonlocal attempts
            attempts += 1
            try:
                self._create(name, data)
            except FileExistsError:
                return False
            return True

        if self._retry(name, "written", create):
            return True
        # an attempt that seemed to fail may have written the object
        return attempts > 1 and self.read(name) == data

    def delete(self, name: str) -> None:
        """Delete an object. An object that does not exist is not an error.

        Raises:
            WriteError: the object cannot be deleted.
        """
        self._retry(name, "deleted", lambda: self._delete(name))

    def names(self, folder: str) -> frozenset[str]:
        """Return the names of all objects in a folder and its subfolders, without the folder.

        Raises:
            WriteError: the store cannot be read.
        """
        return self._retry(folder, "listed", lambda: frozenset(self._names(folder)))

    def delete_abandoned(self) -> None:
        """Delete the temporary files of processes that died while they wrote an object."""
        if not self._local:
            return
        for path in Path(self._root).rglob(".*.tmp"):
            with suppress(OSError):  # another process has deleted the file
                is_old = time.time() - path.stat().st_mtime > ABANDONED_AFTER
                if is_old and TEMPORARY.fullmatch(path.name):
                    path.unlink()

    def _retry(self, name: str, verb: str, call: Callable[[], T]) -> T:
        """Return the result of a call, which is repeated if it fails."""
        for pause in (*(() if self._local else PAUSES), None):
            try:
                if self._lock is None:
                    return call()
                with self._lock:
                    return call()
            except Exception as error:
                if pause is None or isinstance(error, FINAL_ERRORS):
                    hide_secrets(error)
                    problem = f"cannot be {verb}: {describe(error)}"
                    raise WriteError(f"{self.uri}/{name}: {problem}") from error
                self._sleep(pause)
        raise AssertionError  # the last pass returns or raises

    def _path(self, name: str) -> str:
        return f"{self._root}/{name}" if name else self._root

    def _read(self, name: str) -> bytes | None:
        try:
            return bytes(self._system.cat_file(self._path(name)))
        except FileNotFoundError:
            return None

    def _exists(self, name: str) -> bool:
        self._system.invalidate_cache(self._root)
        return bool(self._system.exists(self._path(name)))

    def _write(self, name: str, data: bytes, *, private: bool) -> None:
        if self._local:
            _write_local(Path(self._path(name)), data, Path.replace, private=private)
        else:
            self._system.pipe_file(self._path(name), data)

    def _create(self, name: str, data: bytes) -> None:
        if self._local:
            _write_local(Path(self._path(name)), data, _move_to_free_name)
        elif self._exists(name):
            raise FileExistsError(name)
        else:
            self._system.pipe_file(self._path(name), data, mode="create")

    def _delete(self, name: str) -> None:
        with suppress(FileNotFoundError):
            self._system.rm_file(self._path(name))

    def _names(self, folder: str) -> Iterator[str]:
        self._system.invalidate_cache(self._root)
        root = self._path(folder)
        for path in self._system.find(root):
            name = str(path).removeprefix(root).lstrip("/")
            if not name.rpartition("/")[2].startswith("."):  # a file that is being written
                yield name


def _write_local(
    target: Path, data: bytes, move: Callable[[Path, Path], object], *, private: bool = False
) -> None:
    """Write a file under a temporary name, wait for the disk, and give it its name."""
    temporary = target.with_name(f".{target.name[:100]}-{os.getpid()}-{secrets.token_hex(4)}.tmp")
    try:
        try:
            write_through(temporary, data, private=private)
        except FileNotFoundError:
            target.parent.mkdir(parents=True, exist_ok=True)
            write_through(temporary, data, private=private)
        move(temporary, target)
    finally:
        with suppress(FileNotFoundError):  # renamed
            temporary.unlink()


def _move_to_free_name(temporary: Path, target: Path) -> None:
    """Give a file a name that no file has.

    Raises:
        FileExistsError: a file has this name.
    """
    try:
        os.link(temporary, target)
    except FileExistsError:
        raise
    except OSError as error:  # a file system without hard links
        if os.path.lexists(target):
            raise FileExistsError(str(target)) from error
        temporary.rename(target)
