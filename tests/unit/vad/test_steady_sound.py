"""Steady sound is removed where it is most of the sound; other audio stays exactly as it is."""

import numpy as np
import pytest

from benchmarks.steady_sounds import STEADY, UNSTEADY, at_level, noise, syllables, with_sound
from whisperbatch.types import SAMPLING_RATE, Samples
from whisperbatch.vad.levels import BLOCK, reblock
from whisperbatch.vad.steady_sound import (
    CleanedBlock,
    remove_steady_sound,
    without_steady_sound,
)


def cleaned(sound: np.ndarray) -> list[CleanedBlock]:
    return list(remove_steady_sound(reblock([sound.astype(np.float32)])))


def rms(samples: Samples) -> float:
    return float(np.sqrt(np.mean(np.square(samples, dtype=np.float64))))


@pytest.mark.parametrize("name", STEADY)
@pytest.mark.parametrize("decibels", [15, 22])
def test_steady_sound_is_removed_and_speech_remains(name: str, decibels: float) -> None:
    speech = syllables(12.0)
    sound = with_sound(speech, STEADY[name], decibels)
    blocks = cleaned(sound)
    np.testing.assert_array_equal(
        np.concatenate([block.samples for block in blocks]), sound.astype(np.float32)
    )
    assert all(block.cleaned is not None for block in blocks[:-1])  # the last block is short
    result = without_steady_sound(sound.astype(np.float32))
    assert len(result) == len(sound)
    rest = sound - speech
    assert rms((result - speech).astype(np.float32)) < 0.5 * rms(rest.astype(np.float32))
    before, after = np.corrcoef(sound, speech)[0, 1], np.corrcoef(result, speech)[0, 1]
    assert after > 1.2 * before


@pytest.mark.parametrize("seconds", [0.01, 0.3, 1.9, 4.1])
def test_short_recordings_are_complete(seconds: float) -> None:
    sound = with_sound(syllables(seconds), STEADY["hum of 50 Hz"], 20)
    assert sum(len(block.samples) for block in cleaned(sound)) == len(sound)
    assert len(without_steady_sound(sound.astype(np.float32))) == len(sound)


def test_no_audio_gives_no_block() -> None:
    assert list(remove_steady_sound([])) == []


QUIET_ROOM = at_level(noise(20, 8000, 1)(12 * SAMPLING_RATE, np.random.default_rng(1)), 5e-4)


@pytest.mark.parametrize(
    "sound",
    [
        syllables(12.0),
        np.zeros(12 * SAMPLING_RATE),
        QUIET_ROOM,
        np.concatenate([syllables(12.0), 0.2 * QUIET_ROOM]),
        *(with_sound(syllables(12.0), maker, 12) for maker in UNSTEADY.values()),
        with_sound(syllables(12.0), STEADY["hum of 50 Hz"], -6),
    ],
    ids=["speech", "silence", "room", "pause", *UNSTEADY, "soft hum"],
)
def test_other_audio_stays_exactly_as_it_is(sound: np.ndarray) -> None:
    assert all(block.cleaned is None for block in cleaned(sound))
    samples = sound.astype(np.float32)
    assert without_steady_sound(samples) is samples


def test_hum_that_begins_and_ends_is_removed_where_it_is() -> None:
    speech = syllables(30 * BLOCK / SAMPLING_RATE)
    hum = with_sound(speech, STEADY["hum of 60 Hz"], 20) - speech
    hum[: 10 * BLOCK] = hum[20 * BLOCK :] = 0
    numbers = [n for n, block in enumerate(cleaned(speech + hum)) if block.cleaned is not None]
    assert numbers == list(range(10, 20))


def test_a_block_depends_on_one_block_before_and_after() -> None:
    sound = with_sound(syllables(9 * BLOCK / SAMPLING_RATE), STEADY["telephone"], 14)
    other = sound.copy()
    other[: 3 * BLOCK] = other[6 * BLOCK :] = 0
    for block, changed in list(zip(cleaned(sound), cleaned(other), strict=True))[4:5]:
        assert block.cleaned is not None
        assert changed.cleaned is not None
        assert block.cleaned.tobytes() == changed.cleaned.tobytes()
