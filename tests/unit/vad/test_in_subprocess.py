"""Speech detection in other processes: the frames are those of this process."""

from collections.abc import Iterable, Iterator

import numpy as np
import pytest

from tests.unit.fakes import noise
from tests.unit.subprocess_tasks import OddVad
from whisperbatch.subprocesses import Subprocesses
from whisperbatch.types import SAMPLING_RATE, Samples, SpeechFrames
from whisperbatch.vad import in_subprocess
from whisperbatch.vad.in_subprocess import BATCH, SubprocessVad, batches

HERE = OddVad()


@pytest.fixture(scope="module")
def processes() -> Iterator[Subprocesses]:
    processes = Subprocesses()
    yield processes
    processes.close()


@pytest.fixture
def vad(processes: Subprocesses, monkeypatch: pytest.MonkeyPatch) -> SubprocessVad:
    monkeypatch.setattr(in_subprocess, "TASK", "tests.unit.subprocess_tasks:odd_detection")
    return SubprocessVad(HERE, processes, 2)


def blocks_of(samples: Samples, length: int = SAMPLING_RATE) -> Iterator[Samples]:
    for start in range(0, len(samples), length):
        yield samples[start : start + length]


def key(frames: Iterable[SpeechFrames]) -> list[tuple[bytes, bytes, bytes | None]]:
    return [
        (
            each.samples.tobytes(),
            each.probabilities.tobytes(),
            None if each.cleaned is None else each.cleaned.tobytes(),
        )
        for each in frames
    ]


@pytest.mark.parametrize("seconds", [0, 0.01, 1, 2.048, 33.3, 70])
@pytest.mark.parametrize("length", [1, 100_000])
def test_the_frames_are_those_of_this_process(
    vad: SubprocessVad, seconds: float, length: int
) -> None:
    samples = noise(max(seconds, 0.001))[: round(seconds * SAMPLING_RATE)]
    size = length if length > 1 else 7919
    found = key(vad(blocks_of(samples, size)))
    assert found == key(HERE(blocks_of(samples, size)))
    assert seconds < 33 or any(cleaned for *_, cleaned in found)


def test_several_recordings_at_the_same_time(vad: SubprocessVad) -> None:
    """With more recordings than processes, the others are read here."""
    recordings = [noise(20, seed) for seed in range(4)]
    found: list[list[SpeechFrames]] = [[] for _ in recordings]
    for row in zip(*(vad(blocks_of(each)) for each in recordings), strict=True):
        for frames, each in zip(row, found, strict=True):
            each.append(frames)
    assert [key(each) for each in found] == [key(HERE(blocks_of(each))) for each in recordings]


def test_a_run_that_stops_early_leaves_the_process_usable(
    vad: SubprocessVad, processes: Subprocesses
) -> None:
    for _ in range(3):
        frames = vad(blocks_of(noise(30)))
        assert next(frames)
        frames.close()  # type: ignore[attr-defined]  # a generator
    assert len(processes._idle) <= 2
    assert key(vad([noise(5)])) == key(HERE([noise(5)]))


def test_audio_that_comes_slowly_is_not_held(
    vad: SubprocessVad, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(in_subprocess, "PATIENCE", 0.0)
    given = 0

    def slow() -> Iterator[Samples]:
        nonlocal given
        for block in blocks_of(noise(60)):
            given += 1
            yield block

    next(vad(slow()))
    assert given == 3


def test_no_audio_needs_no_process() -> None:
    processes = Subprocesses()
    assert list(SubprocessVad(HERE, processes, 2)(iter(()))) == []
    assert processes._all == set()


def test_batches() -> None:
    blocks = [np.full(1, n, np.float32) for n in range(10)]
    assert [len(batch) for batch in batches(iter(blocks))] == [BATCH, BATCH, 2]
    assert [block for batch in batches(iter(blocks)) for block in batch] == blocks
    assert list(batches([])) == []
