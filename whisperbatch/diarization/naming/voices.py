"""The voice of a recording, and whether two voices are the same: for the built-in diarizer."""

from typing import Final

import numpy as np

from whisperbatch.diarization import clustering
from whisperbatch.diarization.clustering import MIN_PIECES, Group, best_division, normalised
from whisperbatch.diarization.naming.directions import FORM, SAME_VOICE, measured
from whisperbatch.diarization.protocol import Embedding
from whisperbatch.diarization.recorder import Memory
from whisperbatch.errors import AudioError

__all__ = ["SAME_VOICE", "similarity", "voice_of"]

MIN_SPEECH: Final = 1.0  # seconds
COMPLETE: Final = 0.6  # of a complete piece; shorter pieces do not show that there are two voices
SEVERAL_VOICES: Final = {"plain": 0.65, "rectified": 0.74}[FORM]
"""Corrected similarity of the halves of a reference below which it has several voices. On the
development voices of benchmarks/diarization, with 10, 20 and 40 pieces in three sounds, the halves
of one voice have at least 0.68 (0.77 with the ReLU). Of references with two voices, 70 to 76 % are
below the limit (45 to 55 % with the ReLU)."""


def voice_of(memory: Memory) -> Embedding:
    """Return the embedding of the voice in a recording.

    Args:
        memory: of the recording.

    Raises:
        AudioError: the recording has less than 1 s of speech by one person at a time, or clearly
            several voices.
    """
    parts = [vectors for vectors in memory.embeddings if len(vectors)]
    seconds = sum(stretch.seconds for stretch in memory.stretches)
    if not parts or seconds < MIN_SPEECH:
        raise AudioError(
            f"has {seconds:.1f} s of speech; give at least {MIN_SPEECH:g} s of this voice, best 5 "
            "to 30 s"
        )
    vectors, weights = np.concatenate(parts), np.array(memory.weights, np.float32)
    complete = vectors[weights >= COMPLETE]
    halves = best_division(complete, Group.of(complete, np.arange(len(complete))), 2, MIN_PIECES)
    if halves and clustering.similarity(*halves) < SEVERAL_VOICES:
        raise AudioError("has several voices; give a recording of one person")
    voice: Embedding = normalised((vectors * weights[:, None]).sum(axis=0))
    return voice


def similarity(one: Embedding, other: Embedding) -> float:
    """Return how similar two voices are; from `SAME_VOICE` on, they are one person's."""
    return measured().similarity(one, other)
