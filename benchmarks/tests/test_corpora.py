"""Recordings under conditions: pauses, music, noise, telephone, levels, mixed."""

from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from benchmarks import corpora, recordings, sounds
from benchmarks.lost_speech import nonspeech, turns
from benchmarks.recordings import Recording


def level(samples: npt.NDArray[Any]) -> float:
    """Return the root mean square in dB of full scale."""
    return float(10 * np.log10((samples.astype(np.float64) ** 2).mean() / 32768**2))


def excerpt(recording: Recording, start: float, end: float) -> recordings.Samples:
    return recording.samples[round(start * 16_000) : round(end * 16_000)]


SEED = 5
# test_turns.py tests the kinds of benchmarks/lost_speech
KINDS = [kind for kind in corpora.KINDS if kind not in {**turns.KINDS, **nonspeech.KINDS}]


@cache
def built(kind: str) -> Recording:
    return corpora.build(f"{kind}:en:60:{SEED}")


@pytest.fixture(scope="module")
def clean() -> Recording:
    return built("prompts")


def gaps_of(recording: Recording) -> list[tuple[float, float]]:
    return recordings.gaps(recording.utterances, recording.duration)


def long_gaps(recording: Recording) -> list[tuple[float, float]]:
    return [(start, end) for start, end in gaps_of(recording) if end - start > 2]


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_has_the_named_duration_and_ordered_utterances(kind: str) -> None:
    recording = built(kind)
    assert recording.name == f"{kind}:en:60:{SEED}"
    assert recording.duration == 60
    edges = [edge for u in recording.utterances for edge in (u.start, u.end)]
    assert edges == sorted(edges)
    assert edges[0] > 0
    assert edges[-1] < 60
    # Utterances are louder than the noise of the pauses.
    min_level = {"quiet": -82}.get(kind, -45)
    assert min(level(excerpt(recording, u.start, u.end)) for u in recording.utterances) > min_level


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_is_the_same_for_the_same_seed(kind: str) -> None:
    first, again = (corpora.build(f"{kind}:en:50:2") for _ in range(2))
    different = corpora.build(f"{kind}:en:50:3")
    assert np.array_equal(first.samples, again.samples)
    assert first.utterances == again.utterances
    assert first.utterances != different.utterances


@pytest.mark.parametrize("kind", ["music_under", "noise_under", "telephone", "quiet", "clipped"])
def test_conditions_change_the_sound_and_not_the_words(kind: str, clean: Recording) -> None:
    assert built(kind).utterances == clean.utterances
    assert not np.array_equal(built(kind).samples, clean.samples)


def test_pauses_between_groups_are_long_and_silent() -> None:
    recording = corpora.pauses(duration=300)
    gaps = gaps_of(recording)[:-1]
    apart = [(start, end) for start, end in gaps if end - start > 1 + 1e-3]
    assert len(apart) > 5
    assert all(2 - 1e-3 <= end - start <= 30 + 1e-3 for start, end in apart)
    assert max(end - start for start, end in apart) > 15
    assert all(end - start >= 0.3 - 1e-3 for start, end in gaps)
    assert max(level(excerpt(recording, start + 0.06, end - 0.06)) for start, end in apart) < -60


def test_groups_have_three_to_eight_prompts() -> None:
    recording = corpora.noise_between(duration=300)
    sizes = [0]
    for utterance, following in pairwise(recording.utterances):
        sizes[-1] += 1
        pause = following.start - utterance.end
        if pause > 2:
            assert 10 - 1e-3 <= pause <= 30 + 1e-3
            sizes.append(0)
    assert len(sizes) > 4
    assert all(3 <= size <= 8 for size in sizes[:-1])


def test_music_fills_the_gaps_at_its_own_level() -> None:
    recording = built("music_between")
    silent = corpora.groups("music_between", "en", 60, SEED, (10, 30))
    assert recording.utterances == silent.utterances
    music = np.concatenate(corpora._music())
    assert long_gaps(recording)
    for start, end in long_gaps(recording):
        added = excerpt(recording, start + 0.3, end - 0.3).astype(int) - excerpt(
            silent, start + 0.3, end - 0.3
        )
        assert level(added) > -45
        assert abs(added[0]) <= abs(added[:800]).max() / 10  # faded in
        middle = added[2000:2400]
        (places,) = np.flatnonzero(music == middle[100])[:, None].T
        assert any(
            np.array_equal(music[place - 100 : place + 300], middle)
            for place in places
            if place >= 100
        )
    for u in recording.utterances:
        assert np.array_equal(excerpt(recording, u.start, u.end), excerpt(silent, u.start, u.end))


def test_noise_fills_the_gaps_white_then_pink_then_hum() -> None:
    recording = corpora.noise_between(duration=200, seed=1)
    shares = []
    for start, end in long_gaps(recording)[:3]:
        filled = excerpt(recording, start + 0.4, end - 0.4).astype(np.float64)
        assert -35.2 < sounds.level(filled) < -19.8
        power = np.abs(np.fft.rfft(filled)) ** 2
        hertz = np.fft.rfftfreq(len(filled), 1 / 16_000)
        shares.append(power[hertz < 200].sum() / power.sum())
    assert shares[0] < 0.05
    assert 0.2 < shares[1] < 0.5
    assert shares[2] > 0.99


@pytest.mark.parametrize(("kind", "below"), [("music_under", 15), ("noise_under", 10)])
def test_sound_under_speech_has_the_stated_level(kind: str, below: float, clean: Recording) -> None:
    added = built(kind).samples.astype(np.float64) - clean.samples
    assert sounds.speech_level(clean) - sounds.level(added) == pytest.approx(below, abs=0.1)
    seconds = added.reshape(60, 16_000)
    assert min(sounds.level(second) for second in seconds) > -70  # in every second


def test_the_telephone_has_a_narrow_band_and_eight_bits(clean: Recording) -> None:
    power = np.abs(np.fft.rfft(built("telephone").samples.astype(np.float64))) ** 2
    hertz = np.fft.rfftfreq(60 * 16_000, 1 / 16_000)
    outside = power[(hertz < 250) | (hertz > 3450)].sum() / power.sum()
    assert 10 * np.log10(outside) < -50
    assert sounds.speech_level(built("telephone")) > sounds.speech_level(clean) - 6
    ramp = np.arange(-32768, 32768).astype(np.float64)
    decoded = sounds.mu_law(ramp)
    assert len(np.unique(decoded)) == 255
    loud = abs(ramp) > 1000
    assert np.max(abs(decoded[loud] / ramp[loud] - 1)) < 0.03


def test_quiet_and_clipped_have_the_stated_levels(clean: Recording) -> None:
    speech_level = sounds.speech_level(clean)
    assert sounds.speech_level(built("quiet")) == pytest.approx(speech_level - 40, abs=0.5)
    assert np.array_equal(
        built("clipped").samples, np.clip(clean.samples.astype(int) * 10, -32768, 32767)
    )
    assert (abs(built("clipped").samples.astype(int)) >= 32767).mean() > 0.01


def test_mixed_is_a_sequence_of_all_conditions() -> None:
    recording = corpora.mixed(duration=9 * 60, seed=1)
    kinds = corpora._shuffled_conditions(recordings.random_from("mixed 1"))
    assert sorted(kinds) == sorted(corpora.CONDITIONS)
    start = 0.0
    for number, kind in enumerate(kinds):
        section = corpora.CONDITIONS[kind]("en", 60, 1000 + number)
        assert np.array_equal(excerpt(recording, start, start + 60), section.samples)
        start += 60


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("promts:en:60:0", "the kinds are prompts, pauses, "),
        ("prompts", "write KIND:LANGUAGE:SECONDS:SEED, as prompts:en:600:0"),
        ("prompts:en:long:0", "write KIND:LANGUAGE:SECONDS:SEED"),
        ("prompts:en:nan:0", "from 1 to 86400 seconds"),
        ("read:fr:60:0", "the novel is in English"),
        ("prompts:xx:60:0", "no Asterisk prompts in 'xx'"),
        ("music_between:en:2:0", "too short for a single utterance"),
    ],
)
def test_invalid_names_are_refused(name: str, message: str) -> None:
    with pytest.raises(corpora.CorpusError, match=message):
        corpora.build(name)
