"""Whisper's encoder on OpenVINO, from CTranslate2's weights.

In bfloat16, on processors that support it, this encoder is both faster and closer to float32 than
CTranslate2's encoder in int8.

    features (1, n_mels, frames) -> convolution -> convolution, stride 2 -> + position encodings
             -> layers -> layer normalisation -> encoder output (1, frames / 2, d_model)

Similar neighbouring positions can be merged after the first layer (frame_merging.py). The encoder
then consists of two graphs, and its output has a state for each group:

    features -> convolutions, first layer -> merge_positions -> other layers -> (1, groups, d_model)

A noisy row (noise.py) keeps all positions.

The rows of a batch are encoded one at a time: one row uses all cores, and its encoder output then
does not depend on the other rows of the batch.
"""

from collections.abc import Callable
from queue import LifoQueue
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from whisperbatch.engines.frame_merging import Merged, group_count, log_sizes, merge_positions
from whisperbatch.engines.layout import Arrays
from whisperbatch.engines.openvino.compiler import GraphCompiler
from whisperbatch.engines.openvino.encoder_graphs import EncoderGraphs
from whisperbatch.engines.openvino.encoder_output import EncoderOutput
from whisperbatch.engines.openvino.graph import Precision
from whisperbatch.errors import EngineError
from whisperbatch.features.noise import share_to_keep

RowEncoder: TypeAlias = Callable[[npt.NDArray[np.float32]], Merged]
"""Encodes one row of features, shape (1, n_mels, frames)."""


class OpenVinoEncoder:
    """Whisper's encoder. Thread-safe; releases the GIL while it works.

    Args:
        compiler: compiles the graphs.
        arrays: the arrays "encoder/..." of model.bin, as stored.
        precision: the precision to compute in.
        int8_weights: store the matrices in 8 bits.
        kept_frames: the share of the positions of a clear row that are left after similar
            positions are merged.
    """

    def __init__(
        self,
        compiler: GraphCompiler,
        arrays: Arrays,
        *,
        precision: Precision,
        int8_weights: bool,
        kept_frames: float,
    ) -> None:
        graphs = EncoderGraphs(arrays, int8_weights=int8_weights)
        self._kept_frames = kept_frames
        parts = [("encoder", graphs.whole)]
        if kept_frames < 1:
            parts = [("encoder_start", graphs.start), ("encoder_end", graphs.end)]
        compiled = [compiler(name, build, precision) for name, build in parts]
        # A request holds the memory of one row's activations. There is one for each worker, not
        # for each thread, because callers' threads come and go.
        self._row_encoders: LifoQueue[RowEncoder] = LifoQueue()
        for _ in range(compiler.workers):
            requests = [part.create_infer_request() for part in compiled]
            self._row_encoders.put(_row_encoder(requests, kept_frames))

    def __call__(self, features: npt.NDArray[np.float32]) -> EncoderOutput:
        """Encode a batch.

        Args:
            features: shape (batch, n_mels, frames), frames an even number of at most 3000.
        """
        encode = self._row_encoders.get()
        try:
            rows = [encode(row[None]) for row in features]
        except RuntimeError as error:
            raise EngineError(f"OpenVINO: {error}") from error
        finally:
            self._row_encoders.put(encode)
        states = tuple(row.states for row in rows)
        if self._kept_frames == 1:
            return EncoderOutput(states)
        return EncoderOutput(states, tuple(row.sizes for row in rows))


def _row_encoder(requests: list[Any], kept_frames: float) -> RowEncoder:
    if kept_frames == 1:
        [whole] = requests
        return _WholeRowEncoder(whole)
    start, end = requests
    return _MergingRowEncoder(start, end, kept_frames)


class _WholeRowEncoder:
    """Encodes a row without merging its positions.

    Args:
        request: infer request of the graph `EncoderGraphs.whole`.
    """

    def __init__(self, request: Any) -> None:  # noqa: ANN401 - OpenVINO's
        self._request = request

    def __call__(self, features: npt.NDArray[np.float32]) -> Merged:
        """See `RowEncoder`."""
        [states] = self._request.infer({0: features})[0]
        return Merged(states, np.ones(len(states), np.int64))


class _MergingRowEncoder:
    """Encodes a row, and merges its similar positions after the first layer if it is clear.

    Args:
        start: infer request of the graph `EncoderGraphs.start`.
        end: infer request of the graph `EncoderGraphs.end`.
        kept_frames: the share of the positions of a clear row that are left.
    """

    def __init__(self, start: Any, end: Any, kept_frames: float) -> None:  # noqa: ANN401 - OpenVINO's
        self._start, self._end, self._kept_frames = start, end, kept_frames

    def __call__(self, features: npt.NDArray[np.float32]) -> Merged:
        """See `RowEncoder`."""
        [hidden] = self._start.infer({0: features})[0]
        share = share_to_keep(features[0], self._kept_frames)
        merged = merge_positions(hidden, group_count(len(hidden), share))
        biases = log_sizes(merged.sizes)[None, None, None]
        [states] = self._end.infer({0: merged.states[None], 1: biases})[0]
        return Merged(states, merged.sizes)
