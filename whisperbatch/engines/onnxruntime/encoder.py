"""Whisper's encoder on ONNX Runtime."""

from functools import partial

from whisperbatch.engines.layout import Arrays
from whisperbatch.engines.onnxruntime.encoder_graphs import (
    FEATURES,
    LOG_SIZES,
    STATES,
    EncoderGraphs,
)
from whisperbatch.engines.onnxruntime.sessions import Session
from whisperbatch.engines.search.hypotheses import Floats


class OnnxEncoder:
    """Computes the encoder. See `cpu.runners.EncoderRunner`. Thread-safe.

    Args:
        arrays: the arrays "encoder/..." of model.bin, as stored.
        levels: the largest level of a computed second factor of a product.
        threads: number of threads that compute a row.
        merged: similar positions are merged.

    Raises:
        RuntimeError: onnxruntime cannot load the graphs.
    """

    def __init__(self, arrays: Arrays, *, levels: int, threads: int, merged: bool) -> None:
        graphs = EncoderGraphs(arrays, levels)
        build = graphs.start if merged else graphs.whole
        # The large results of each operator (6 MB) would be new pages of memory: 6 % of the time.
        load = partial(Session, "the encoder", threads=threads, keep_memory=True)
        self._first = load(build())
        self._end = load(graphs.end()) if merged else self._first

    def whole(self, features: Floats) -> Floats:
        """See `cpu.runners.EncoderRunner`."""
        return self._first({FEATURES: features[None]})[0]

    start = whole  # another graph

    def end(self, states: Floats, log_sizes: Floats) -> Floats:
        """See `cpu.runners.EncoderRunner`."""
        return self._end({STATES: states, LOG_SIZES: log_sizes})[0]
