"""Whisper's encoder on a CPU.

    features (1, n_mels, frames) -> convolution -> convolution, stride 2 -> + position encodings
             -> layers -> layer normalisation -> encoder output (1, frames / 2, d_model)

Similar neighbouring positions can be merged after the first layer (frame_merging.py). The encoder
then consists of two graphs, and its output has a state for each group:

    features -> convolutions, first layer -> merge_positions -> other layers -> (1, groups, d_model)

A noisy row (noise.py) keeps all positions.

The rows of a batch are encoded one at a time: one row uses all cores, and its encoder output then
does not depend on the other rows of the batch.
"""

from collections.abc import Iterable
from queue import LifoQueue

import numpy as np
import numpy.typing as npt

from whisperbatch.engines.cpu.encoder_output import EncoderOutput
from whisperbatch.engines.cpu.runners import EncoderRunner
from whisperbatch.engines.frame_merging import Merged, group_count, log_sizes, merge_positions
from whisperbatch.engines.search.hypotheses import Floats
from whisperbatch.features.noise import share_to_keep


class Encoder:
    """Whisper's encoder. Thread-safe; releases the GIL while it works.

    Args:
        runners: one for each worker. Their memory holds the activations of one row.
        kept_frames: the share of the positions of a clear row that are left after similar
            positions are merged.
    """

    def __init__(self, runners: Iterable[EncoderRunner], kept_frames: float) -> None:
        self._kept_frames = kept_frames
        self._free_runners: LifoQueue[EncoderRunner] = LifoQueue()
        for runner in runners:
            self._free_runners.put(runner)

    def __call__(self, features: npt.NDArray[np.float32]) -> EncoderOutput:
        """Encode a batch.

        Args:
            features: shape (batch, n_mels, frames), frames an even number of at most 3000.
        """
        runner = self._free_runners.get()
        try:
            if self._kept_frames == 1:
                return EncoderOutput(tuple(runner.whole(row).copy() for row in features))
            rows = [self._merged(runner, row) for row in features]
        finally:
            self._free_runners.put(runner)
        return EncoderOutput(tuple(row.states for row in rows), tuple(row.sizes for row in rows))

    def _merged(self, runner: EncoderRunner, features: Floats) -> Merged:
        """Encode one row of features (n_mels, frames), and merge its similar positions."""
        hidden = runner.start(features)
        share = share_to_keep(features, self._kept_frames)
        merged = merge_positions(hidden, group_count(len(hidden), share))
        states = runner.end(merged.states, log_sizes(merged.sizes))
        return Merged(states.copy(), merged.sizes)
