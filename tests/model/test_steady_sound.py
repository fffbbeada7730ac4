"""Speech under a louder steady sound keeps its words, and the sound alone gives none: real weights.

Each row is a situation of a public report. The sound is louder than the speech by some decibels;
before, no word or less than half of the words was left in all of these rows but one.
"""

import logging
from functools import cache

import numpy as np
import pytest

import whisperbatch as wb
from benchmarks import recordings, scoring
from benchmarks.recordings import Recording
from benchmarks.steady_sounds import STEADY, UNSTEADY, Sound, at_level, with_sound

AEROPLANE = "https://github.com/saurabhav88/EnviousWispr/issues/2184"
ENGINE = "https://github.com/saurabhav88/EnviousWispr/pull/2192"
AIR_CONDITIONER = "https://github.com/dmarzzz/VoxTerm/pull/141"
AQUARIUM = "https://github.com/rhasspy/rhasspy/issues/126"
HUMMING = "https://github.com/MTG/essentia/issues/423"
FAN = "https://github.com/macmixing/keyvox/pull/120"
TONES = "https://github.com/peteonrails/voxtype/pull/161"
CEILING_FAN = "https://github.com/daanzu/kaldi-active-grammar/issues/70"
RINGING = "https://github.com/snakers4/silero-vad/issues/430"
SERVO = "https://github.com/espressif/esp-box/issues/162"

SPEECH = [  # situation, source, sound, decibels above the speech, least part of the words
    ("hum in a recording of speech", HUMMING, "hum of 50 Hz", 20, 0.9),
    ("the same where mains have 60 Hz", HUMMING, "hum of 60 Hz", 18, 0.9),
    ("transformer of an aquarium pump", AQUARIUM, "buzz of a ground loop", 12, 0.7),
    ("high pitch of a washing machine", AQUARIUM, "whistle", 24, 0.8),
    ("aeroplane cabin", AEROPLANE, "cabin", 24, 0.8),
    ("power supply of an aircraft", AEROPLANE, "aircraft power", 18, 0.9),
    ("fan beside the microphone", ENGINE, "fan", 14, 0.7),
    ("air conditioner", AIR_CONDITIONER, "air conditioner", 20, 0.7),
]
NO_SPEECH = [  # situation, source, sound
    ("fan, no words", FAN, "fan"),
    ("ceiling fan", CEILING_FAN, "air conditioner"),
    ("tones", TONES, "test tone"),
    ("white noise", TONES, "white"),
    ("ringing of a telephone line", RINGING, "aircraft power"),
    ("servo motor", SERVO, "buzz of a ground loop"),
    ("hum", HUMMING, "hum of 50 Hz"),
]


@cache
def speech() -> Recording:
    return recordings.prompts("en", duration=40, seed=3)


def sound_of(decibels: float, name: str) -> Sound:
    sound = with_sound(speech().samples / 32768, STEADY[name], decibels)
    result: Sound = sound * min(1.0, 0.9 / np.abs(sound).max())
    return result


@pytest.mark.parametrize(
    ("name", "decibels", "least"),
    [row[2:] for row in SPEECH],
    ids=[f"{row[0]} ({row[1].partition('github.com/')[2]})" for row in SPEECH],
)
def test_speech_under_steady_sound_keeps_its_words(
    base: wb.Transcriber, name: str, decibels: float, least: float
) -> None:
    samples = sound_of(decibels, name).astype(np.float32)
    found = base.transcribe(samples, language="en", beam_size=1)
    score = scoring.word_error_rate(speech().text, found.text, "en")
    right = score.words - score.deletions - score.substitutions
    assert right >= least * score.words
    assert score.insertions <= 0.05 * score.words
    assert found.notices == ()


@pytest.mark.parametrize(
    "name",
    [row[2] for row in NO_SPEECH],
    ids=[f"{row[0]} ({row[1].partition('github.com/')[2]})" for row in NO_SPEECH],
)
def test_steady_sound_without_speech_gives_no_text(
    base: wb.Transcriber, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    rng = np.random.default_rng(7)
    maker = {**STEADY, **UNSTEADY}[name]
    count = 400 * recordings.SAMPLING_RATE
    sound = at_level(maker(count, rng), 0.08) + 1e-3 * rng.standard_normal(count)
    with caplog.at_level(logging.WARNING):
        found = base.transcribe(sound.astype(np.float32), language="en", beam_size=1)
    assert found.text == ""
    assert found.checked_duration <= 0.15 * found.duration
    assert {notice.kind for notice in found.notices} == {"no speech"}
    assert found.notices[0].start == 0.0
    assert found.notices[-1].end == pytest.approx(400.0)
    assert "no text" in caplog.text


def test_a_silent_recording_says_so(base: wb.Transcriber) -> None:
    found = base.transcribe(np.zeros(20 * recordings.SAMPLING_RATE, np.float32), language="en")
    assert [notice.text.partition(";")[0] for notice in found.notices] == ["the audio is silent"]


def test_clean_speech_is_unchanged_by_hum_elsewhere(base: wb.Transcriber) -> None:
    """Ten seconds after hum, the words and their times are those without hum."""
    clean = (speech().samples / 32768).astype(np.float32)
    pause = np.zeros(10 * recordings.SAMPLING_RATE, np.float32)
    hum = sound_of(17, "hum of 50 Hz").astype(np.float32)
    found = base.transcribe(np.concatenate([hum, pause, clean]), language="en", beam_size=1)
    score = scoring.word_error_rate(f"{speech().text} {speech().text}", found.text, "en")
    assert score.deletions <= 0.06 * score.words
