"""Conversations for measuring diarization: voices, turns, rooms. The voices here are tones."""

import wave
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from benchmarks.diarization import conversations, voices
from benchmarks.diarization.conversations import CLASSES, Conversation, VoiceError
from benchmarks.diarization.voices import Utterance, Voice

RATE = 16_000
SPEECH = ("asterisk-en", "a"), ("asterisk-es", "a"), ("b", "b"), ("c", "c"), ("d", "d"), ("e", "e")


def tone(hertz: float, seconds: float, number: int) -> Utterance:
    """Return a tone with a pause in the middle of every fourth one."""
    count = round(seconds * RATE)
    sound = 0.3 * np.sin(2 * np.pi * hertz * np.arange(count) / RATE)
    spans: tuple[tuple[int, int], ...] = ((0, count),)
    if number % 4 == 0:
        spans = ((0, count // 4), (3 * count // 4, count))
        sound[spans[0][1] : spans[1][0]] = 0
    return Utterance(sound.astype(np.float32), spans, f"word{hertz:g} number{number}")


@pytest.fixture(scope="module", autouse=True)
def tones() -> Iterator[None]:
    """Replace the recordings: six voices of five persons, each with 400 s of tones."""
    known = {
        name: Voice(name, "test", "en", "f" if index < 4 else "m", person)
        for index, (name, person) in enumerate((*SPEECH, ("f", "f")))
    }
    pools = {
        name: tuple(tone(400 + 300 * index, 1 + number % 4, number) for number in range(160))
        for index, name in enumerate(known)
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(voices, "of_set", lambda _: tuple(known.values()))
        patch.setattr(voices, "pool", pools.__getitem__)
        yield


def at(talk: Conversation, start: float, end: float) -> float:
    """Return the level of a part, in dBFS."""
    part = talk.samples[round(start * RATE) : round(end * RATE)].astype(np.float64)
    return float(10 * np.log10(np.mean(part**2)))


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.slow] * (name not in ("two", "far-two")))
        for name in CLASSES
        if name != "long"
    ],
)
def test_every_class_has_its_speakers_and_duration(name: str) -> None:
    kind = CLASSES[name]
    talk = conversations.build(name, seed=3, minutes=2)
    assert talk.duration == 120
    assert talk.samples.dtype == np.float32
    assert len(talk.speakers) == kind.count
    assert talk.has_text
    assert talk.turns[0].start >= 0
    assert max(turn.end for turn in talk.turns) <= 120
    assert np.abs(talk.samples).max() <= 1


def test_the_same_seed_builds_the_same_conversation() -> None:
    first, again, other = (conversations.build("three", seed, minutes=1) for seed in (1, 1, 2))
    assert np.array_equal(first.samples, again.samples)
    assert first.turns == again.turns
    assert first.turns != other.turns


def test_no_utterance_is_used_twice() -> None:
    texts = [u.text for u in conversations.build("two", minutes=5).utterances]
    assert len(texts) == len(set(texts)) > 60


def test_the_reference_is_exact() -> None:
    talk = conversations.build("two", seed=1, minutes=3)
    for turn in talk.turns:
        assert at(talk, turn.start, turn.end) > -40
        assert at(talk, turn.start, turn.start + 0.01) > -40
        assert at(talk, turn.end - 0.01, turn.end) > -40
    heard_until = 0.0
    pauses = 0
    for turn in talk.turns:
        if turn.start > heard_until + 0.01:
            assert at(talk, heard_until, turn.start) < -55
            pauses += 1
        heard_until = max(heard_until, turn.end)
    assert pauses > 20


def test_pauses_within_utterances_are_silence() -> None:
    talk = conversations.build("one", minutes=2)
    speech = sum(turn.end - turn.start for turn in talk.turns)
    assert speech < 0.95 * sum(u.end - u.start for u in talk.utterances)


@pytest.mark.parametrize(("name", "least", "most"), [("two", 0.01, 0.2), ("overlap", 0.1, 0.3)])
def test_at_most_two_speak_at_once_and_nobody_twice(name: str, least: float, most: float) -> None:
    talk = conversations.build(name, minutes=4)
    ticks = np.zeros((len(talk.speakers), 24_000), int)
    for turn in talk.turns:
        row = ticks[talk.speakers.index(turn.speaker)]
        row[round(turn.start * 100) : round(turn.end * 100) - 1] += 1
    assert ticks.max() == 1
    assert ticks.sum(axis=0).max() == 2
    assert least < np.mean(ticks.sum(axis=0)[ticks.sum(axis=0) > 0] == 2) < most


def test_quick_turns_are_short() -> None:
    changes = (
        conversations.build("quick", minutes=2).utterances,
        conversations.build("two").utterances,
    )
    quick, usual = (
        np.mean([a.speaker != b.speaker for a, b in pairwise(utterances)]) for utterances in changes
    )
    assert quick > usual


@pytest.mark.slow
def test_voices_of_one_person_never_meet() -> None:
    for seed in range(20):
        talk = conversations.build("four", seed, minutes=1.5)
        assert len(talk.speakers) == 4


@pytest.mark.slow
def test_women_only_and_one_language() -> None:
    assert set(conversations.build("two-women", minutes=1).speakers) <= {"a", "b", "c"}
    assert set(conversations.build("two-men", minutes=1).speakers) <= {"d", "e", "f"}


def test_only_voices_with_written_text() -> None:
    talks = [conversations.build("one", seed, minutes=0.5, with_text=True) for seed in range(5)]
    assert {talk.speakers for talk in talks} == {("a",)}
    with pytest.raises(VoiceError, match="only 1 of 2 voices"):
        conversations.build("two", minutes=0.5, with_text=True)


@pytest.mark.slow
def test_a_conversation_that_is_too_long_says_so() -> None:
    with pytest.raises(VoiceError, match="shorter conversation"):
        conversations.build("two", minutes=60)
    with pytest.raises(VoiceError, match="nothing left to say"):
        conversations.build("long", minutes=60)


def test_a_telephone_has_a_narrow_band_and_a_room_has_echoes() -> None:
    telephone = conversations.build("telephone-two", minutes=1)
    power = np.abs(np.fft.rfft(telephone.samples)) ** 2
    hertz = np.fft.rfftfreq(len(telephone.samples), 1 / RATE)
    assert power[hertz > 4000].sum() < 1e-2 * power.sum()
    far = conversations.build("far-two", minutes=1)
    gaps = [(a.end, b.start) for a, b in pairwise(far.turns) if b.start - a.end > 0.3]
    assert gaps
    assert (
        np.mean([at(far, end, end + 0.05) > at(far, start - 0.05, start) for end, start in gaps])
        > 0.9
    )


def test_the_reference_and_the_sound_can_be_written(tmp_path: Path) -> None:
    talk = conversations.build("two", minutes=1)
    with wave.open(str(talk.write(tmp_path / "a.wav"))) as file:
        assert (file.getframerate(), file.getnframes()) == (RATE, 60 * RATE)
    fields = talk.rttm().splitlines()[0].split()
    assert (fields[0], fields[1], fields[7]) == ("SPEAKER", talk.name, talk.turns[0].speaker)
    assert float(fields[3]) == pytest.approx(talk.turns[0].start, abs=1e-3)
    assert len(talk.stm().splitlines()) == len(talk.utterances)


def test_speech_is_found_between_pauses_and_noise() -> None:
    rng = np.random.default_rng(0)
    loud = 8000 * np.sin(np.arange(RATE))
    quiet = np.zeros(RATE // 2)
    sound = np.concatenate([quiet, loud, np.zeros(RATE // 5), loud, quiet, loud, quiet])
    noisy = (sound + rng.normal(0, 20, len(sound))).astype(np.int16)
    expected = [(0.5, 2.7), (3.2, 4.2)]
    for samples in (sound.astype(np.int16), noisy):
        spans = [(start / RATE, end / RATE) for start, end in voices.speech_spans(samples)]
        assert np.allclose(spans, expected, atol=0.011)
    cut = voices.utterance(noisy, "hello")
    assert cut is not None
    assert cut.duration == pytest.approx(3.7, abs=0.02)
    assert cut.spans[0][0] == 0
    assert cut.spans[-1][1] == len(cut.samples)
    assert voices.utterance(np.zeros(RATE, np.int16)) is None


def test_no_person_is_in_both_sets() -> None:
    persons = {part: set[str]() for part in ("development", "test")}
    for voice in voices.VOICES.values():
        persons[voice.set].add(voice.person)
    assert persons["development"].isdisjoint(persons["test"])
    assert all(len(each) > 5 for each in persons.values())
