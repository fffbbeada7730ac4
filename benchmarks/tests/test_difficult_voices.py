"""Difficult voices and rooms: tempo, pitch, whisper, hoarseness, echo, babble, gain control."""

import numpy as np
import pytest

from benchmarks.lost_speech import acoustics, voices
from benchmarks.lost_speech.timescale import pitch_shifted, resampled, stretched
from benchmarks.recordings import random_from
from benchmarks.sounds import Sound, level, white

RATE = 16_000
PITCH = 125  # Hz


def buzz(seconds: float = 2.0) -> Sound:
    """Return a voice-like sound: harmonics of 125 Hz up to 4 kHz, with a break in the middle."""
    times = np.arange(round(seconds * RATE)) / RATE
    sound = np.sum([np.sin(2 * np.pi * PITCH * n * times) / n for n in range(1, 32)], axis=0)
    loud: Sound = 3000 * sound * ((times < 0.4 * seconds) | (times > 0.6 * seconds))
    return loud


def peak_hertz(sound: Sound) -> float:
    power = np.abs(np.fft.rfft(sound * np.hanning(len(sound)))) ** 2
    return float(np.argmax(power) * RATE / len(sound))


def power_between(sound: Sound, low: float, high: float) -> float:
    power = np.abs(np.fft.rfft(sound)) ** 2
    hertz = np.fft.rfftfreq(len(sound), 1 / RATE)
    return float(power[(hertz >= low) & (hertz < high)].sum() / power.sum())


def voiced_share(sound: Sound) -> float:
    """Return the share of the loud windows that have a pitch."""
    _, voiced = voices.track_pitch(sound)
    windows = np.lib.stride_tricks.sliding_window_view(sound, voices.PITCH_WINDOW)[
        :: voices.PITCH_HOP
    ]
    power = (windows**2).mean(axis=1)
    return float(voiced[power > power.max() / 10].mean())


@pytest.mark.parametrize("factor", [1 / 0.7, 1 / 0.85, 1.0, 1 / 1.3])
def test_the_tempo_changes_and_the_pitch_does_not(factor: float) -> None:
    sound = buzz()
    changed = stretched(sound, factor)
    assert len(changed) == round(len(sound) * factor)
    assert peak_hertz(changed) == pytest.approx(PITCH, abs=2)
    assert level(changed) == pytest.approx(level(sound), abs=0.5)
    third = len(changed) // 10
    middle = changed[len(changed) // 2 - third // 2 : len(changed) // 2 + third // 2]
    assert (middle**2).mean() < (sound**2).mean() / 1000  # the break is where it belongs


@pytest.mark.parametrize("semitones", [-5.0, 4.0])
def test_the_pitch_changes_and_the_length_does_not(semitones: float) -> None:
    sound = buzz()
    changed = pitch_shifted(sound, semitones)
    assert len(changed) == len(sound)
    assert peak_hertz(changed) == pytest.approx(PITCH * 2 ** (semitones / 12), abs=3)


def test_resampling_keeps_the_amplitude() -> None:
    sound = np.sin(2 * np.pi * 200 * np.arange(RATE) / RATE)
    assert np.allclose(
        resampled(sound, RATE // 2), np.sin(2 * np.pi * 400 * np.arange(RATE // 2) / RATE)
    )


def test_the_pitch_of_a_voice_is_tracked() -> None:
    pitch, voiced = voices.track_pitch(buzz())
    assert np.median(pitch[voiced]) == pytest.approx(PITCH, abs=1)
    assert voiced[: len(voiced) // 3].all()
    assert not voices.track_pitch(white(RATE, random_from(0)))[1].any()


def test_a_whisper_has_no_pitch_and_follows_the_voice() -> None:
    sound = buzz()
    whisper = voices.whispered(sound, random_from(1))
    assert len(whisper) == len(sound)
    assert voiced_share(sound) > 0.95
    assert voiced_share(whisper) < 0.1
    middle = whisper[int(0.45 * len(sound)) : int(0.55 * len(sound))]
    assert level(middle) < level(whisper) - 40
    assert power_between(whisper, 0, 4200) > 0.95  # the voice has nothing above 4 kHz


def test_a_hoarse_voice_is_slow_rough_and_breathy() -> None:
    sound = buzz()
    rough = voices.hoarse(sound, random_from(1))
    assert len(rough) == round(len(sound) / voices.TEMPO_HOARSE)
    between = (PITCH * 1.4, PITCH * 1.6)  # between the first two harmonics
    assert power_between(rough, *between) > 10 * power_between(sound, *between)
    assert voiced_share(rough) < 0.9


def test_severe_voices_are_dull() -> None:
    sound = white(RATE, random_from(0))
    shares = [power_between(voices.dull(sound, severity), 2000, 8000) for severity in (0, 0.5, 1)]
    assert shares[0] == pytest.approx(0.75, abs=0.02)
    assert shares[0] > shares[1] > shares[2]
    assert shares[2] < 0.05


def test_a_distant_voice_has_an_echo() -> None:
    sound = buzz()[: RATE // 2]
    far = voices.distant(sound, random_from(2))
    tail = far[len(sound) :]
    assert 0.25 * RATE <= len(tail) <= 0.45 * RATE
    eighth = len(tail) // 8
    assert level(tail[:eighth]) > level(far) - 25
    assert level(tail[-eighth:]) < level(tail[:eighth]) - 10


@pytest.mark.parametrize(
    "effect", [voices.whispered, voices.hoarse, voices.shifted, voices.distant]
)
def test_the_same_generator_gives_the_same_voice(effect: voices.Effect) -> None:
    sound = buzz()
    first, again, other = (effect(sound, random_from(seed)) for seed in (3, 3, 4))
    assert np.array_equal(first, again)
    assert len(first) != len(other) or not np.array_equal(first, other)


def test_silence_stays_finite() -> None:
    effects: list[voices.Effect] = [
        *(voices.unchanged, voices.whispered, voices.slowed, voices.sped_up, voices.shifted),
        voices.distant,
    ]
    for effect in effects:
        assert np.isfinite(effect(np.zeros(RATE), random_from(0))).all()


def test_a_gain_control_raises_pauses_and_overshoots() -> None:
    noise = white(10 * RATE, random_from(0))
    sound = noise * 10 ** (-50 / 20)
    sound[: 2 * RATE] = noise[: 2 * RATE] * 10 ** (-14 / 20)
    sound[8 * RATE :] = noise[8 * RATE :] * 10 ** (-14 / 20)
    controlled = acoustics.gain_controlled(sound)
    seconds = [level(second) for second in controlled.reshape(10, RATE)]
    assert seconds[1] == pytest.approx(acoustics.TARGET, abs=1)
    assert seconds[7] > seconds[2] + 15  # the noise has become loud
    assert level(controlled[8 * RATE : 8 * RATE + 800]) > acoustics.TARGET + 6
    assert seconds[9] == pytest.approx(acoustics.TARGET, abs=1)


def test_babble_is_many_voices() -> None:
    first, again, other = (acoustics.babble(5 * RATE, random_from(seed)) for seed in (0, 0, 1))
    assert len(first) == 5 * RATE
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)
    assert min(level(part) for part in first.reshape(10, -1)) > level(first) - 8  # no pause
