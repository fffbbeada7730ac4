"""Compiled OpenVINO graphs, with a cache on disk.

    cache/openvino/3f9a....blob     the compiled graph as OpenVINO exports it, and a checksum

A cached graph is named after everything that it depends on, also OpenVINO's version and the
processor. Without a cache folder, or if the folder is not writable, graphs are compiled each time.

A cached graph is mapped into memory, not read. OpenVINO copies the weights into the order in which
it computes, and also keeps the weights of the file. With a mapped file, the latter take no memory
unless OpenVINO computes with them: the operating system reads them again when they are needed.
"""

import hashlib
import logging
import mmap
import os
import secrets
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import numpy as np

from whisperbatch.errors import ModelError
from whisperbatch.models.packages import default_cache

FORMAT: Final = 2  # of the files
CHECKSUM_BYTES: Final = 32  # at the end of a file
MAX_UNUSED_SECONDS: Final = 30 * 86400  # a cached graph that was not read for longer is deleted
MAX_WRITING_SECONDS: Final = 3600  # an unfinished file that is older belongs to a killed process

_MAPPED: Final[dict[bytes, mmap.mmap]] = {}
"""Files in use, by checksum. They stay mapped until the process ends: OpenVINO does not say until
when it reads them. They take address space, but no memory."""

log = logging.getLogger(__name__)


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
    if _write(path, compiled) and (cached := _read(core, path, settings)) is not None:
        return cached  # which takes less memory
    return compiled


def _path(core: Any, folder: Path, key: object, settings: Mapping[str, Any]) -> Path:  # noqa: ANN401
    """Return the file of a graph in the cache."""
    import openvino  # noqa: PLC0415 - an extra

    properties = ("FULL_DEVICE_NAME", "OPTIMIZATION_CAPABILITIES")
    processor = [core.get_property("CPU", name) for name in properties]
    text = repr((FORMAT, key, dict(settings), processor, openvino.get_version()))
    return folder / f"{hashlib.blake2b(text.encode(), digest_size=16).hexdigest()}.blob"


def _read(core: Any, path: Path, settings: Mapping[str, Any]) -> Any:  # noqa: ANN401 - as above
    """Return the compiled graph in the cache, or None if it is missing or cannot be used."""
    try:
        mapped = _map(path)
    except OSError:
        return None
    if mapped is None:
        log.warning("%s: is damaged; the graph is compiled again", path)
        with suppress(OSError):  # as below
            path.unlink()
        return None
    with suppress(OSError):  # the cache is read-only
        os.utime(path)
    import openvino  # noqa: PLC0415 - an extra

    blob = np.frombuffer(mapped, np.uint8, len(mapped) - CHECKSUM_BYTES)
    try:
        return core.import_model(openvino.Tensor(blob, shared_memory=True), "CPU", dict(settings))
    except RuntimeError as error:
        log.info("%s: OpenVINO cannot read it; the graph is compiled again: %s", path, error)
        return None
    finally:
        return_mapped_memory()


def return_mapped_memory() -> None:
    """Return the memory of mapped files. OpenVINO's later reads get it from the files again."""
    if sys.platform == "linux":
        for mapped in list(_MAPPED.values()):
            mapped.madvise(mmap.MADV_DONTNEED)


def _map(path: Path) -> mmap.mmap | None:
    """Return a mapped file, or None if it is damaged.

    Raises:
        OSError: the file is missing or cannot be read.
    """
    with path.open("rb") as file:
        try:
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
        except ValueError:  # the file is empty
            return None
    with memoryview(mapped) as content:
        checksum = bytes(content[-CHECKSUM_BYTES:])
        if _checksum(content[:-CHECKSUM_BYTES]) != checksum:
            return None
    return _MAPPED.setdefault(checksum, mapped)


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
        _delete_old_files(path.parent)
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
        temporary.replace(path)


def _delete_old_files(folder: Path) -> None:
    """Delete graphs that were not used for long, and unfinished files of killed processes."""
    now = time.time()
    for pattern, max_age in (("*.blob", MAX_UNUSED_SECONDS), (".*.part", MAX_WRITING_SECONDS)):
        for path in folder.glob(pattern):
            with suppress(OSError):  # another process has deleted the file
                if now - path.stat().st_mtime > max_age:
                    path.unlink()
