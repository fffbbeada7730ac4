"""Compilation of Whisper's graphs on OpenVINO.

A compiled graph in the cache (openvino_cache.py) depends on the weights, the source files that
build graphs, the precision and the threads.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

from whisperbatch.engines import layout, quantization
from whisperbatch.engines.model_info import ModelInfo
from whisperbatch.engines.openvino.graph import Node
from whisperbatch.runtimes.openvino_cache import compiled_graphs_folder, load_compiled

# Operations that a graph keeps prepared for the shapes of earlier calls. From ten minutes to an hour
# of audio, native memory grew by 27 MB with OpenVINO's default of 5000, and by 13 MB with 20. With
# 0, transcription took 20 % longer. (Measured when the decoder was on OpenVINO, too.)
PREPARED_OPERATIONS: Final = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphCompiler:
    """Compiles graphs, or reads them from the cache.

    Attributes:
        core: OpenVINO's `Core`.
        origin: identifies the weights.
        workers: number of requests of a graph that run at a time.
        threads: number of threads for each request.
        folder: the cache's folder; None for no cache.
    """

    core: Any  # OpenVINO is not imported here
    origin: str
    workers: int
    threads: int
    folder: Path | None = None

    def __call__(self, name: str, build: Callable[[], Node], precision: str) -> Any:  # noqa: ANN401 - as above
        """Return a compiled graph.

        Args:
            name: of the graph.
            build: builds the graph; called only if the cache does not hold the graph.
            precision: the precision to compute in.
        """
        settings = {
            "INFERENCE_PRECISION_HINT": precision,
            "INFERENCE_NUM_THREADS": self.workers * self.threads,
            "NUM_STREAMS": self.workers,
            # Each graph pins its first stream to the first core, which other graphs and threads
            # (decoder, VAD, features) need, too. All run better if the operating system can move
            # them.
            "ENABLE_CPU_PINNING": False,
            "CPU_RUNTIME_CACHE_CAPACITY": str(PREPARED_OPERATIONS),
        }
        return load_compiled(
            self.core,
            self.folder,
            (self.origin, _sources_hash(), name),
            settings,
            lambda: self.core.compile_model(build(), "CPU", settings),
        )


def model_compiler(
    core: Any,  # noqa: ANN401 - OpenVINO is not imported here
    model: ModelInfo,
    *,
    workers: int,
    threads: int,
) -> GraphCompiler:
    """Return a compiler of the graphs of a model, with the user's cache. See `GraphCompiler`."""
    return GraphCompiler(
        core=core,
        origin=model.fingerprint,
        workers=workers,
        threads=threads,
        folder=compiled_graphs_folder(),
    )


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
