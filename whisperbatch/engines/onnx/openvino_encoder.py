"""Whisper's encoder on OpenVINO, for CPUs: the extra `openvino`.

    arrays of model.bin -> EncoderGraphs -> GraphCompiler, with a cache -> requests, one per worker

In bfloat16, on processors that support it, this encoder is both faster and closer to float32 than
encoders in 8 bits. A compiled graph in the cache (openvino_cache.py) depends on the weights, the
source files that build graphs, the precision and the threads.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

from whisperbatch.dependencies import interface_note
from whisperbatch.engines import arrays
from whisperbatch.engines.model_info import ModelInfo
from whisperbatch.engines.onnx import openvino_graphs
from whisperbatch.engines.onnx.openvino_graphs import EncoderGraphs
from whisperbatch.engines.search import Floats
from whisperbatch.errors import MissingExtraError, ModelError
from whisperbatch.models.files import one_line
from whisperbatch.models.model_bin import read_arrays
from whisperbatch.runtimes.openvino_cache import compiled_graphs_folder, load_compiled
from whisperbatch.runtimes.openvino_package import (
    Precision,
    check_openvino,
    fastest_precision,
    open_core,
)

# Operations that a graph keeps prepared for the shapes of earlier calls. Measured when the decoder
# was on OpenVINO, too: from ten minutes to an hour of audio, native memory grew by 27 MB with
# OpenVINO's default of 5000, and by 13 MB with 20. With 0, transcription took 20 % longer.
PREPARED_OPERATIONS: Final = 32


class OpenVinoEncoder:
    """Computes the encoder. See `encoder.EncoderRunner`.

    Args:
        first: infer request of the graph `EncoderGraphs.whole`, or `EncoderGraphs.start`.
        end: infer request of the graph `EncoderGraphs.end`; None without merged positions.
    """

    def __init__(self, first: Any, end: Any = None) -> None:  # noqa: ANN401 - OpenVINO's
        self._first, self._end = first, end

    def whole(self, features: Floats) -> Floats:
        """See `EncoderRunner`."""
        states: Floats = self._first.infer({0: features[None]}, share_outputs=True)[0][0]
        return states

    start = whole  # another graph

    def end(self, states: Floats, log_sizes: Floats) -> Floats:
        """See `EncoderRunner`."""
        inputs = {0: states[None], 1: log_sizes[None, None, None]}
        output: Floats = self._end.infer(inputs, share_outputs=True)[0][0]
        return output


def load_encoder(
    model: ModelInfo, workers: int, threads: int, *, merged: bool
) -> tuple[list[OpenVinoEncoder], Precision]:
    """Return an encoder for each worker, and the precision of the encoders.

    The matrices are stored as in model.bin, in half precision: with 8 bits, a row takes a quarter
    more time on a processor with AMX.

    Args:
        model: the model.
        workers: number of workers.
        threads: number of threads of each worker.
        merged: similar positions are merged.

    Raises:
        MissingExtraError: OpenVINO is not installed.
        ModelError: OpenVINO does not work on this machine.
        RuntimeError: OpenVINO cannot compile the graphs.
    """
    core, precision = core_and_precision()
    compiler = GraphCompiler(
        core=core,
        origin=model.fingerprint,
        workers=workers,
        threads=threads,
        folder=compiled_graphs_folder(),
    )
    graphs = EncoderGraphs(read_arrays(model.directory / "model.bin", "encoder/"))
    parts = [("encoder", graphs.whole)]
    if merged:
        parts = [("encoder_start", graphs.start), ("encoder_end", graphs.end)]
    compiled = [compiler(name, build, precision) for name, build in parts]
    # A request holds the memory of one row's activations. There is one for each worker, not for
    # each thread, because callers' threads come and go.
    encoders = [
        OpenVinoEncoder(*(part.create_infer_request() for part in compiled)) for _ in range(workers)
    ]
    return encoders, precision


def core_and_precision() -> tuple[Any, Precision]:
    """Return OpenVINO's core, and the precision to compute in.

    Raises:
        MissingExtraError: OpenVINO is not installed.
        ModelError: OpenVINO does not work on this machine.
    """
    try:
        core = open_core()
        return core, fastest_precision(core)
    except ImportError as error:
        check_openvino()  # names the extra if OpenVINO is not installed
        again = "; install OpenVINO again: pip install --force-reinstall openvino"
        raise MissingExtraError(
            f"OpenVINO cannot be imported: {one_line(error)}{interface_note(error) or again}"
        ) from error
    except RuntimeError as error:
        raise ModelError(f"OpenVINO does not work on this machine: {one_line(error)}") from error


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

    def __call__(self, name: str, build: Callable[[], Any], precision: str) -> Any:  # noqa: ANN401 - as above
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


def graph_sources() -> list[Path]:
    """Return the source files that determine what a graph computes."""
    return [Path(str(module.__file__)) for module in (openvino_graphs, arrays)]


@cache
def _sources_hash() -> str:
    """Return a hash of `graph_sources`: a changed source file may build another graph."""
    digest = hashlib.blake2b(digest_size=16)
    for path in graph_sources():
        digest.update(path.read_bytes())
    return digest.hexdigest()
