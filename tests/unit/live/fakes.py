"""A detector that takes loud audio for speech, and audio for it."""

import numpy as np

from whisperbatch.types import Samples, SpeechFrames, to_samples
from whisperbatch.vad.levels import FRAME


class LoudIsSpeech:
    """Takes complete VAD frames of loud audio for speech."""

    def __init__(self) -> None:
        self._rest = np.zeros(0, np.float32)

    def push(self, samples: Samples) -> list[SpeechFrames]:
        audio = np.concatenate((self._rest, samples))
        complete = len(audio) // FRAME * FRAME
        self._rest = audio[complete:]
        frames = audio[:complete].reshape(-1, FRAME)
        return [SpeechFrames(f, np.array([abs(f).mean() > 0.1], np.float32)) for f in frames]

    def flush(self) -> list[SpeechFrames]:
        return []


def audio(*lengths: float) -> Samples:
    """Silence and speech in turn, of lengths in seconds."""
    return np.concatenate(
        [
            np.full(to_samples(length), 0.5 * (index % 2), np.float32)
            for index, length in enumerate(lengths)
        ]
    )
