"""Speakers by channel: turns from the VAD, and a chunk for each channel that speaks."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import whisperbatch as wb
from tests.unit.fakes import FakeEngine, LoudVad, noise
from tests.unit.synthetic_words import word
from whisperbatch.diarization import Progress, SpeakerLimits, channels
from whisperbatch.diarization.channels import (
    KEPT,
    MAX_KEPT,
    ChannelDiarizer,
    ChannelTape,
    SimultaneousSpeech,
)
from whisperbatch.errors import AudioError, MissingExtraError
from whisperbatch.options import Options
from whisperbatch.types import (
    SAMPLING_RATE,
    Chunk,
    Diarization,
    Samples,
    SpeechSpan,
    to_samples,
)

LOUD = 0.01  # amplitude from which a frame is speech for `LoudVad`


@pytest.fixture(autouse=True)
def loud_vad(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channels, "open_vad", lambda _: LoudVad({LOUD: 1.0}))


def noisy_voice(
    seconds: float, *spoken: tuple[float, float], level: float = 0.1, seed: int = 0
) -> Any:
    """Noise in some stretches of a channel, given as (start, end) in seconds."""
    samples = np.zeros(round(seconds * SAMPLING_RATE), np.float32)
    rng = np.random.default_rng(seed)
    for start, end in spoken:
        part = slice(round(start * SAMPLING_RATE), round(end * SAMPLING_RATE))
        samples[part] = level * rng.standard_normal(len(samples[part]))
    return samples


def found(samples: Samples, size: int = SAMPLING_RATE) -> Diarization:
    """The Diarization of samples that come in blocks of this size."""
    blocks = (samples[start : start + size] for start in range(0, len(samples), size))
    *progress, last = ChannelDiarizer(Options())(blocks, SpeakerLimits())
    assert isinstance(last, Diarization)
    assert all(isinstance(item, Progress) for item in progress)
    return last


def turns(result: Diarization) -> list[tuple[str, float, float]]:
    return [(turn.speaker, round(turn.start, 1), round(turn.end, 1)) for turn in result.turns]


def test_each_channel_is_a_speaker() -> None:
    left, right = noisy_voice(20, (1, 5), (12, 16)), noisy_voice(20, (6, 11), (14, 18), seed=1)
    result = found(np.stack([left, right], axis=1))
    assert turns(result) == [
        ("SPEAKER_00", 1.0, 5.0),
        ("SPEAKER_01", 6.0, 11.0),
        ("SPEAKER_00", 12.0, 16.0),
        ("SPEAKER_01", 14.0, 18.0),
    ]
    for before, after in zip(result.exclusive, result.exclusive[1:], strict=False):
        assert before.end <= after.start


def test_speech_that_leaks_from_another_channel_is_no_turn() -> None:
    left = noisy_voice(20, (1, 9))
    right = 0.15 * left + noisy_voice(20, (11, 19), seed=1)
    assert np.abs(right[SAMPLING_RATE : 9 * SAMPLING_RATE]).max() > LOUD
    result = found(np.stack([left, right], axis=1))
    assert turns(result) == [("SPEAKER_00", 1.0, 9.0), ("SPEAKER_01", 11.0, 19.0)]


def test_channels_with_the_same_sound_are_refused() -> None:
    with pytest.raises(AudioError, match="all channels have the same sound"):
        found(np.stack([noisy_voice(20, (1, 9))] * 2, axis=1))


def test_a_mono_recording_has_one_speaker() -> None:
    samples = noisy_voice(20, (1, 5), (6, 11), (14, 18))
    result = found(samples)
    assert turns(result) == [
        ("SPEAKER_00", 1.0, 5.0),
        ("SPEAKER_00", 6.0, 11.0),
        ("SPEAKER_00", 14.0, 18.0),
    ]
    assert {turn.confidence for turn in result.turns} == {1.0}
    assert found(samples, 1_111) == result
    assert turns(found(np.zeros(SAMPLING_RATE, np.float32))) == []


@pytest.mark.parametrize("option", ["num_speakers", "max_speakers"])
def test_a_single_speaker_needs_no_weights(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, option: str
) -> None:
    def missing(_: object) -> None:
        raise MissingExtraError("the weights of the diarizer are not installed")

    monkeypatch.setattr("whisperbatch.diarization.stage.open_diarizer", missing)
    samples = noisy_voice(20, (1, 5), (6, 11))
    single: Any = {option: 1}
    assert wb.diarize(samples, **single).speakers == ("SPEAKER_00",)
    asr = wb.Transcriber(FakeEngine())
    transcript = asr.transcribe(samples, vad=False, language="en", diarize=True, **single)
    assert {segment.speaker for segment in transcript.segments} == {"SPEAKER_00"}
    others: tuple[Any, ...] = (
        {option: 2},
        {option: 1, "diarizer": str(tmp_path)},
        {option: 1, "known_speakers": {"Ann": samples}},
        {},
    )
    for other in others:
        with pytest.raises(MissingExtraError):
            wb.diarize(samples, **other)


Talk = Sequence[tuple[float, float]]
LENGTH = 24.0  # seconds


def voice(spoken: Talk, name: str, level: float = 0.0, length: float = LENGTH) -> Samples:
    """A voice that says one word after another in some stretches; `level` in dB."""
    samples = np.zeros(to_samples(length), np.float32)
    for start, end in spoken:
        count = to_samples(end) - to_samples(start)
        words = [word(f"{name}{number}", number) for number in range(count // 6400 + 1)]
        samples[to_samples(start) : to_samples(end)] = np.concatenate(words)[:count]
    return np.float32(10 ** (level / 20)) * samples


def stacked(*channels: Samples, floor: float = 1e-5) -> Samples:
    samples = np.stack(channels, axis=1)
    hiss: Samples = noise(samples.size / SAMPLING_RATE)
    return samples + np.float32(floor) * hiss.reshape(samples.shape)


def chunk(start: float = 0.5, end: float = LENGTH - 0.5, section: int = 0) -> Chunk:
    span = SpeechSpan(to_samples(start), to_samples(end))
    return Chunk(0, 0, (span,), (span,), np.zeros(span.length, np.float32), section)


def divided(samples: Samples, *chunks: Chunk, options: Options | None = None) -> list[Chunk]:
    tape = ChannelTape()
    blocks = (samples[n : n + SAMPLING_RATE] for n in range(0, len(samples), SAMPLING_RATE))
    mix = np.concatenate([block.mean(axis=1) for block in tape.through(blocks)])
    np.testing.assert_allclose(mix, samples.mean(axis=1), atol=1e-6)
    return list(SimultaneousSpeech(options or Options(), tape)(chunks or [chunk()]))


def speech_of(part: Chunk) -> list[tuple[float, float]]:
    """The speech of a chunk without margins, in seconds."""
    return [
        (
            round((span.start + span.before) / SAMPLING_RATE, 1),
            round((span.end - span.after) / SAMPLING_RATE, 1),
        )
        for span in part.speech
    ]


ALONE: Talk = [(1, 8)]
REPLY: Talk = [(5, 12)]
LATER: Talk = [(10, 18)]

CASES: list[tuple[str, str, Any, list[int | None]]] = [
    # situation, source, channels, channels of the chunks (None: the mix stays)
    (
        "a quiet participant is masked in the mix",
        "Beingpax/VoiceInk pull request 922",
        lambda: stacked(voice(ALONE, "a"), voice(REPLY, "b", -12)),
        [0, 1],
    ),
    (
        "more than two channels, overlapping",
        "gaspardpetit/verbatim issue 80",
        lambda: stacked(voice(ALONE, "a"), voice(REPLY, "b"), voice([(6, 14)], "c", -6)),
        [0, 1, 2],
    ),
    (
        "agent and customer take turns",
        "MahmoudAshraf97/whisper-diarization issue 290",
        lambda: stacked(voice(ALONE, "a"), voice(LATER, "b")),
        [None],
    ),
    (
        "loudspeakers are heard by the microphone",
        "yazinsai/OpenOats issue 653",
        lambda: stacked(
            voice([(1, 8), (14, 20)], "a"),
            voice([(1, 8), (14, 20)], "a", -18) + voice(LATER[:0], "b"),
        ),
        [None],
    ),
    (
        "bleed of both, and an interruption",
        "pasrom/meeting-transcriber pull request 623",
        lambda: stacked(
            voice([(1, 12)], "a") + voice([(9, 18)], "b", -20),
            voice([(9, 18)], "b") + voice([(1, 12)], "a", -20),
        ),
        [0, 1],
    ),
    (
        "the same sound on both channels for some time",
        "aws-samples/amazon-transcribe-post-call-analytics issue 179",
        lambda: stacked(voice([(1, 8)], "a") + voice(LATER, "c"), voice([(1, 8)], "a")),
        [None],
    ),
    (
        "mono in two channels",
        "aws-samples/amazon-transcribe-post-call-analytics issue 229",
        lambda: stacked(voice(ALONE, "a"), voice(ALONE, "a", -1)),
        [None],
    ),
    (
        "only one channel has speech",
        "ggml-org/whisper.cpp issue 3263",
        lambda: stacked(voice(ALONE, "a"), voice([], "b"), floor=1e-3),
        [None],
    ),
]


@pytest.mark.parametrize(("situation", "source", "channels", "expected"), CASES)
def test_which_channels_are_decoded(
    situation: str, source: str, channels: Any, expected: list[int | None]
) -> None:
    parts = divided(channels())
    assert sorted((part.channel for part in parts), key=str) == expected, (situation, source)
    assert [part.index for part in parts] == list(range(len(parts)))
    assert [part.completes for part in parts] == [*[False] * (len(parts) - 1), True]


def test_the_chunk_of_a_channel_has_its_speech_without_crosstalk() -> None:
    left, right = voice([(1, 12)], "a"), voice([(9, 18)], "b")
    gain = np.float32(0.1)
    samples = stacked(left + gain * right, right + gain * left)
    one, other = divided(samples, chunk(1, 18))
    assert (one.channel, other.channel) == (0, 1)
    [(start, end)] = speech_of(one)
    assert (start, round(end)) == (1.0, 12)
    assert speech_of(other) == [(9.0, 18.0)]
    for part, own in ((one, left), (other, right)):
        assert part.length == part.pieces[0].length
        near = own[part.start : part.start + part.length]
        assert np.corrcoef(part.samples, near)[0, 1] > 0.95


def test_crosstalk_beside_an_own_turn_is_silent() -> None:
    left = voice([(1, 7), (10, 20)], "a")
    right = voice([(2, 4), (16, 19)], "b") + np.float32(0.05) * left
    parts = divided(stacked(left, right))
    own = next(part for part in parts if part.channel == 1)
    assert speech_of(own) == [(2.0, 4.0), (16.0, 19.0)]
    middle = own.samples[own.chunk_time(to_samples(11)) : own.chunk_time(to_samples(15))]
    assert np.abs(middle).max() == 0


def test_speech_of_the_mix_that_no_channel_has_is_kept() -> None:
    """The second opinion finds faint speech that the VAD of no channel finds."""
    faint = voice([(14, 17)], "c", -40)
    left = voice([(1, 8)], "a") + faint
    assert np.abs(faint).max() < 0.01
    spans = tuple(SpeechSpan(to_samples(a), to_samples(b)) for a, b in ((1, 12), (14, 17)))
    whole = replace(chunk(1, 17), speech=spans)
    parts = divided(stacked(left, voice([(5, 12)], "b")), whole)
    [first] = [part for part in parts if part.channel == 0]
    assert speech_of(first)[-1] == (14.0, 17.0)


def test_an_interruption_needs_the_length_of_a_word() -> None:
    def channels(seconds: float) -> Samples:
        return stacked(voice([(1, 12)], "a"), voice([(5, 5 + seconds)], "b"))

    assert len(divided(channels(0.15))) == 1
    assert len(divided(channels(0.5))) == 2


def test_shortened_pauses_stay_shortened() -> None:
    pieces = (
        SpeechSpan(to_samples(0.5), to_samples(12.5)),
        SpeechSpan(to_samples(19.5), to_samples(23)),
    )
    length = sum(piece.length for piece in pieces)
    whole = replace(chunk(), pieces=pieces, speech=pieces, samples=np.zeros(length, np.float32))
    samples = stacked(voice([(1, 8), (20, 22)], "a"), voice([(5, 12), (20, 22.5)], "b"))
    for part in divided(samples, whole):
        assert part.length == sum(piece.length for piece in part.pieces) < length
        assert len(part.pieces) == 2


def test_without_the_vad_the_default_options_find_the_speech() -> None:
    samples = stacked(voice(ALONE, "a"), voice(REPLY, "b"))
    assert len(divided(samples, options=Options(vad=False))) == 2


def test_the_tape_keeps_the_latest_audio_of_the_loudest_channels() -> None:
    tape = ChannelTape()

    def blocks(count: int, channels: int) -> Iterable[npt.NDArray[np.float32]]:
        for number in range(count):
            levels = np.linspace(0.1, 0.9, channels, dtype=np.float32)
            yield np.full((SAMPLING_RATE, 1), 1.0, np.float32) * levels + np.float32(number)

    seconds = KEPT // SAMPLING_RATE + 20
    for _ in tape.through(blocks(seconds, MAX_KEPT + 2)):
        pass
    assert tape.end == seconds * SAMPLING_RATE
    assert tape.audio(0, SAMPLING_RATE) is None
    start = tape.end - KEPT
    kept = tape.audio(start, start + 10)
    assert kept is not None
    assert kept.shape == (10, MAX_KEPT + 2)
    assert not kept[:, :2].any()
    np.testing.assert_allclose(kept[0, -1], 20.9, rtol=2e-3)
    last = tape.audio(tape.end - 5, tape.end + 100)
    assert last is not None
    assert len(last) == 5
