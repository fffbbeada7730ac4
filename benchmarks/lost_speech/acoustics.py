"""Babble of many voices, and a gain control that pumps."""

from functools import cache
from random import Random
from typing import Final

import numpy as np

from benchmarks import clips, speech
from benchmarks.recordings import SAMPLING_RATE
from benchmarks.sounds import FULL_SCALE, Sound, at_level

BLOCK: Final = 160  # samples, 10 ms: the gain control measures the level of each block
TARGET: Final = -18.0  # dBFS to which the gain control brings the sound
MAX_GAIN: Final = 30.0  # dB
ATTACK: Final = 100.0  # dB per second at which the gain falls when the sound is too loud
RELEASE: Final = 15.0  # dB per second at which the gain rises when the sound is too soft
DETECTOR: Final = 0.05  # seconds over which the level is measured
LEVELS: Final = (-6.0, 0.0)  # dB: level of each voice of a babble


def babble(count: int, rng: Random, n_voices: int = 8) -> Sound:
    """Return `count` samples of many voices at the same time, in five languages, in reverse.

    No word of reversed speech can be recognized, so the truth has no text for the babble.
    """
    total = np.zeros(count)
    for number in range(n_voices):
        stream = _stream(speech.LANGUAGES[number % len(speech.LANGUAGES)])
        start = rng.randrange(len(stream))
        voice = np.resize(np.roll(stream, -start), count).astype(np.float64)
        total += at_level(voice[::-1], rng.uniform(*LEVELS))
    return total


@cache
def _stream(language: str) -> clips.Samples:
    """Return the first prompts of a language, joined: about five minutes."""
    return np.concatenate([clip.samples for clip in clips.asterisk_clips(language)[:120]])


def gain_controlled(sound: Sound) -> Sound:
    """Return the sound after a slow automatic gain control without a noise gate.

    In a pause the gain rises until the noise is loud. The next word is too loud, and clipped, until
    the gain has fallen; a soft voice after a loud voice stays soft until the gain has risen.
    """
    count = -(-len(sound) // BLOCK)
    blocks = np.pad(sound, (0, count * BLOCK - len(sound))).reshape(count, BLOCK)
    power = (blocks**2).mean(axis=1) / FULL_SCALE**2
    seconds = BLOCK / SAMPLING_RATE
    smoothing = seconds / DETECTOR
    gains, gain, smoothed = [], 0.0, 1e-7
    for value in power:
        smoothed += smoothing * (float(value) - smoothed)
        wanted = min(TARGET - 10 * np.log10(smoothed + 1e-10), MAX_GAIN)
        gain += min(max(wanted - gain, -ATTACK * seconds), RELEASE * seconds)
        gains.append(gain)
    centres = BLOCK * (np.arange(count) + 0.5)
    curve = np.interp(np.arange(len(sound)), centres, gains)
    controlled: Sound = np.clip(sound * 10 ** (curve / 20), -FULL_SCALE, FULL_SCALE - 1)
    return controlled
