"""Silero's voice activity detection network, run block by block with its state carried over.

The network (https://github.com/snakers4/silero-vad, MIT) sees frames of 512 samples, each with the
64 samples before it, and keeps an LSTM state of 128 cells. Its sequence form takes many frames a
call. Calls here are always of `framing.BLOCK` samples, counted from the recording's start, so that
rounding is the same however the audio arrived.
"""

import importlib.util
import logging
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import numpy as np
import onnxruntime

from whisperbatch.errors import EngineError, ModelError
from whisperbatch.types import Samples, SpeechFrames
from whisperbatch.vad.framing import FRAME, reblock

CONTEXT: Final = 64  # samples before a frame that the network also sees
CELLS: Final = 128  # of its LSTM

WEIGHTS: Final = (
    ("silero_vad", "data/silero_vad_16k_sequence.onnx"),
    ("faster_whisper", "assets/silero_vad_v6.onnx"),
)
"""Packages that ship the sequence form, the first installed one wins."""

log = logging.getLogger(__name__)


class SileroVad:
    """A Vad over Silero's network. Several threads may share one.

    Raises:
        ModelError: no installed package ships the weights, or the file does not load.
    """

    hop = FRAME

    def __init__(self) -> None:
        path = find_weights()
        settings = onnxruntime.SessionOptions()
        settings.intra_op_num_threads = 1  # frames depend on each other: more threads only fight
        settings.inter_op_num_threads = 1
        settings.enable_cpu_mem_arena = False  # the arena keeps the largest block it ever saw
        settings.log_severity_level = 4
        try:
            self._session = onnxruntime.InferenceSession(
                str(path), sess_options=settings, providers=["CPUExecutionProvider"]
            )
        except Exception as error:  # onnxruntime's errors share no public base class
            raise ModelError(
                f"{path}: does not load as a Silero network ({error}); reinstall its package"
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
            except Exception as error:  # as above
                raise EngineError(f"voice activity detection failed: {error}") from error
            context = audio[-CONTEXT:]
            yield SpeechFrames(samples, np.ravel(probabilities))


def find_weights() -> Path:
    """The network's ONNX file, found without importing the package that ships it.

    (silero_vad's own __init__ imports PyTorch.)

    Raises:
        ModelError: no installed package ships it.
    """
    for package, file in WEIGHTS:
        spec = importlib.util.find_spec(package)
        for folder in (spec and spec.submodule_search_locations) or ():
            path = Path(folder, file)
            if path.is_file():
                return path
    names = " or ".join(package for package, _ in WEIGHTS)
    raise ModelError(f"no installed package ships Silero's weights; reinstall {names}")
