"""Recordings in any store: their versions, and opening them by range reads.

"/talks/a.mp3"          FFmpeg opens the path
"s3://talks/a.mp3"      FFmpeg reads a `StoredFile`, which requests ranges of the object
"""

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from typing import Any, Final

from fsspec.implementations.memory import MemoryFileSystem

from whisperbatch.addresses import without_secrets
from whisperbatch.audio.file_objects import FileObject
from whisperbatch.audio.track import Track
from whisperbatch.boundary import describe, hide_secrets
from whisperbatch.errors import AudioError
from whisperbatch.jobs.inputs import PROBE_RANGE
from whisperbatch.jobs.plans.stores import MEMORY_LOCK, file_system, is_local

ETAGS: Final = ("ETag", "etag")
TIMES: Final = ("mtime", "LastModified", "last_modified", "Last-Modified", "updated", "created")
"""Names that file systems have for the time of the last change. The first that is there is used."""

READ_RANGE: Final = 2**22  # about ten minutes of speech at 64 kbit/s


class StoreError(AudioError):
    """A recording cannot be read now, because its store fails. A later attempt may succeed."""


class StoredFile:
    """An open object of a store, as FFmpeg reads it. Its position belongs to this object alone.

    Attributes:
        name: URI of the recording, without passwords and signatures.
        failure: the first exception of the store; None if there was none.
    """

    def __init__(self, uri: str, file: Any, size: int | None, lock: Any) -> None:  # noqa: ANN401 - of fsspec
        self.name = without_secrets(uri, whole=True)
        self.failure: Exception | None = None
        self._file = file
        self._size = size
        self._lock = lock
        self._position = 0

    def read(self, size: int) -> bytes:
        """Return up to `size` bytes."""
        try:
            with self._lock:
                if self._size is not None:
                    self._file.seek(self._position)
                data = bytes(self._file.read(size))
        except Exception as error:
            self.failure = self.failure or error
            raise
        self._position += len(data)
        return data

    def seek(self, offset: int, whence: int = 0) -> int:
        """Set the position and return it."""
        start = {0: 0, 1: self._position, 2: self._size or 0}[whence]
        self._position = max(start + offset, 0)
        return self._position

    def tell(self) -> int:
        """Return the position."""
        return self._position

    def seekable(self) -> bool:
        """Whether the store knows the size of the object, and so reads ranges."""
        return self._size is not None


def version_of(uri: str) -> str:
    """Return a text that changes when the recording changes: its ETag, or its size and time.

    Raises:
        AudioError: there is no such recording, or it is empty or a directory.
        StoreError: the store does not answer.
        MissingExtraError: the package for this kind of URL is not installed.
    """
    return _version(_info(uri))


@contextmanager
def open_recording(uri: str, version: str | None, *, read_range: int) -> Iterator[str | StoredFile]:
    """Open a recording for FFmpeg, for the time of a `with` block.

    Args:
        uri: a path or a URL.
        version: of `version_of` when the plan was made; None to accept any.
        read_range: bytes that are requested at a time.

    Yields:
        The path of a local recording; otherwise an open file.

    Raises:
        AudioError: see `version_of`; or the recording has changed, before the block or in it.
        StoreError: the store fails. Errors inside the block are converted, too.
    """
    try:
        with _open(uri, _check_info(uri, version), read_range) as source:
            yield source
    except AudioError:
        if version is not None:  # a change is the cause, for example of a header without sound
            _check_info(uri, version)
        raise
    if version is not None:
        _check_info(uri, version)


def _check_info(uri: str, version: str | None) -> Mapping[str, Any]:
    info = _info(uri)
    if version is not None and _version(info) != version:
        raise AudioError("has changed since the plan was made; make the plan again", source=uri)
    return info


@contextmanager
def _open(uri: str, info: Mapping[str, Any], read_range: int) -> Iterator[str | StoredFile]:
    system, path = file_system(uri)
    if is_local(system):
        yield path
        return
    lock = MEMORY_LOCK if isinstance(system, MemoryFileSystem) else threading.Lock()
    try:
        file = system.open(path, "rb", block_size=read_range)
    except Exception as error:
        raise _store_error(uri, error) from error
    try:
        size = getattr(file, "size", info.get("size"))  # None: a server without ranges
        stored = StoredFile(uri, file, size if isinstance(size, int) else None, lock)
        try:
            yield stored
        except Exception as error:
            if stored.failure is None:
                raise
            raise _store_error(uri, stored.failure) from error
    finally:
        if not isinstance(system, MemoryFileSystem):  # its open file is the object itself
            file.close()


def probe_duration(uri: str, track: int | None) -> float:
    """Return the duration of a recording in seconds, from its header if it states a duration.

    Raises:
        AudioError: the recording cannot be read, or has no such track.
        StoreError: the store fails.
    """
    with open_recording(uri, None, read_range=PROBE_RANGE) as source:
        name = without_secrets(uri, whole=True)
        file = source if isinstance(source, str) else FileObject(name, source)
        opened_track = Track(name, file, track)
        try:
            return opened_track.duration or _last_time(opened_track)
        finally:
            opened_track.close()


def _last_time(track: Track) -> float:
    """Return the end of the last packet, in seconds. This reads the whole recording."""
    end = 0.0
    for packet in track.packets():
        if packet.pts is not None and packet.time_base:
            time = float((packet.pts + (packet.duration or 0)) * packet.time_base)
            end = max(end, time - track.start)
    return end


def _info(uri: str) -> Mapping[str, Any]:
    system, path = file_system(uri)
    try:
        system.invalidate_cache(path)
        info: Mapping[str, Any] = system.info(path)
    except (ValueError, OSError) as error:  # ValueError: a NUL in the path
        if is_local(system) and not isinstance(error, FileNotFoundError):
            hide_secrets(error)
            raise AudioError(f"cannot be opened: {describe(error)}", source=uri) from error
        raise _store_error(uri, error) from error
    except Exception as error:
        raise _store_error(uri, error) from error
    if info.get("type") == "directory":
        raise AudioError("is a directory; give the files in it", source=uri)
    if info.get("type") == "file" and info.get("size") == 0:
        raise AudioError("is empty; check whether it is still being written", source=uri)
    return info


def _version(info: Mapping[str, Any]) -> str:
    for name in ETAGS:
        if info.get(name):
            return f"etag {str(info[name]).strip(chr(34))}"
    time = next((info[name] for name in TIMES if info.get(name) is not None), "unknown")
    return f"size {info.get('size')}, time {_text_of_time(time)}"


def _text_of_time(time: object) -> str:
    return time.isoformat() if isinstance(time, datetime) else str(time)


def _store_error(uri: str, error: Exception) -> AudioError:
    """Return the error of a store: final if the recording is missing or forbidden."""
    hide_secrets(error)
    if isinstance(error, FileNotFoundError):
        return AudioError("there is no such file; check the path", source=uri)
    if isinstance(error, PermissionError):
        return AudioError(f"cannot be opened: {describe(error)}", source=uri)
    return StoreError(f"cannot be read now: {describe(error)}", source=uri)
