"""A signal that is computed in the same way everywhere."""

import numpy as np

from whisperbatch.types import Samples


def voice(length: int) -> Samples:
    """Twenty harmonics of a gliding tone, in bursts, with noise; at 16 kHz."""
    time = np.arange(length) / 16_000
    tones = [
        np.sin(2 * np.pi * k * (120 * time + 9 * np.sin(2 * np.pi * 0.7 * time))) / k
        for k in range(1, 21)
    ]
    noise = (np.arange(length, dtype=np.uint64) * 2654435761 % 2**32) / 2**32 - 0.5
    bursts = np.maximum(0, np.sin(2 * np.pi * 0.35 * time))
    samples: Samples = (0.1 * np.sum(tones, axis=0) * bursts + 0.01 * noise).astype(np.float32)
    return samples
