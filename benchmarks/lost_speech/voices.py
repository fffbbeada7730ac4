"""Change a normal voice into a difficult voice, with the same words.

Each function takes a sound (see `benchmarks.sounds`) and a random generator, and returns the
changed sound. The same state of the generator gives the same voice. The level of the result means
nothing: the caller sets it.
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
WHISPER_DULLNESS: Final = 0.7  # of the dullness of a hoarse voice
LOWEST_PITCH, HIGHEST_PITCH = 60, 400  # Hz
PITCH_WINDOW: Final = 640  # samples, 40 ms: two periods at 60 Hz with half of the window
PITCH_HOP: Final = 160
VOICED: Final = 0.4  # autocorrelation at the period, relative to the power
SEVERITY: Final = (0.4, 1.0)  # of hoarse and whispered voices: 0 is mild, 1 is severe
# Of a hoarse voice, from slightly to severely hoarse. Silero (after gain control) rejects next to
# nothing of the mild voices, and 97 % of the severe voices.
JITTER: Final = (0.1e-3, 0.3e-3)  # seconds: 1 to 6 % of the period of an adult's voice
SUBHARMONIC: Final = (0.5, 0.95)  # how much softer every second period is
BREATH: Final = (-6.0, 10.0)  # dB: breath noise relative to the voice
DULL_CORNER: Final = (4000.0, 700.0)  # Hz
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

    A whisper has no pitch and less energy below 1 kHz. It is more or less dull, and its level
    follows the voice.
    """
    severity = rng.uniform(*SEVERITY)
    spectra = _spectra(sound)
    noise = _spectra(white(len(sound), rng))
    hertz = np.fft.rfftfreq(WINDOW, 1 / SAMPLING_RATE)
    tilt = hertz / (hertz + 500)
    flat = noise / np.sqrt((np.abs(noise) ** 2).mean())
    whisper = _overlap_add(_envelope(np.abs(spectra)) * tilt * flat, len(sound))
    return dull(whisper, WHISPER_DULLNESS * severity)


def hoarse(sound: Sound, rng: Random) -> Sound:
    """Return a rough, slow voice: irregular periods (jitter), subharmonics, and breath noise.

    Every second period is softer, as of vocal folds that vibrate unequally. The voice is slightly
    to severely hoarse: with more breath, it is also duller. The tempo is 0.85.
    """
    severity = rng.uniform(*SEVERITY)
    sound = stretched(sound, 1 / TEMPO_HOARSE)
    pitch, is_voiced = track_pitch(sound)
    centres = PITCH_HOP * np.arange(len(pitch)) + PITCH_WINDOW / 2
    samples = np.arange(len(sound))
    hertz = np.interp(samples, centres, pitch)
    depth = _between(SUBHARMONIC, severity) * np.interp(samples, centres, is_voiced)
    cycle = np.cumsum(hertz) / SAMPLING_RATE
    subharmonic = sound * (1 - depth * (0.5 + 0.5 * np.cos(np.pi * cycle)))
    points = np.arange(0, len(sound) + 80, 80)  # an independent deviation every 5 ms
    deviation = [rng.gauss(0, _between(JITTER, severity) * SAMPLING_RATE) for _ in points]
    rough = np.interp(samples + np.interp(samples, points, deviation), samples, subharmonic)
    breath = at_level(whispered(sound, rng), level(rough) + _between(BREATH, severity))
    return dull(rough + breath, severity)


def dull(sound: Sound, severity: float) -> Sound:
    """Return the sound with softer high frequencies: above 4 kHz (mild) to above 700 Hz (severe).

    The slope is 0 (severity 0) to 12 dB per octave (severity 1).
    """
    corner = DULL_CORNER[0] * (DULL_CORNER[1] / DULL_CORNER[0]) ** severity
    hertz = np.fft.rfftfreq(len(sound), 1 / SAMPLING_RATE)
    return np.fft.irfft(np.fft.rfft(sound) / (1 + (hertz / corner) ** 2) ** severity, len(sound))


def _between(ends: tuple[float, float], severity: float) -> float:
    return ends[0] + severity * (ends[1] - ends[0])


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

    The period is where the autocorrelation has its maximum; the pitch of unvoiced
    windows means nothing.
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
