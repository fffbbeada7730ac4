"""Whisper's encoder on OpenVINO: the requests of its graphs.

In bfloat16, on processors that support it, this encoder is both faster and closer to float32 than
CTranslate2's encoder in int8.
"""

from typing import Any

from whisperbatch.engines.model_info import ModelInfo
from whisperbatch.engines.openvino.compiler import model_compiler
from whisperbatch.engines.openvino.encoder_graphs import EncoderGraphs
from whisperbatch.engines.openvino.graph import core_and_precision
from whisperbatch.engines.search.hypotheses import Floats
from whisperbatch.models.model_bin import read_arrays
from whisperbatch.runtimes.openvino_package import Precision


class OpenVinoEncoder:
    """Computes the encoder. See `cpu.runners.EncoderRunner`.

    Args:
        first: infer request of the graph `EncoderGraphs.whole`, or `EncoderGraphs.start`.
        end: infer request of the graph `EncoderGraphs.end`; None without merged positions.
    """

    def __init__(self, first: Any, end: Any = None) -> None:  # noqa: ANN401 - OpenVINO's
        self._first, self._end = first, end

    def whole(self, features: Floats) -> Floats:
        """See `cpu.runners.EncoderRunner`."""
        states: Floats = self._first.infer({0: features[None]}, share_outputs=True)[0][0]
        return states

    start = whole  # another graph

    def end(self, states: Floats, log_sizes: Floats) -> Floats:
        """See `cpu.runners.EncoderRunner`."""
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
    compiler = model_compiler(core, model, workers=workers, threads=threads)
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
