"""Provisional speakers, while a recording is read: each voice joins the nearest speaker so far."""

from typing import Final

import numpy as np

from whisperbatch.diarization.clustering import Vectors, normalised
from whisperbatch.diarization.protocol import SpeakerLimits
from whisperbatch.diarization.recorder import Memory
from whisperbatch.diarization.turns import time_of
from whisperbatch.types import Turn

NEW_SPEAKER: Final = 0.5  # cosine distance from all speakers at which a voice is a new speaker

CONFIDENCE: Final = 0.5  # the number of voices is not known yet


class OnlineSpeakers:
    """The speakers so far.

    Args:
        limits: of the number of speakers.
    """

    def __init__(self, limits: SpeakerLimits) -> None:
        self._maximum = limits.maximum
        self._sums: list[Vectors] = []
        self._last = 0

    def turns(self, memory: Memory, first: int) -> tuple[Turn, ...]:
        """Return the turns of the last window.

        Args:
            memory: of the recording, with the window.
            first: number of the first stretch of the window.
        """
        vectors = memory.embeddings[-1]
        offset = len(memory.centres) - len(vectors)
        turns = []
        for stretch in memory.stretches[first:]:
            own = vectors[[piece - offset for piece in stretch.pieces]]
            if len(own):
                self._last = self._speaker(own.sum(axis=0))
            name = f"SPEAKER_{self._last:02d}"
            turns.append(Turn(time_of(stretch.start), time_of(stretch.end), name, CONFIDENCE))
        return tuple(turns)

    def _speaker(self, vector: Vectors) -> int:
        """Return the number of the speaker of a voice, and add the voice to the speaker."""
        if self._sums:
            distances = 1 - normalised(np.stack(self._sums)) @ normalised(vector)
            nearest = int(np.argmin(distances))
            full = self._maximum is not None and len(self._sums) >= self._maximum
            if distances[nearest] < NEW_SPEAKER or full:
                self._sums[nearest] = self._sums[nearest] + vector
                return nearest
        self._sums.append(vector)
        return len(self._sums) - 1
