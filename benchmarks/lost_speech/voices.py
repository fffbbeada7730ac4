"""Change a normal voice into a difficult voice, with the same words.

Each function takes a sound (see `benchmarks.sounds`) and a random generator, and returns the changed
sound. Its level means nothing: the caller sets it.
"""

from collections.abc import Callable
from random import Random
from typing import Final

import numpy as np
import numpy.typing as npt

from benchmarks.lost_speech.timescale import pitch_shifted, stretched
from benchmarks.recordings import SAMPLING_RATE
from benchmarks.sounds import Sound, at_level, band, level, white

WINDOW: Final = 512  # samples of a short-time spectrum, 32 ms
HOP: Final = WINDOW // 4
ENVELOPE: Final = 30  # cepstral coefficients, up to 1.9 ms: formants, without the pitch
LOWEST_PITCH, HIGHEST_PITCH = 60, 400  # Hz
PITCH_WINDOW: Final = 640  # samples, 40 ms: two periods at 60 Hz with half of the window
PITCH_HOP: Final = 160
VOICED: Final = 0.4  # autocorrelation at the period, relative to the power
JITTER: Final = 0.15e-3  # seconds: 2 to 3 % of the period of an adult's voice
HOARSE_BREATH: Final = -6.0  # dB: breath noise relative to the voice
MAX_SHIFT, MIN_SHIFT = 5.0, 3.0  # semitones
TEMPO_SLOW, TEMPO_FAST, TEMPO_HOARSE = 0.7, 1.3, 0.85
REVERBERATION: Final = (0.5, 0.9)  # seconds until the echo is 60 dB softer: living room to hall
DIRECT: Final = (-6.0, 0.0)  # dB: direct sound relative to the echo, 2 to 4 m from the microphone
DISTANT_BAND: Final = (100.0, 5000.0)  # Hz


def unchanged(sound: Sound, _: Random) -> Sound:
    """Return the sound itself."""
    return sound


def whispered(sound: Sound, rng: Random) -> Sound:
    """Return the voice as a whisper: the spectral envelope of each 32 ms, filled with noise.

    A whisper has no pitch and less energy below 1 kHz.
    """
    spectra = _spectra(sound)
    noise = _spectra(white(len(sound), rng))
    hertz = np.fft.rfftfreq(WINDOW, 1 / SAMPLING_RATE)
    tilt = hertz / (hertz + 500)
    # Noise of one level in all frames, so that the level of the whisper follows the voice.
    flat = noise / np.sqrt((np.abs(noise) ** 2).mean())
    return _overlap_add(_envelope(np.abs(spectra)) * tilt * flat, len(sound))


def hoarse(sound: Sound, rng: Random) -> Sound:
    """Return a rough, slow voice: irregular periods (jitter), subharmonics, and breath noise.

    Every second period is softer, as of vocal folds that vibrate unequally. The tempo is 0.85.
    """
    sound = stretched(sound, 1 / TEMPO_HOARSE)
    pitch, is_voiced = track_pitch(sound)
    centres = PITCH_HOP * np.arange(len(pitch)) + PITCH_WINDOW / 2
    samples = np.arange(len(sound))
    hertz = np.interp(samples, centres, pitch)
    depth = 0.7 * np.interp(samples, centres, is_voiced)
    cycle = np.cumsum(hertz) / SAMPLING_RATE
    subharmonic = sound * (1 - depth * (0.5 + 0.5 * np.cos(np.pi * cycle)))
    points = np.arange(0, len(sound) + 80, 80)  # an independent deviation every 5 ms
    deviation = [rng.gauss(0, JITTER * SAMPLING_RATE) for _ in points]
    rough = np.interp(samples + np.interp(samples, points, deviation), samples, subharmonic)
    breath = whispered(sound, rng)
    return rough + at_level(breath, level(rough) + HOARSE_BREATH)


def slowed(sound: Sound, _: Random) -> Sound:
    """Return the voice at 0.7 times its tempo."""
    return stretched(sound, 1 / TEMPO_SLOW)


def sped_up(sound: Sound, _: Random) -> Sound:
    """Return the voice at 1.3 times its tempo."""
    return stretched(sound, 1 / TEMPO_FAST)


def shifted(sound: Sound, rng: Random) -> Sound:
    """Return the voice 3 to 5 semitones higher or lower."""
    return pitch_shifted(sound, rng.choice((-1, 1)) * rng.uniform(MIN_SHIFT, MAX_SHIFT))


def distant(sound: Sound, rng: Random) -> Sound:
    """Return the voice from the far end of a room, longer by half of the reverberation."""
    reverberation = rng.uniform(*REVERBERATION)
    count = round(reverberation * SAMPLING_RATE)
    seconds = np.arange(count) / SAMPLING_RATE
    echo = white(count, rng) * 10 ** (-3 * seconds / reverberation)
    echo /= np.sqrt((echo**2).sum())
    echo[0] += 10 ** (rng.uniform(*DIRECT) / 20)
    length = len(sound) + count
    reverberant = np.fft.irfft(np.fft.rfft(sound, length) * np.fft.rfft(echo, length), length)
    return band(reverberant[: len(sound) + count // 2], *DISTANT_BAND)


Effect = Callable[[Sound, Random], Sound]


def track_pitch(sound: Sound) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.bool_]]:
    """Return the pitch in Hz and whether the sound is voiced, for windows of 40 ms every 10 ms.

    The period is where the autocorrelation has its maximum; unvoiced windows have a pitch too, which
    means nothing.
    """
    padded = np.pad(sound, (0, max(PITCH_WINDOW - len(sound), 0)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, PITCH_WINDOW)[::PITCH_HOP]
    power = np.abs(np.fft.rfft(windows * np.hanning(PITCH_WINDOW), 2 * PITCH_WINDOW)) ** 2
    correlation = np.fft.irfft(power)[:, :PITCH_WINDOW]
    shortest, longest = SAMPLING_RATE // HIGHEST_PITCH, SAMPLING_RATE // LOWEST_PITCH
    periods = shortest + np.argmax(correlation[:, shortest:longest], axis=1)
    peaks = correlation[np.arange(len(periods)), periods]
    return SAMPLING_RATE / periods, peaks > VOICED * np.maximum(correlation[:, 0], 1e-9)


def _spectra(sound: Sound) -> npt.NDArray[np.complex128]:
    """Return the short-time spectra of a sound: shape (n_windows, WINDOW / 2 + 1)."""
    padded = np.pad(sound, (WINDOW, 2 * WINDOW))
    windows = np.lib.stride_tricks.sliding_window_view(padded, WINDOW)[::HOP]
    return np.fft.rfft(windows * _window())


def _overlap_add(spectra: npt.NDArray[np.complex128], count: int) -> Sound:
    """Return the first `count` samples of the sound with these short-time spectra."""
    result = np.zeros(len(spectra) * HOP + WINDOW)
    for number, piece in enumerate(np.fft.irfft(spectra, WINDOW) * _window()):
        result[number * HOP : number * HOP + WINDOW] += piece
    return result[WINDOW : WINDOW + count] / 1.5  # the sum of the squared windows


def _window() -> Sound:
    return 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(WINDOW) / WINDOW)


def _envelope(magnitudes: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return the smooth envelope of short-time spectra, from the first cepstral coefficients."""
    cepstrum = np.fft.irfft(np.log(magnitudes + 1e-3))
    cepstrum[:, ENVELOPE : WINDOW - ENVELOPE + 1] = 0
    return np.exp(np.fft.rfft(cepstrum).real)
