"""Speakers by channel, and the only speaker of a recording: turns from the VAD alone."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import whisperbatch as wb
from tests.unit.fakes import FakeEngine
from whisperbatch.diarization import Progress, SpeakerLimits, channels
from whisperbatch.diarization.channels import ChannelDiarizer
from whisperbatch.errors import AudioError, MissingExtraError
from whisperbatch.options import Options
from whisperbatch.types import SAMPLING_RATE, Diarization, Samples, SpeechFrames
from whisperbatch.vad.levels import FRAME, reblock

LOUD = 0.01  # amplitude from which a frame is speech for `LoudVad`


class LoudVad:
    """A Vad that takes loud frames for speech."""

    hop = FRAME

    def __call__(self, blocks: Iterable[Samples]) -> Iterator[SpeechFrames]:
        for block in reblock(blocks):
            frames = np.pad(block, (0, -len(block) % FRAME)).reshape(-1, FRAME)
            yield SpeechFrames(block, (np.abs(frames).max(axis=1) > LOUD).astype(np.float32))


@pytest.fixture(autouse=True)
def loud_vad(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channels, "open_vad", lambda _: LoudVad())


def voice(seconds: float, *spoken: tuple[float, float], level: float = 0.1, seed: int = 0) -> Any:
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
    left, right = voice(20, (1, 5), (12, 16)), voice(20, (6, 11), (14, 18), seed=1)
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
    left = voice(20, (1, 9))
    right = 0.15 * left + voice(20, (11, 19), seed=1)
    assert np.abs(right[SAMPLING_RATE : 9 * SAMPLING_RATE]).max() > LOUD
    result = found(np.stack([left, right], axis=1))
    assert turns(result) == [("SPEAKER_00", 1.0, 9.0), ("SPEAKER_01", 11.0, 19.0)]


def test_channels_with_the_same_sound_are_refused() -> None:
    with pytest.raises(AudioError, match="all channels have the same sound"):
        found(np.stack([voice(20, (1, 9))] * 2, axis=1))


def test_a_mono_recording_has_one_speaker() -> None:
    samples = voice(20, (1, 5), (6, 11), (14, 18))
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
    samples = voice(20, (1, 5), (6, 11))
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
