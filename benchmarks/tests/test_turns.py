"""Recordings of difficult voices after normal voices, and recordings without speech."""

from collections import Counter
from functools import cache
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from benchmarks import clips, corpora, manifest, recordings, sounds, speech
from benchmarks.lost_speech import nonspeech, turns
from benchmarks.recordings import Recording, random_from

RATE = 16_000
FAST = ("hoarse", "quieter", "sped_up")
KINDS = [pytest.param(k, marks=[pytest.mark.slow] * (k not in FAST)) for k in turns.KINDS]


@cache
def built(kind: str, seed: int = 1) -> Recording:
    return corpora.build(f"{kind}:en:60:{seed}")


def levels(recording: Recording) -> list[float]:
    """Return the level of each utterance."""
    return [
        sounds.level(recording.samples[round(u.start * RATE) : round(u.end * RATE)].astype(float))
        for u in recording.utterances
    ]


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_has_the_named_duration_and_ordered_utterances(kind: str) -> None:
    recording = built(kind)
    assert recording.name == f"{kind}:en:60:1"
    assert recording.duration == 60
    assert recording.language == "en"
    edges = [edge for u in recording.utterances for edge in (u.start, u.end)]
    assert edges == sorted(edges)
    assert edges[0] > 0
    assert edges[-1] < 60
    assert sum(u.end - u.start for u in recording.utterances) > 20


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_is_the_same_for_the_same_seed(kind: str) -> None:
    again, other = corpora.build(f"{kind}:en:60:1"), built(kind, seed=3)
    assert np.array_equal(built(kind).samples, again.samples)
    assert built(kind).utterances == again.utterances
    assert built(kind).utterances != other.utterances


@pytest.mark.slow
def test_even_and_odd_seeds_share_no_words() -> None:
    for language in speech.LANGUAGES:
        halves = [
            {clip.utterances[0].text for part in turns.speakers(language, half) for clip in part}
            for half in (0, 1)
        ]
        # some texts were recorded twice, for example "one" with two intonations
        assert len(halves[0] & halves[1]) < 0.1 * len(halves[0])
        files = [
            {id(clip) for part in turns.speakers(language, half)[:1] for clip in part}
            for half in (0, 1)
        ]
        assert files[0].isdisjoint(files[1])
        assert sum(map(len, files)) > 200


def test_other_speakers_take_part() -> None:
    prompts, others = turns.speakers("en", half=1)
    assert len(others) >= 3
    texts = {clip.utterances[0].text for clip in others}
    assert texts.isdisjoint(clip.utterances[0].text for clip in prompts)
    assert texts & {u.text for seed in (1, 3, 5) for u in built("untouched", seed).utterances}


@pytest.mark.slow
@pytest.mark.parametrize("language", speech.LANGUAGES)
def test_no_clip_is_repeated(language: str) -> None:
    prompts, others = turns.speakers(language, half=1)
    recorded = Counter(clip.utterances[0].text for clip in (*prompts, *others))
    spoken = Counter(u.text for u in corpora.build(f"cafe:{language}:120:1").utterances)
    assert sum(spoken.values()) > 15
    assert spoken <= recorded  # some texts were recorded twice


@pytest.mark.parametrize("kind", ["whispered", "hoarse", "quieter"])
def test_difficult_voices_are_softer_than_the_voice_before(kind: str) -> None:
    softest, loudest = turns.VOICES[kind].levels
    values = levels(built(kind))
    drops = [later - earlier for earlier, later in pairwise(values) if later < earlier - 5]
    assert drops
    assert all(softest - 4 <= drop <= loudest + 4 for drop in drops)


def test_the_level_and_the_times_of_a_changed_clip_are_exact() -> None:
    clip = turns.speakers("en", half=0)[0][0]
    for voice in turns.VOICES.values():
        changed = turns.changed(clip, voice, -30.0, random_from("x"))
        (utterance,), (original,) = changed.utterances, clip.utterances
        assert utterance.start == pytest.approx(original.start / voice.tempo)
        assert utterance.end == pytest.approx(original.end / voice.tempo)
        spoken = changed.samples[: round(utterance.end * RATE)].astype(float)
        assert sounds.level(spoken) == pytest.approx(-30, abs=0.2)
        assert len(changed.samples) >= round(utterance.end * RATE) - 1


@pytest.mark.parametrize("kind", ["untouched", "hoarse", "slowed", "quieter"])
def test_the_truth_covers_the_speech(kind: str) -> None:
    """Outside the utterances there is only the noise of the room."""
    recording = built(kind)
    gaps = recordings.gaps(recording.utterances, recording.duration)
    for start, end in gaps:
        if end - start > 0.4:
            inside = recording.samples[round((start + 0.15) * RATE) : round((end - 0.15) * RATE)]
            assert sounds.level(inside.astype(float)) < turns.NOISE[1] + 2


@pytest.mark.slow
def test_babble_and_gain_control_fill_the_pauses() -> None:
    for kind in ("cafe", "pumping"):
        recording = built(kind)
        speech_level = sounds.speech_level(recording)
        gaps = recordings.gaps(recording.utterances, recording.duration)
        start, end = max(gaps, key=lambda gap: gap[1] - gap[0])
        pause = recording.samples[round(start * RATE) : round(end * RATE)].astype(float)
        assert sounds.level(pause) > speech_level - 25


def test_clips_with_long_inner_pauses_are_not_used() -> None:
    clip = turns.speakers("en", half=0)[0][0]
    pause = np.zeros(RATE, np.int16)
    parted = clips.Clip(np.concatenate([clip.samples, pause, clip.samples]), clip.utterances)
    assert turns.is_usable(clip)
    assert not turns.is_usable(parted)
    assert not turns.is_usable(clips.Clip(clip.samples[: RATE // 2], clip.utterances))


@pytest.fixture
def sources(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Replace the packages of sounds, 160 MB, with tones: each file has another frequency."""

    def tone(name: str, hertz: float, seconds: float) -> Path:
        samples = 8000 * np.sin(2 * np.pi * hertz * np.arange(round(seconds * RATE)) / RATE)
        recording = Recording(name, samples.astype(np.int16), ())
        return recordings.write(recording, tmp_path / f"{name}.wav")

    animals = [tone(f"animal{n}", 500 + 500 * n, 0.5) for n in range(4)]
    machines = [tone(f"machine{n}", 700 + 500 * n, 0.5) for n in range(4)]
    keys = [tone(f"{n}-{state}", 900 + 500 * n, 0.05) for n in range(4) for state in (0, 1)]
    monkeypatch.setattr(speech, "animals", lambda: animals)
    monkeypatch.setattr(speech, "household", lambda: machines)
    monkeypatch.setattr(speech, "keyboard", lambda: keys)
    nonspeech._keys.cache_clear()


@pytest.mark.parametrize("kind", nonspeech.KINDS)
@pytest.mark.usefixtures("sources")
def test_recordings_without_speech_have_sound_and_no_text(kind: str) -> None:
    first, again, other = (corpora.build(f"{kind}:fr:60:{seed}") for seed in (2, 2, 4))
    assert first.duration == 60
    assert first.utterances == ()
    assert first.text == ""
    assert np.array_equal(first.samples, again.samples)
    assert not np.array_equal(first.samples, other.samples)
    assert -55 < sounds.level(first.samples.astype(float)) < -10
    nonspeech._keys.cache_clear()


@pytest.mark.parametrize(("kind", "lowest"), [("animals", 500), ("keyboard", 900)])
@pytest.mark.usefixtures("sources")
def test_even_and_odd_seeds_share_no_sounds(kind: str, lowest: int) -> None:
    tones = [lowest + 500 * number for number in range(4)]
    for seed in (0, 1):
        power = np.abs(np.fft.rfft(corpora.build(f"{kind}:en:60:{seed}").samples)) ** 2
        near = [power[60 * (hertz - 20) : 60 * (hertz + 20)].sum() for hertz in tones]
        assert min(near[seed::2]) > 20 * max(near[1 - seed :: 2])
    nonspeech._keys.cache_clear()


def test_manifests_have_recordings_without_speech(tmp_path: Path) -> None:
    path = manifest.write_manifest([corpora.build("hold_music:it:20:1")], tmp_path)
    (entry,) = manifest.read_manifest(path)
    assert (entry.text, entry.utterances, entry.language) == ("", (), "en")
