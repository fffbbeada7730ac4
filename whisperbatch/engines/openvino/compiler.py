"""Compilation of OpenVINO graphs, with a cache on disk.

    cache/openvino/3f9a....blob     a checksum, and the compiled graph as OpenVINO exports it

A cached graph is named after everything that it depends on: the weights, the source files that
build graphs, the precision, the threads, OpenVINO's version and the processor. Without a cache
folder, or if the folder is not writable, graphs are compiled each time.
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

from whisperbatch.engines import layout, quantization
from whisperbatch.engines.model_info import ModelInfo
from whisperbatch.engines.openvino.graph import Node
from whisperbatch.errors import ModelError
from whisperbatch.models.packages import default_cache

CHECKSUM_BYTES: Final = 32  # at the start of a file
MAX_UNUSED_SECONDS: Final = 30 * 86400  # a cached graph that was not read for longer is deleted
MAX_WRITING_SECONDS: Final = 3600  # an unfinished file that is older belongs to a killed process

# Operations that a graph keeps prepared for the shapes of earlier calls. Each decoding step has new
# shapes. From ten minutes to an hour of audio, native memory grew by 27 MB with OpenVINO's default
# of 5000, and by 13 MB with 20. With 0, transcription took 20 % longer.
PREPARED_OPERATIONS: Final = 32

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphCompiler:
    """Compiles graphs, or reads them from the cache.

    Attributes:
        core: OpenVINO's `Core`.
        origin: identifies the weights and the type in which they are stored.
        workers: number of requests of a graph that run at a time.
        threads: number of threads for each request.
        folder: the cache's folder; None for no cache.
    """

    core: Any  # OpenVINO is not imported here
    origin: str
    workers: int
    threads: int
    folder: Path | None = None

    def __call__(
        self, name: str, build: Callable[[], Node], precision: str, **more_settings: str
    ) -> Any:  # noqa: ANN401 - OpenVINO is not imported here
        """Return a compiled graph.

        Args:
            name: of the graph.
            build: builds the graph; called only if the cache does not hold the graph.
            precision: the precision to compute in.
            **more_settings: further settings of OpenVINO.
        """
        settings = {
            "INFERENCE_PRECISION_HINT": precision,
            "INFERENCE_NUM_THREADS": self.workers * self.threads,
            "NUM_STREAMS": self.workers,
            # Graphs know nothing of each other: each pins its first stream to the first core, so
            # that an encoder and a decoder at work for two workers share the core. Other threads
            # (VAD, features) also run better if the operating system can move all threads.
            "ENABLE_CPU_PINNING": False,
            "CPU_RUNTIME_CACHE_CAPACITY": str(PREPARED_OPERATIONS),
            **more_settings,
        }
        path = self._path(name, settings)
        if path and (cached := self._read(path, settings)) is not None:
            return cached
        if path:
            log.info(
                "compiling for this processor; later runs start faster", extra={"progress": True}
            )
        compiled = self.core.compile_model(build(), "CPU", settings)
        if path:
            self._write(path, compiled)
        return compiled

    def _path(self, name: str, settings: dict[str, Any]) -> Path | None:
        """Return the file of a graph in the cache; None for no cache."""
        if self.folder is None:
            return None
        processor = [
            self.core.get_property("CPU", key)
            for key in ("FULL_DEVICE_NAME", "OPTIMIZATION_CAPABILITIES")
        ]
        import openvino  # noqa: PLC0415 - an extra

        version = openvino.get_version()
        key = repr((self.origin, _sources_hash(), name, settings, processor, version))
        return self.folder / f"{hashlib.blake2b(key.encode(), digest_size=16).hexdigest()}.blob"

    def _read(self, path: Path, settings: dict[str, Any]) -> Any:  # noqa: ANN401 - as above
        """Return the compiled graph in the cache, or None if it is missing or cannot be used."""
        try:
            content = memoryview(path.read_bytes())
        except OSError:
            return None
        blob = content[CHECKSUM_BYTES:]
        if hashlib.blake2b(blob, digest_size=CHECKSUM_BYTES).digest() != content[:CHECKSUM_BYTES]:
            log.warning("%s: is damaged; the graph is compiled again", path)
            return None
        with suppress(OSError):  # the cache is read-only
            os.utime(path)
        try:
            return self.core.import_model(bytes(blob), "CPU", settings)
        except RuntimeError as error:
            log.info("%s: OpenVINO cannot read it; the graph is compiled again: %s", path, error)
            return None

    def _write(self, path: Path, compiled: Any) -> None:  # noqa: ANN401 - as above
        """Write a compiled graph to the cache, through a temporary file; log a failure."""
        temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            _delete_old_files(path.parent)
            try:
                with temporary.open("xb") as file:
                    exported = compiled.export_model()
                    blob = exported.getvalue() if hasattr(exported, "getvalue") else exported
                    file.write(hashlib.blake2b(blob, digest_size=CHECKSUM_BYTES).digest())
                    file.write(blob)
                temporary.replace(path)
            finally:
                temporary.unlink(missing_ok=True)
        except (OSError, RuntimeError) as error:  # RuntimeError: the graph cannot be exported
            log.info("%s: the compiled graph could not be written to the cache: %s", path, error)


def model_compiler(
    core: Any,  # noqa: ANN401 - OpenVINO is not imported here
    model: ModelInfo,
    *,
    int8_weights: bool,
    workers: int,
    threads: int,
) -> GraphCompiler:
    """Return a compiler of the graphs of a model, with the user's cache. See `GraphCompiler`."""
    return GraphCompiler(
        core=core,
        origin=f"{model.fingerprint} {int8_weights}",
        workers=workers,
        threads=threads,
        folder=_cache_folder(),
    )


def _cache_folder() -> Path | None:
    """Return the folder of compiled graphs; None if the user has no home directory."""
    try:
        return default_cache() / "openvino"
    except ModelError:
        return None


def graph_sources() -> list[Path]:
    """Return the source files that determine what a graph computes."""
    return [
        *sorted(Path(__file__).parent.glob("*.py")),
        *(Path(str(module.__file__)) for module in (layout, quantization)),
    ]


@cache
def _sources_hash() -> str:
    """Return a hash of `graph_sources`: a changed source file may build another graph."""
    digest = hashlib.blake2b(digest_size=16)
    for path in graph_sources():
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _delete_old_files(folder: Path) -> None:
    """Delete graphs that were not used for long, and unfinished files of killed processes."""
    now = time.time()
    for pattern, max_age in (("*.blob", MAX_UNUSED_SECONDS), (".*.part", MAX_WRITING_SECONDS)):
        for path in folder.glob(pattern):
            with suppress(OSError):  # another process has deleted the file
                if now - path.stat().st_mtime > max_age:
                    path.unlink()
