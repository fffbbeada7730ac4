"""Change the tempo of a voice, its pitch, or both."""

from typing import Final

import numpy as np

from benchmarks.sounds import Sound

FRAME: Final = 480  # samples, 30 ms: two periods of the lowest voices
HOP: Final = FRAME // 2  # samples between the frames of the result
SEARCH: Final = 160  # samples, 10 ms: how far a frame may move to continue the frame before it


def stretched(sound: Sound, factor: float) -> Sound:
    """Return the sound `factor` times as long, with the same pitch.

    Waveform-similarity overlap-add (WSOLA; Verhelst and Roelands, 1993): frames of the sound are
    added up at another distance, and each frame moves by up to 10 ms so that its waveform continues
    the frame before it.
    """
    count = round(len(sound) * factor)
    frames = 1 + -(-count // HOP)
    padded = np.pad(sound, (FRAME + SEARCH, 2 * FRAME + 2 * SEARCH))
    window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(FRAME) / FRAME)
    result = np.zeros((frames + 1) * HOP)
    previous = 0  # start of the previous frame in `padded`
    for number in range(frames):
        ideal = FRAME + SEARCH + round((number - 1) * HOP / factor)
        ideal = min(max(ideal, SEARCH), len(padded) - FRAME - SEARCH)
        start = ideal
        if number:
            continuation = padded[previous + HOP : previous + FRAME]
            region = padded[ideal - SEARCH : ideal + SEARCH + len(continuation)]
            start += int(np.argmax(np.correlate(region, continuation))) - SEARCH
        result[number * HOP : number * HOP + FRAME] += window * padded[start : start + FRAME]
        previous = start
    return result[HOP : HOP + count]


def resampled(sound: Sound, count: int) -> Sound:
    """Return the sound at another sampling rate, so that it has `count` samples."""
    spectrum = np.fft.rfft(sound)
    return np.fft.irfft(spectrum[: count // 2 + 1], count) * (count / len(sound))


def pitch_shifted(sound: Sound, semitones: float) -> Sound:
    """Return the sound, of the same length, with all frequencies higher by `semitones`."""
    return resampled(stretched(sound, 2 ** (semitones / 12)), len(sound))
