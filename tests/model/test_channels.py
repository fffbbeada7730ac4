"""One speaker per channel: both texts where both speak. Real speech, model base."""

from typing import Final

import numpy as np
import numpy.typing as npt
import pytest

import whisperbatch as wb
from benchmarks import recordings
from benchmarks.recordings import SAMPLING_RATE, Recording
from benchmarks.scoring import word_error_rate

LEFT, RIGHT = "SPEAKER_00", "SPEAKER_01"
Channels = npt.NDArray[np.float32]


@pytest.fixture(scope="module")
def talks() -> tuple[Recording, Recording]:
    """What each of two speakers says, of 20 s each."""
    return recordings.dense("en", 20, seed=11), recordings.dense("en", 20, seed=12)


def call(talks: tuple[Recording, Recording], start: float, level: float, bleed: float) -> Channels:
    """A call in which the second speaker begins at `start`; `level` and `bleed` in dB."""
    left, right = (talk.samples.astype(np.float32) / 32768 for talk in talks)
    first = round(start * SAMPLING_RATE)
    samples = np.zeros((first + len(right), 2), np.float32)
    samples[: len(left), 0] = left
    samples[first:, 1] = right * np.float32(10 ** (level / 20))
    crosstalk = np.roll(samples[:, ::-1], 64, axis=0) * np.float32(10 ** (bleed / 20))
    return samples + crosstalk


def said(transcript: wb.Transcript, speaker: str) -> str:
    return " ".join(part.text for part in transcript.segments if part.speaker == speaker)


CASES: Final = [
    # start of the second speaker, level, bleed, word errors per 100 words that are allowed
    (14.0, 0.0, -100.0, 10.0),
    (10.0, -12.0, -100.0, 10.0),
    (14.0, -6.0, -15.0, 15.0),
    (20.5, 0.0, -15.0, 10.0),  # one after the other
]
"""With the mix alone, 30 to 50 of 100 words are wrong in the first three."""


@pytest.mark.parametrize("case", CASES)
def test_both_speakers_are_written(
    base: wb.Transcriber,
    talks: tuple[Recording, Recording],
    case: tuple[float, float, float, float],
) -> None:
    start, level, bleed, limit = case
    samples = call(talks, start, level, bleed)
    transcript = base.transcribe(
        samples, language="en", diarize=True, speaker="channel", word_timestamps=True
    )
    score = word_error_rate(talks[0].text, said(transcript, LEFT))
    score += word_error_rate(talks[1].text, said(transcript, RIGHT))
    assert 100 * score.rate <= limit, transcript.segments
    starts = [segment.start for segment in transcript.segments]
    assert starts == sorted(starts)
    assert [segment.id for segment in transcript.segments] == list(range(len(starts)))
    for segment in transcript.segments:
        assert {word.speaker for word in segment.words or ()} == {segment.speaker}


def test_a_stream_yields_the_same_text_in_order(
    base: wb.Transcriber, talks: tuple[Recording, Recording]
) -> None:
    samples = call(talks, 14.0, 0.0, -100.0)
    whole = base.transcribe(samples, language="en", diarize=True, speaker="channel")
    with base.stream(samples, language="en", diarize=True, speaker="channel") as stream:
        segments = list(stream)
    assert [part.text for part in segments] == [part.text for part in whole.segments]
    assert [part.speaker for part in segments] == [part.speaker for part in whole.segments]
