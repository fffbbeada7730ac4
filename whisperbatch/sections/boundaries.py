r"""The boundary between two sections: the best place within a search window.

probability   ^^^^\__/^^^^^^\_______________/^^^^^\___/^^^^
pauses             ==         ==============        ===
level                         ~~~~~____~~~~~
boundary                              |
"""

from typing import Final

import numpy as np
import numpy.typing as npt

from whisperbatch.chunking.spans import cut_costs
from whisperbatch.types import SAMPLING_RATE, SpeechFrames

FULL_PAUSE: Final = SAMPLING_RATE  # samples; a longer pause is no better (`merge.LONG_PAUSE`)


def find_boundary(window: SpeechFrames, hop: int, vad_offset: float) -> int:
    """Return the VAD frame of a window with which a section begins.

    The boundary lies in the middle of a pause. The longest pause is chosen, because it is certainly
    no pause within a sentence; from `FULL_PAUSE` on, the quietest part of all long pauses. The VAD
    may reject soft speech, which is not quiet. Without a pause, the boundary is the place where
    speech is least likely and the audio is quietest, as in a long speech span.

    Args:
        window: the audio of the search window, and the probabilities of its VAD frames.
        hop: samples per VAD frame.
        vad_offset: frames with a lower probability of speech are pauses.

    Returns:
        From 0 to the number of frames, without this number.
    """
    probabilities = window.probabilities
    pauses = probabilities < vad_offset
    size = min(_longest_run(pauses.tolist()), max(FULL_PAUSE // hop, 1))
    if not size:
        costs = cut_costs(window.varying, probabilities, hop)
        return 1 + _middle_of_lowest(costs[:-1] + costs[1:])
    levels = cut_costs(window.varying, np.zeros_like(probabilities), hop)
    starts = np.flatnonzero(_sums(pauses.astype(np.float64), size) == size)
    return int(starts[_middle_of_lowest(_sums(levels, size)[starts])]) + size // 2


def _longest_run(flags: list[bool]) -> int:
    """Return the length of the longest run of True."""
    longest = length = 0
    for flag in flags:
        length = length + 1 if flag else 0
        longest = max(longest, length)
    return longest


def _sums(values: npt.NDArray[np.float64], size: int) -> npt.NDArray[np.float64]:
    """Return the sum of every `size` consecutive values."""
    sums: npt.NDArray[np.float64]
    sums = np.lib.stride_tricks.sliding_window_view(values, size).sum(axis=1)
    return sums


def _middle_of_lowest(costs: npt.NDArray[np.float64]) -> int:
    """Return the index of the lowest cost; of several, of the middle one."""
    lowest = np.flatnonzero(costs == costs.min())
    return int(lowest[len(lowest) // 2])
