"""The speech probability of each VAD frame from the audio before it alone.

The detector of recordings (`vad.levels`) looks about 13 s ahead: for the level of speech, and for
its usual probability. Here both are measured in the past:

    level         loudest VAD frame of the last 2 s, this frame included
    gain          raises this level to the common level; falls at once, rises slowly
    calibration   from the probabilities of the last 7.5 s

Audio is examined in groups of three VAD frames (96 ms), counted from the start of the session. The
probabilities therefore do not depend on the sizes of the blocks that are fed.
"""

from collections import deque
from typing import Final

import numpy as np
import numpy.typing as npt

from whisperbatch.types import Samples, SpeechFrames
from whisperbatch.vad import silero_network
from whisperbatch.vad.levels import (
    CALIBRATION_WINDOW,
    FRAME,
    LEVEL_FRAMES,
    MAX_GAIN,
    SMOOTHING_FRAMES,
    TARGET_LEVEL,
    calibration_shift,
    frame_levels,
    shifted,
)

GROUP: Final = 3 * FRAME  # samples (96 ms): the longest time that the detector is behind


class CausalDetector:
    """The state of Silero's network, of the gain and of the calibration of one session.

    Raises:
        ModelError: no installed package contains Silero's weights, or they do not load.
    """

    def __init__(self) -> None:
        self._network = silero_network().stream()
        self._rest = np.zeros(0, np.float32)  # less than a group
        self._levels: deque[float] = deque(maxlen=LEVEL_FRAMES)
        self._gains: deque[float] = deque(maxlen=SMOOTHING_FRAMES)
        self._past: deque[npt.NDArray[np.float32]] = deque(maxlen=-(-CALIBRATION_WINDOW // GROUP))

    def push(self, samples: Samples) -> list[SpeechFrames]:
        """Return the groups that are complete now, each with a probability for each VAD frame.

        Args:
            samples: the next audio, shape (n_samples,).

        Raises:
            EngineError: the network failed.
        """
        audio = np.concatenate((self._rest, samples))
        complete = len(audio) - len(audio) % GROUP
        self._rest = audio[complete:]
        return [self._examine(audio[start : start + GROUP]) for start in range(0, complete, GROUP)]

    def flush(self) -> list[SpeechFrames]:
        """Return the complete VAD frames of the last group, without waiting for the others."""
        complete = len(self._rest) - len(self._rest) % FRAME
        frames, self._rest = self._rest[:complete], self._rest[complete:]
        return [self._examine(frames)] if complete else []

    def _examine(self, samples: Samples) -> SpeechFrames:
        raw = self._network.push(samples * self._factors(samples))
        self._past.append(raw)
        shift = calibration_shift(np.concatenate(self._past), FRAME)
        return SpeechFrames(samples, shifted(raw, shift))

    def _factors(self, samples: Samples) -> Samples:
        """Return the factor of each sample; within a VAD frame, the gain changes linearly."""
        gains = [self._gains[-1] if self._gains else None]
        for level in frame_levels(samples).tolist():
            self._levels.append(level)
            gain = min(max(TARGET_LEVEL - max(self._levels), 0.0), MAX_GAIN)
            self._gains.append(gain)
            mean = sum(self._gains) / len(self._gains)
            gains.append(min(gain, mean))  # louder audio is not raised too much
        first = gains[1] if gains[0] is None else gains[0]
        ends = np.array([first, *gains[1:]], np.float64)
        decibels = np.interp(np.arange(len(samples)), np.arange(len(ends)) * float(FRAME), ends)
        factors: Samples = np.power(10.0, decibels / 20).astype(np.float32)
        return factors
