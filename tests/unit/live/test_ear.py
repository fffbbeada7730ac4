"""Turns and their parts, with a detector that takes loud audio for speech."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from tests.unit.live.fakes import LoudIsSpeech, audio
from whisperbatch.live import ear
from whisperbatch.live.ear import Began, Ear, Ended, Heard, Part, TurnRule
from whisperbatch.options import Options
from whisperbatch.types import Samples, to_samples, to_seconds

PAUSE = TurnRule(to_samples(0.5))
MANUAL = TurnRule(None)


@pytest.fixture(autouse=True)
def _detector(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ear, "CausalDetector", LoudIsSpeech)


def hear(hearer: Ear, samples: Samples, block: int = 1600) -> list[Heard]:
    return [
        item
        for start in range(0, len(samples), block)
        for item in hearer.push(samples[start : start + block])
    ]


def summary(items: list[Heard]) -> list[tuple[Any, ...]]:
    """Name, turn and times to a tenth of a second; of parts the chunk, and whether it is last."""

    def times(*samples: int) -> tuple[float, ...]:
        return tuple(round(to_seconds(sample), 1) for sample in samples)

    result: list[tuple[Any, ...]] = []
    for item in items:
        if isinstance(item, Began):
            result.append(("began", item.turn, *times(item.start)))
        elif isinstance(item, Ended):
            result.append(("ended", item.turn, *times(item.start, item.end)))
        elif item.chunk is None:
            result.append(("part", item.turn, None, item.complete))
        else:
            chunk = times(item.chunk.start, item.chunk.end)
            result.append(("part", item.turn, chunk, item.complete))
    return result


def test_a_pause_ends_a_turn() -> None:
    hearer = Ear(Options(), PAUSE)
    found = summary(hear(hearer, audio(1.0, 2.0, 0.3, 1.0, 1.0, 0.7, 0.2)))
    assert found == [
        ("began", 0, 0.9),
        ("ended", 0, 0.9, 4.4),
        ("part", 0, (0.9, 4.4), True),
        ("began", 1, 5.2),
    ]
    assert hearer.turn == 1
    assert summary(list(hearer.flush())) == [("ended", 1, 5.2, 6.1), ("part", 1, (5.2, 6.1), True)]
    assert hearer.turn is None
    assert list(hearer.flush()) == []


@pytest.mark.parametrize("block", [100, 512, 5000, 10**6])
def test_turns_do_not_depend_on_the_sizes_of_the_blocks(block: int) -> None:
    samples = audio(0.7, 1.3, 0.9, 4.2, 0.2, 0.5, 3.0)
    found = [i for i in summary(hear(Ear(Options(), PAUSE), samples, block)) if i[0] == "part"]
    assert found == [("part", 0, (0.6, 2.1), True), ("part", 1, (2.8, 7.9), True)]


def test_the_speech_spans_of_a_chunk_are_those_of_a_recording() -> None:
    [part] = [i for i in hear(Ear(Options(), PAUSE), audio(1, 1, 0.4, 1, 1)) if isinstance(i, Part)]
    assert part.chunk is not None
    spans = [(to_seconds(s.start), to_seconds(s.end)) for s in part.chunk.speech]
    assert [(round(a, 1), round(b, 1)) for a, b in spans] == [(0.9, 2.1), (2.3, 3.5)]
    assert len(part.chunk.samples) == part.chunk.end - part.chunk.start
    assert np.array_equal(
        part.chunk.samples, audio(1, 1, 0.4, 1, 1)[part.chunk.start :][: part.chunk.length]
    )


def test_a_long_turn_has_parts_that_fit_into_a_chunk() -> None:
    samples = audio(0.5, *[8.0, 0.3] * 5, 8.0, 1.0)
    hearer = Ear(Options(chunk_length=20.0), PAUSE)
    parts = [item for item in hear(hearer, samples) if isinstance(item, Part)]
    assert [part.complete for part in parts] == [False, False, True]
    assert all(part.chunk and part.chunk.length <= to_samples(20.0) for part in parts)
    spans = [span for part in parts if part.chunk for span in part.chunk.speech]
    assert len(spans) == 6
    assert {part.turn for part in parts} == {0}


def test_speech_without_a_pause_is_cut() -> None:
    hearer = Ear(Options(), PAUSE)
    parts = [item for item in hear(hearer, audio(0.5, 70.0, 1.0)) if isinstance(item, Part)]
    assert [part.complete for part in parts] == [False, False, True]
    chunks = [part.chunk for part in parts if part.chunk]
    assert all(chunk.length <= to_samples(30.0) for chunk in chunks)
    assert [b.start - a.end for a, b in pairwise(chunks)] == [0, 0]
    assert to_seconds(chunks[-1].end) == pytest.approx(70.6, abs=0.05)


def test_a_click_is_no_turn() -> None:
    assert hear(Ear(Options(), PAUSE), audio(1.0, 0.06, 2.0)) == []


def test_only_the_caller_ends_a_manual_turn() -> None:
    hearer = Ear(Options(), MANUAL)
    assert summary(hear(hearer, audio(1.0, 1.0, 3.0, 1.0, 2.0))) == [("began", 0, 0.0)]
    ended, part = summary(list(hearer.flush()))
    assert ended == ("ended", 0, 0.0, 8.0)
    assert part == ("part", 0, (0.9, 6.1), True)
    assert summary(hear(hearer, audio(0.5)))[0] == ("began", 1, 8.0)


def test_a_manual_turn_without_speech_is_decoded_as_a_whole() -> None:
    hearer = Ear(Options(), MANUAL)
    hear(hearer, audio(1.5))
    assert summary(list(hearer.flush()))[1] == ("part", 0, (0.0, 1.5), True)


@pytest.mark.parametrize("rule", [PAUSE, MANUAL])
def test_memory_does_not_grow(rule: TurnRule) -> None:
    hearer = Ear(Options(), rule)
    held = []
    for _ in range(8):
        hear(hearer, audio(1.0, 2.0, 25.0, 1.0, 0.2), 16_000)
        held.append(sum(map(len, hearer._buffer._blocks)))
    assert max(held) < to_samples(62)


def test_a_cleared_turn_has_no_text() -> None:
    hearer = Ear(Options(), PAUSE)
    hear(hearer, audio(1.0, 2.0))
    assert summary(list(hearer.clear())) == [("ended", 0, 0.9, 3.0), ("part", 0, None, True)]
    assert list(hearer.clear()) == []
    found = summary(hear(hearer, audio(1.0, 1.0, 1.0)))
    assert found[0] == ("began", 1, 3.9)
    assert found[-1][2] == (3.9, 5.1)


def test_the_window_has_the_open_speech_and_the_spans_before_it() -> None:
    hearer = Ear(Options(), PAUSE)
    hear(hearer, audio(1.0, 1.0, 0.3, 1.0))
    spans = hearer.window(0)
    assert [round(to_seconds(span.start), 1) for span in spans] == [0.9, 2.2]
    assert spans[-1].end == hearer.examined
    [later] = hearer.window(to_samples(2.5))
    assert later.start == to_samples(2.5)


def test_new_settings_hold_from_the_next_turn() -> None:
    hearer = Ear(Options(), PAUSE)
    hear(hearer, audio(1.0, 1.0, 1.0))
    hearer.configure(Options(), TurnRule(to_samples(2.0)))
    found = summary(hear(hearer, audio(0.2, 1.0, 1.0, 1.0, 1.5)))
    assert found == [("began", 1, 3.1)]
    assert summary(hear(hearer, audio(0.7)))[-1] == ("part", 1, (3.1, 6.3), True)


def test_a_sentence_ends_a_turn_after_less_silence() -> None:
    """Only if the sentence is that of the last speech."""
    rule = TurnRule(to_samples(2.0), to_samples(0.4))
    hearer = Ear(Options(), rule)
    assert summary(hear(hearer, audio(1.0, 1.0, 0.3))) == [("began", 0, 0.9)]
    chunk = hearer.paused_chunk()
    assert chunk is not None
    hearer.note_sentence(chunk.speech[-1].end)
    assert summary(hear(hearer, audio(0.2)))[-1] == ("part", 0, (0.9, 2.1), True)
    assert summary(hear(hearer, audio(0.5, 1.0, 0.3))) == [("began", 1, 2.9)]
    chunk = hearer.paused_chunk()
    assert chunk is not None
    hearer.note_sentence(chunk.speech[-1].end)
    hear(hearer, audio(0.02, 1.0))  # speech goes on: the sentence was not the last
    assert summary(hear(hearer, audio(1.5))) == []
    assert summary(hear(hearer, audio(0.7)))[-1][0] == "part"
