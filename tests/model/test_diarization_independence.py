"""Turns and speakers depend on the audio alone, with the real networks.

Not on the blocks of the reader, the batch size, the workers of the engine or other recordings.
"""

from collections.abc import Iterator
from itertools import cycle, pairwise
from typing import Any

import numpy as np
import pytest

import whisperbatch as wb
from benchmarks import clips, recordings
from whisperbatch.diarization import Diarizer, SpeakerLimits, open_diarizer
from whisperbatch.types import Samples

GREEDY: Any = {"beam_size": 1, "diarize": True, "word_timestamps": True}


@pytest.fixture(scope="module")
def diarizer() -> Diarizer:
    try:
        return open_diarizer()
    except wb.MissingExtraError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def talk() -> Samples:
    """A recorded telephone call of two men (30 s), and then a woman who reads (12 s)."""
    parts = (clips.telephone_clip().samples, recordings.prompts("en", duration=12).samples)
    return np.concatenate(parts).astype(np.float32) / np.float32(32768)


@pytest.fixture(scope="module")
def expected(diarizer: Diarizer, tiny: wb.Transcriber, talk: Samples) -> wb.Transcript:
    assert diarizer
    return tiny.transcribe(talk, batch_size=1, **GREEDY)


def blocks(samples: Samples, *sizes: int) -> Iterator[Samples]:
    """Yield blocks of these sizes, again and again."""
    start = 0
    for size in cycle(sizes):
        if start >= len(samples):
            return
        yield samples[start : start + size]
        start += size


def test_the_conversation_is_not_trivial(expected: wb.Transcript) -> None:
    assert expected.diarization
    turns = expected.diarization.turns
    assert len(expected.speakers) == 3
    assert len(turns) > 10
    assert any(a.end > b.start for a, b in pairwise(turns)), "no overlap"


def test_turns_do_not_depend_on_the_blocks(
    diarizer: Diarizer, talk: Samples, expected: wb.Transcript
) -> None:
    *steps, last = diarizer(blocks(talk, 1_601, 7, 16_000, 90_000), SpeakerLimits())
    *usual, _ = diarizer(blocks(talk, len(talk)), SpeakerLimits())
    assert expected.diarization
    assert last.turns == expected.diarization.turns
    assert [(s.end, s.turns) for s in steps] == [(s.end, s.turns) for s in usual]  # type: ignore[union-attr]


def test_speakers_do_not_depend_on_the_blocks_of_the_reader(
    tiny: wb.Transcriber, talk: Samples, expected: wb.Transcript, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("whisperbatch.audio.sources.BLOCK", 4_000)
    assert tiny.transcribe(talk, batch_size=1, **GREEDY) == expected


def test_speakers_do_not_depend_on_other_recordings(
    tiny: wb.Transcriber, talk: Samples, expected: wb.Transcript
) -> None:
    others = [np.zeros(80_000, np.float32), talk[:160_000]]
    *_, found = tiny.transcribe_many([*others, talk], ordered=True, **GREEDY)
    assert said(found) == said(expected)
    assert len(said(expected)) > 10


def said(transcript: wb.Transcript) -> list[object]:
    """Return who says what, and all turns."""
    assert transcript.diarization
    segments = [(s.speaker, s.start, s.end, s.text, s.words) for s in transcript.segments]
    return [*segments, *transcript.diarization.turns]
