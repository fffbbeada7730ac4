"""Time inside the pipeline: an integer number of samples at 16 kHz."""

from typing import Final

SAMPLING_RATE: Final = 16_000  # Hz, the rate of Whisper's input
MAX_DURATION: Final = 1e9  # seconds that users give or files contain: 30 years


def to_samples(seconds: float) -> int:
    """Convert seconds to samples, rounded to the nearest sample."""
    return round(seconds * SAMPLING_RATE)


def to_seconds(samples: int) -> float:
    """Convert samples to seconds, without rounding."""
    return samples / SAMPLING_RATE
