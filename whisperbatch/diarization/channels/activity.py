r"""In which VAD frames the speaker of each channel speaks.

    left     _____/^^^^^^^^^^\____________     level; the VAD finds speech here,
    right    _____/''''''''''\____/^^^^\__     and in the crosstalk at the beginning, too
    active        L L L L L L     R R R

A channel hears the other speakers, too: often 15 to 30 dB softer than their own channels, and up to
a quarter of a second later (an echo). Its speech counts as crosstalk if it is not louder than what
this channel usually hears of the other, while the other speaks. The usual crosstalk is the median,
so that speech of both at a time is recognized, even if one channel is softer.
"""

from collections.abc import Iterator
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from whisperbatch.options import Options
from whisperbatch.vad.framing import FRAME

Levels: TypeAlias = npt.NDArray[np.float32]
"""dBFS of each VAD frame and channel, shape (n_frames, n_channels)."""
Probabilities: TypeAlias = npt.NDArray[np.float32]
"""Speech probability of each VAD frame and channel, shape (n_frames, n_channels)."""
Activity: TypeAlias = npt.NDArray[np.bool_]
"""Who speaks in each VAD frame, shape (n_frames, n_channels)."""

SILENCE: Final = -100.0  # dBFS
SMOOTHING: Final = 2  # VAD frames before and after that the level of a frame is the mean of: 0.16 s
ECHO: Final = 8  # VAD frames, 0.25 s, in which crosstalk may follow the speech
ABOVE_CROSSTALK: Final = 8.0  # dB: crosstalk varies by less around its median
MIN_KNOWN: Final = 30  # VAD frames of speech, 1 s, from which the crosstalk is known
UNKNOWN: Final = -10.0  # dB, the softest speech beside another channel's if it is not known
SOFTEST, LOUDEST = -30.0, -3.0  # dB, limits of the same value


def levels(samples: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Return the level of each VAD frame in dBFS; the last frame may be shorter."""
    edges = range(0, len(samples), FRAME)
    squares = np.add.reduceat(np.square(samples, dtype=np.float64), edges)
    counts = np.diff([*edges, len(samples)])
    power = np.maximum(squares / counts, 10 ** (SILENCE / 10))
    return (10 * np.log10(power)).astype(np.float32)


def smooth(values: Levels) -> Levels:
    """Return the level of the mean power around each frame."""
    power = 10.0 ** (values.astype(np.float64) / 10)
    padded = np.pad(power, ((SMOOTHING, SMOOTHING), (0, 0)), "edge")
    window = np.lib.stride_tricks.sliding_window_view(padded, 2 * SMOOTHING + 1, axis=0)
    result: Levels = (10 * np.log10(window.mean(axis=-1))).astype(np.float32)
    return result


def held(values: npt.NDArray[np.float32], nothing: float) -> npt.NDArray[np.float32]:
    """Return the highest value of each frame, the frames within `ECHO` before it, and the next."""
    padded = np.pad(values, ((ECHO, 1), (0, 0)), constant_values=nothing)
    window = np.lib.stride_tricks.sliding_window_view(padded, ECHO + 2, axis=0)
    result: npt.NDArray[np.float32] = window.max(axis=-1)
    return result


def softest_speech(
    probabilities: Probabilities, smoothed: Levels, options: Options
) -> npt.NDArray[np.float32]:
    """Return how soft speech can be beside the speech of another channel, without being crosstalk.

    Args:
        probabilities: of some minutes.
        smoothed: of the same frames.
        options: `vad_onset`.

    Returns:
        Level in dB relative to the other channel, shape (n_channels, n_channels): the speaker who
        is louder, then the channel that hears the speaker.
    """
    count = smoothed.shape[1]
    loudest = smoothed.argmax(axis=1)
    peaks = held(smoothed, SILENCE)
    result = np.full((count, count), UNKNOWN, np.float32)
    for speaker in range(count):
        frames = (loudest == speaker) & (probabilities[:, speaker] >= options.vad_onset)
        if np.count_nonzero(frames) >= MIN_KNOWN:
            crosstalk = np.median(smoothed[frames] - peaks[frames, speaker][:, None], axis=0)
            result[speaker] = np.clip(crosstalk + ABOVE_CROSSTALK, SOFTEST, LOUDEST)
    return result


def active(
    probabilities: Probabilities,
    smoothed: Levels,
    softest: npt.NDArray[np.float32],
    options: Options,
) -> Activity:
    """Return who speaks in each frame.

    Args:
        probabilities: of the frames.
        smoothed: of the frames.
        softest: see `softest_speech`.
        options: how speech is found.
    """
    peaks, voiced = held(smoothed, SILENCE), held(probabilities, 0.0) >= options.vad_onset
    result = np.zeros(smoothed.shape, np.bool_)
    for channel in range(smoothed.shape[1]):
        others = [other for other in range(smoothed.shape[1]) if other != channel]
        relative = smoothed[:, [channel]] - peaks[:, others]
        crosstalk = (voiced[:, others] & (relative < softest[others, channel])).any(axis=1)
        own = np.where(crosstalk, 0.0, probabilities[:, channel])
        for start, end in _spans(own, options):
            result[start:end, channel] = True
    return result


def _spans(probabilities: npt.NDArray[np.float32], options: Options) -> list[tuple[int, int]]:
    """Return the speech of a channel as (first frame, frame after the last)."""
    min_silence = round(options.min_silence_duration * 16_000 / FRAME)
    min_speech = round(options.min_speech_duration * 16_000 / FRAME)
    spans: list[tuple[int, int]] = []
    for start, end in runs(probabilities >= options.vad_offset):
        if probabilities[start:end].max() < options.vad_onset:
            continue
        if spans and start - spans[-1][1] < min_silence:
            spans[-1] = (spans[-1][0], end)
        else:
            spans.append((start, end))
    return [(start, end) for start, end in spans if end - start >= min_speech]


def runs(values: Activity) -> Iterator[tuple[int, int]]:
    """Yield (first, after the last) of each run of True in an array of shape (n,)."""
    edges = np.flatnonzero(np.diff(np.concatenate(([False], values, [False]))))
    yield from zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True)
