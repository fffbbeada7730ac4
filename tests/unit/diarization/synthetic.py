"""Voices, windows and recordings without sound, for tests of the built-in diarizer."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from whisperbatch.diarization.clustering import normalise
from whisperbatch.diarization.embeddings import Memory
from whisperbatch.diarization.segmentation import (
    FRAMES,
    HOP,
    MARGIN,
    SPEAKERS,
    WINDOW_SAMPLES,
    Window,
)

Floats = npt.NDArray[np.float32]
DIMENSIONS = 192
NOISE = 0.8  # as of pieces of 1.5 s: two embeddings of one voice have a similarity of about 0.6


def voices(count: int, likeness: float = 0.3, seed: int = 0) -> Floats:
    """Return voices of length 1, each two with about this cosine similarity."""
    random = np.random.default_rng(seed)
    apart = normalise(random.standard_normal((count + 1, DIMENSIONS)).astype(np.float32))
    return normalise(np.sqrt(likeness) * apart[-1] + np.sqrt(1 - likeness) * apart[:-1])


def embeddings(voices: Floats, who: Sequence[int], noise: float = NOISE, seed: int = 1) -> Floats:
    """Return an embedding for each piece: the voice of its speaker, and noise of this length."""
    random = np.random.default_rng(seed)
    noises = normalise(random.standard_normal((len(who), DIMENSIONS)).astype(np.float32))
    return normalise(voices[list(who)] + noise * noises)


def window(*stretches: tuple[int, int, Sequence[int]], number: int = 0, end: int = 0) -> Window:
    """Return a window in which tracks are active: (first frame, frame after the last, tracks).

    Args:
        stretches: frames are counted in the window.
        number: of the window in the recording.
        end: the frame after the last of the recording, if this is the last window.
    """
    activity = np.zeros((FRAMES, SPEAKERS), np.bool_)
    for first, last, tracks in stretches:
        activity[first:last, list(tracks)] = True
    region = (MARGIN if number else 0, end or MARGIN + HOP)
    alone = np.zeros((FRAMES, SPEAKERS), np.float32)
    return Window(number * HOP, activity, alone, region, np.zeros(WINDOW_SAMPLES, np.float32))


def timeline(memory: Memory, frames: int) -> list[int]:
    """Return how many stretches and overlaps of the memory contain each frame."""
    counts = np.zeros(frames, np.int64)
    for stretch in memory.segments:
        counts[stretch.start : stretch.end] += 1
    for overlap in memory.overlaps:
        counts[overlap.start : overlap.end] += 1
    result: list[int] = counts.tolist()
    return result
