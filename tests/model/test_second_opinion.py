"""Speech that the VAD rejects comes back, and music and noise stay without text: real weights.

The speech: a normal voice, then faint voices that only have the band from 600 to 2500 Hz, as behind
a wall or on a bad line. Whisper understands them; Silero's probabilities are below 0.1.
"""

from functools import cache

import numpy as np
import pytest

import whisperbatch as wb
from benchmarks import clips, recordings, scoring, sounds, speech
from benchmarks.recordings import SAMPLING_RATE, Samples

MUFFLED = (600.0, 2500.0)  # Hz
FAINT = -33.0  # dBFS


@cache
def faint_voices() -> tuple[Samples, str]:
    """Return a recording and its text: a normal voice before and after each faint voice."""
    normal, *others = clips.librivox_clips()
    others += [clip for clip in clips.audioeval_clips() if clip.utterances[0].language == "en"]
    loud = sounds.at_level(normal.samples.astype(np.float64), -20)
    pause = np.zeros(SAMPLING_RATE)
    parts, texts = [loud], [normal.utterances[0].text]
    for clip in others:
        faint = sounds.at_level(sounds.band(clip.samples.astype(np.float64), *MUFFLED), FAINT)
        parts += [pause, faint, pause, loud]
        texts += [clip.utterances[0].text, normal.utterances[0].text]
    sound = np.concatenate(parts)
    noise = sounds.white(len(sound), recordings.random_from(0))
    return sounds.rounded(sound + sounds.at_level(noise, -62)), " ".join(texts)


@pytest.mark.parametrize(
    ("model", "max_share"), [("base", 0.3), pytest.param("tiny.en", 0.8, marks=pytest.mark.slow)]
)
def test_faint_voices_that_the_vad_rejects_come_back(
    request: pytest.FixtureRequest, model: str, max_share: float
) -> None:
    asr = request.getfixturevalue("base" if model == "base" else "tiny")
    samples, text = faint_voices()
    lost, found = (
        asr.transcribe(samples, language="en", beam_size=1, second_opinion=second_opinion)
        for second_opinion in (False, True)
    )
    missing, left = (
        scoring.word_error_rate(text, transcript.text).deletions for transcript in (lost, found)
    )
    assert missing >= 20
    assert left <= max_share * missing
    assert found.recovered_duration > 5
    assert found.recovered_duration <= found.checked_duration + 6 * len(found.segments)
    assert lost.checked_duration == 0
    starts = [segment.start for segment in found.segments]
    assert starts == sorted(starts)


@pytest.mark.slow
def test_the_language_of_rejected_speech_needs_no_option(base: wb.Transcriber) -> None:
    samples, text = faint_voices()
    found = base.transcribe(samples, beam_size=1)
    assert found.language == "en"
    assert found.recovered_duration > 5
    assert scoring.word_error_rate(text, found.text).deletions <= 15


@pytest.mark.slow
def test_music_and_animals_give_no_text(base: wb.Transcriber) -> None:
    monkeys = speech.asterisk("en")[0] / "tt-monkeys.g722"
    for path in (*speech.music()[:2], monkeys):
        samples = clips.decode(path)[: 90 * SAMPLING_RATE]
        found = base.transcribe(samples, language="en", beam_size=1)
        assert found.recovered_duration == 0
        assert found.text == ""
        if path != monkeys:
            assert found.checked_duration <= 0.3 * found.duration
