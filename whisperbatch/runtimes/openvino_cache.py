"""A cache on disk of the graphs that OpenVINO compiles.

    cache/openvino/3f9a....blob     the compiled graph as OpenVINO exports it, and a checksum

A cached graph is named after everything that it depends on, also OpenVINO's version and the
processor. Without a cache folder, or if the folder is not writable, graphs are compiled each time.

A cached graph is mapped into memory, not read. OpenVINO copies the weights into the order in which
it computes, and also keeps the weights of the file. With a mapped file, the latter take no memory
unless OpenVINO computes with them: the operating system reads them again when they are needed.

Do not delete the files of a cache on a network file system while a process of another machine uses
them: the other process would end at its next read.
"""

import hashlib
import logging
import os
import secrets
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from whisperbatch.errors import ModelError
from whisperbatch.files import MAX_WRITE_AGE, delete_old
from whisperbatch.models.model_bin import release_pages
from whisperbatch.models.packages import default_cache
from whisperbatch.runtimes.openvino_package import import_openvino

FORMAT: Final = 2  # of the files
CHECKSUM_BYTES: Final = 32  # at the end of a file
MAX_UNUSED_SECONDS: Final = 30 * 86400  # a cached graph that was not read for longer is deleted
TOUCH_SECONDS: Final = 86400  # after which a file in use is marked as used again


log = logging.getLogger(__name__)


class _Mapped(NamedTuple):
    """A file in use, and the time when it was last marked as used."""

    path: Path
    content: npt.NDArray[np.uint8]
    touched: float


_MAPPED: Final[dict[tuple[int, int], _Mapped]] = {}
"""Files in use, by device and inode. They stay mapped until the process ends: OpenVINO does not say
until when it reads them. They take address space, but no memory."""


def compiled_graphs_folder() -> Path | None:
    """Return the user's folder of compiled graphs; None if the user has no home directory."""
    try:
        return default_cache() / "openvino"
    except ModelError:
        return None


def load_compiled(
    core: Any,  # noqa: ANN401 - OpenVINO is not imported here
    folder: Path | None,
    key: object,
    settings: Mapping[str, Any],
    compile_graph: Callable[[], Any],
) -> Any:  # noqa: ANN401 - as above
    """Return a compiled graph: from the cache, otherwise compile it and write it there.

    A graph that was compiled is read from the cache at once, which takes less memory from then on.

    Args:
        core: OpenVINO's `Core`.
        folder: the cache's folder; None for no cache.
        key: its text identifies the graph.
        settings: of OpenVINO; also a part of the key.
        compile_graph: compiles the graph; called only if the cache does not hold the graph.
    """
    if folder is None:
        return compile_graph()
    path = _path(core, folder, key, settings)
    if (cached := _read(core, path, settings)) is not None:
        return cached
    log.info("compiling for this processor; later runs start faster", extra={"progress": True})
    compiled = compile_graph()
    if not _write(path, compiled):
        return compiled
    # The threads of the compiled graph serve the graph from the cache. If they were left without a
    # graph, the next graph of a child of a fork would get them, and wait for ever.
    del compiled
    cached = _read(core, path, settings)
    return compile_graph() if cached is None else cached


def _path(core: Any, folder: Path, key: object, settings: Mapping[str, Any]) -> Path:  # noqa: ANN401
    """Return the file of a graph in the cache."""
    openvino = import_openvino()
    properties = ("FULL_DEVICE_NAME", "OPTIMIZATION_CAPABILITIES")
    processor = [core.get_property("CPU", name) for name in properties]
    text = repr((FORMAT, key, dict(settings), processor, openvino.get_version()))
    return folder / f"{hashlib.blake2b(text.encode(), digest_size=16).hexdigest()}.blob"


def _read(core: Any, path: Path, settings: Mapping[str, Any]) -> Any:  # noqa: ANN401 - as above
    """Return the compiled graph in the cache, or None if it is missing or cannot be used."""
    try:
        with path.open("rb") as file:
            status = os.fstat(file.fileno())
            key = status.st_dev, status.st_ino
            mapped = _MAPPED.get(key) or _map(path, file)
    except FileNotFoundError:
        return None
    except OSError as error:
        log.info("%s: cannot be mapped; the graph is compiled again: %s", path, error)
        return None
    if mapped is None:
        log.warning("%s: is damaged; the graph is compiled again", path)
        _delete(path, status.st_ino)
        return None
    openvino = import_openvino()
    blob = mapped.content[:-CHECKSUM_BYTES]
    try:
        # this form of `Tensor` shares the memory of a read-only array
        tensor = openvino.Tensor(blob, list(blob.shape), openvino.Type.u8)
        compiled = core.import_model(tensor, "CPU", dict(settings))
    except RuntimeError as error:
        log.info("%s: OpenVINO cannot read it; the graph is compiled again: %s", path, error)
        _delete(path, status.st_ino)
        return None
    _MAPPED.setdefault(key, mapped)
    _touch(path)
    return_mapped_memory()
    return compiled


def return_mapped_memory() -> None:
    """Return the memory of mapped files. OpenVINO's later reads read the files again."""
    now = time.time()
    for key, mapped in list(_MAPPED.items()):
        release_pages(mapped.content)
        if now - mapped.touched > TOUCH_SECONDS:
            _touch(mapped.path)
            _MAPPED[key] = mapped._replace(touched=now)


def _map(path: Path, file: BinaryIO) -> _Mapped | None:
    """Return a mapped file, or None if it is damaged.

    Raises:
        OSError: the file cannot be mapped.
    """
    try:
        content = np.memmap(file, np.uint8, "r")
    except ValueError:  # the file is empty
        return None
    if _checksum(content[:-CHECKSUM_BYTES].data) != content[-CHECKSUM_BYTES:].tobytes():
        return None
    return _Mapped(path, content, time.time())


def _touch(path: Path) -> None:
    """Mark a file as used: see MAX_UNUSED_SECONDS."""
    with suppress(OSError):  # the cache is read-only
        os.utime(path)


def _delete(path: Path, inode: int) -> None:
    """Delete a file that cannot be used, unless another process has replaced it."""
    with suppress(OSError):  # as above
        if path.stat().st_ino == inode:
            path.unlink()


def _checksum(blob: bytes | memoryview) -> bytes:
    return hashlib.blake2b(blob, digest_size=CHECKSUM_BYTES).digest()


def _write(path: Path, compiled: Any) -> bool:  # noqa: ANN401 - as above
    """Write a compiled graph to the cache, through a temporary file; log a failure.

    Returns:
        Whether the graph is in the cache now.
    """
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        delete_old(path.parent, "*.blob", MAX_UNUSED_SECONDS)
        delete_old(path.parent, ".*.part", MAX_WRITE_AGE)
        try:
            with temporary.open("xb") as file:
                exported = compiled.export_model()
                blob = exported.getvalue() if hasattr(exported, "getvalue") else exported
                file.write(blob)
                file.write(_checksum(blob))
            _publish(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)
    except (OSError, RuntimeError) as error:  # RuntimeError: the graph cannot be exported
        log.info("%s: the compiled graph could not be written to the cache: %s", path, error)
        return False
    return True


def _publish(temporary: Path, path: Path) -> None:
    """Give a complete file its name, unless another process was faster.

    The other file may be mapped. On network file systems, a mapped file must not be replaced by
    another machine.
    """
    try:
        path.hardlink_to(temporary)
    except FileExistsError:
        return
    except OSError:  # the file system has no links
        if not path.exists():
            temporary.replace(path)
