"""Graphs made ready to run: compiled once, then read from disk.

    cache/openvino/3f9a....blob     a checksum, and what OpenVINO exports

A graph's file is named after all that it is made of: weights, the program that builds it,
precision, threads, OpenVINO's version and the processor. Without a cache, or with one that cannot
be written to, graphs are compiled each time.
"""

import hashlib
import logging
import os
import secrets
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

from whisperbatch.engines.openvino.graph import Node

CHECKSUM: Final = 32  # bytes at the start of a file
UNUSED: Final = 30 * 86400  # seconds since it was last read, after which a file goes
LEFT: Final = 3600  # seconds after which a file that is being written was left by the dead

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphCompiler:
    """Makes graphs ready to run.

    Attributes:
        core: OpenVINO's.
        origin: tells the weights, and how they are kept, from others.
        workers: how many requests of a graph run at a time.
        threads: for each.
        folder: of the cache; None has none.
    """

    core: Any  # OpenVINO is not imported here
    origin: str
    workers: int
    threads: int
    folder: Path | None = None

    def __call__(self, name: str, build: Callable[[], Node], precision: str, **more: str) -> Any:  # noqa: ANN401 - OpenVINO is not imported here
        """A graph ready to run.

        Args:
            name: of the graph.
            build: makes it; called only where it is not in the cache.
            precision: to compute in.
            **more: of OpenVINO's settings.
        """
        settings = {
            "INFERENCE_PRECISION_HINT": precision,
            "INFERENCE_NUM_THREADS": self.workers * self.threads,
            "NUM_STREAMS": self.workers,
            **more,
        }
        path = self._path(name, settings)
        if path and (found := self._kept(path, settings)) is not None:
            return found
        made = self.core.compile_model(build(), "CPU", settings)
        if path:
            self._keep(path, made)
        return made

    def _path(self, name: str, settings: dict[str, Any]) -> Path | None:
        if self.folder is None:
            return None
        machine = [
            self.core.get_property("CPU", key)
            for key in ("FULL_DEVICE_NAME", "OPTIMIZATION_CAPABILITIES")
        ]
        import openvino  # noqa: PLC0415 - an extra

        key = repr((self.origin, _program(), name, settings, machine, openvino.get_version()))
        return self.folder / f"{hashlib.blake2b(key.encode(), digest_size=16).hexdigest()}.blob"

    def _kept(self, path: Path, settings: dict[str, Any]) -> Any:  # noqa: ANN401 - as above
        """What is in the cache; None where it is not, or damaged, or not for this machine."""
        try:
            kept = memoryview(path.read_bytes())
        except OSError:
            return None
        if hashlib.blake2b(kept[CHECKSUM:], digest_size=CHECKSUM).digest() != kept[:CHECKSUM]:
            log.warning("%s: is damaged; the graph is compiled anew", path)
            return None
        with suppress(OSError):  # a cache that may only be read
            os.utime(path)
        try:
            return self.core.import_model(bytes(kept[CHECKSUM:]), "CPU", settings)
        except RuntimeError as error:
            log.info("%s: is not taken by OpenVINO, the graph is compiled anew: %s", path, error)
            return None

    def _keep(self, path: Path, made: Any) -> None:  # noqa: ANN401 - as above
        scratch = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            _sweep(path.parent)
            try:
                with scratch.open("xb") as file:
                    exported = made.export_model()
                    content = exported.getvalue() if hasattr(exported, "getvalue") else exported
                    file.write(hashlib.blake2b(content, digest_size=CHECKSUM).digest())
                    file.write(content)
                scratch.replace(path)
            finally:
                scratch.unlink(missing_ok=True)
        except (OSError, RuntimeError) as error:  # RuntimeError: it cannot be exported
            log.info("%s: the graph is not kept: %s", path, error)


@cache
def _program() -> str:
    """Of the source of all that builds graphs: another version of it builds others."""
    found = hashlib.blake2b(digest_size=16)
    for path in sorted(Path(__file__).parent.glob("*.py")):
        found.update(path.read_bytes())
    return found.hexdigest()


def _sweep(folder: Path) -> None:
    """Delete what has not been used for long, and what was left half written."""
    now = time.time()
    for pattern, age in (("*.blob", UNUSED), (".*.part", LEFT)):
        for path in folder.glob(pattern):
            with suppress(OSError):  # another process was faster
                if now - path.stat().st_mtime > age:
                    path.unlink()
