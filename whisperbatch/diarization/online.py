"""Provisional speakers, while a recording is read: the clusters of the voices so far.

    pieces so far   1      11     21     31     ...     each time 10 % more, at least 10 more
                    |      |      |      |
                  clusters, whose names follow those before: similar voices keep their names

Between two clusterings, a voice gets the name of the most similar cluster.
"""

from typing import Final

from whisperbatch.diarization.clustering import Vectors, voices
from whisperbatch.diarization.protocol import SpeakerLimits
from whisperbatch.diarization.recorder import Memory
from whisperbatch.diarization.turns import time_of
from whisperbatch.types import Turn

MORE: Final = 10  # pieces until the voices are clustered again
GROWTH: Final = 1.1  # and relative to the number of pieces
# Pieces that are clustered. In three hours, clustering all pieces each time took a third of the
# time of the networks.
MOST: Final = 500
CONFIDENCE: Final = 0.5  # the number of voices is not known yet


class OnlineSpeakers:
    """The speakers so far.

    Args:
        limits: of the number of speakers.
    """

    def __init__(self, limits: SpeakerLimits) -> None:
        self._limits = limits
        self._means: dict[int, Vectors] = {}
        self._names = 0
        self._enough = 1.0  # pieces from which the voices are clustered again
        self._last = 0

    @property
    def embeddings(self) -> dict[str, Vectors]:
        """The mean voice of each speaker so far, of length 1."""
        return {f"SPEAKER_{name:02d}": mean for name, mean in sorted(self._means.items())}

    def turns(self, memory: Memory, first: int) -> tuple[Turn, ...]:
        """Return the turns of the last window.

        Args:
            memory: of the recording, with the window.
            first: number of the first stretch of the window.
        """
        vectors = memory.embeddings[-1]
        pieces = len(memory.centres)
        if pieces >= self._enough:
            self._cluster(memory)
            self._enough = max(pieces + MORE, pieces * GROWTH)
        turns = []
        for stretch in memory.stretches[first:]:
            own = vectors[[piece - pieces + len(vectors) for piece in stretch.pieces]]
            if len(own):
                total = own.sum(axis=0)
                self._last = max(self._means, key=lambda name: float(self._means[name] @ total))
            name = f"SPEAKER_{self._last:02d}"
            turns.append(Turn(time_of(stretch.start), time_of(stretch.end), name, CONFIDENCE))
        return tuple(turns)

    def _cluster(self, memory: Memory) -> None:
        """Find the voices so far. The voices that are most similar to those before keep names."""
        found = list(voices(memory, self._limits, MOST))
        named: dict[int, Vectors] = {}
        pairs = [
            (float(m @ v), name, n) for name, m in self._means.items() for n, v in enumerate(found)
        ]
        free = set(range(len(found)))
        for _, name, number in sorted(pairs, reverse=True):
            if name not in named and number in free:
                named[name] = found[number]
                free.remove(number)
        for number in sorted(free):
            named[self._names] = found[number]
            self._names += 1
        self._means = named
