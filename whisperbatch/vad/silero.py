"""Silero's voice activity detection network, run block by block; its state is kept in between.

The input of the network (https://github.com/snakers4/silero-vad, MIT) is VAD frames of 512 samples,
each with the 64 samples before it. The network keeps an LSTM state of 128 cells. Its sequence form
takes many VAD frames in one call. Here each call gets a block of `framing.BLOCK` samples, counted
from the start of the recording. Therefore rounding does not depend on the sizes of the input
blocks.
"""

import logging
from collections.abc import Iterable, Iterator
from typing import Final

import numpy as np

from whisperbatch.dependencies import interface_note
from whisperbatch.errors import EngineError, ModelError
from whisperbatch.runtimes.onnx_sessions import open_session
from whisperbatch.types import Samples, SpeechFrames
from whisperbatch.vad.framing import FRAME, reblock
from whisperbatch.vad.network import network_with_products
from whisperbatch.vad.weights import find_weights

CONTEXT: Final = 64  # samples before a VAD frame that are part of the network's input
CELLS: Final = 128  # of the network's LSTM

log = logging.getLogger(__name__)


class SileroVad:
    """A Vad that runs Silero's network. Thread-safe.

    Raises:
        ModelError: no installed package contains the weights, or the file does not load.
    """

    hop = FRAME

    def __init__(self) -> None:
        path = find_weights()
        try:
            # VAD frames depend on each other: more threads are slower
            self._session = open_session(network_with_products(path), threads=1)
        except Exception as error:  # see both functions
            reason = " ".join(str(error).split())  # some messages have several lines
            raise ModelError(
                f"{path}: does not load as a Silero network ({reason})"
                f"{interface_note(error) or '; reinstall its package'}"
            ) from error
        log.debug("voice activity detection: %s", path)

    def __call__(self, blocks: Iterable[Samples]) -> Iterator[SpeechFrames]:
        """See `protocols.Vad`."""
        context = np.zeros(CONTEXT, np.float32)
        hidden = cell = np.zeros((1, 1, CELLS), np.float32)
        for samples in reblock(blocks):
            padding = -len(samples) % FRAME
            padded = np.pad(samples, (0, padding)) if padding else samples
            audio = np.concatenate((context, padded))
            frames = np.lib.stride_tricks.sliding_window_view(audio, CONTEXT + FRAME)[::FRAME]
            inputs = {"input": np.ascontiguousarray(frames), "h": hidden, "c": cell}
            try:
                probabilities, hidden, cell = self._session.run(None, inputs)
            except Exception as error:  # see __init__
                raise EngineError(
                    f"voice activity detection failed: {error}{interface_note(error)}"
                ) from error
            context = audio[-CONTEXT:]
            yield SpeechFrames(samples, np.ravel(probabilities))
