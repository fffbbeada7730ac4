"""Decoding in other processes: samples, notices and errors are those of this process."""

import logging
import os
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.unit.media_files import damage, encode, tone
from whisperbatch.audio import AudioReader, open_audio
from whisperbatch.errors import AudioError, EngineError
from whisperbatch.options import Options
from whisperbatch.subprocesses import Subprocesses
from whisperbatch.types import Notice, Samples, Span, SpanSource

SPOKEN = tone(300, 31, 48_000)
MEDIA = {
    "opus": encode([SPOKEN], "ogg", "libopus", rate=48_000),
    "mp3": encode([SPOKEN, -SPOKEN], "mp3", "libmp3lame", rate=48_000, layout="stereo"),
    "flac": encode([SPOKEN], "flac", "flac", rate=48_000),
}


@pytest.fixture(scope="module")
def processes() -> Iterator[Subprocesses]:
    processes = Subprocesses()
    yield processes
    processes.close()


def everything(reader: AudioReader) -> tuple[list[bytes], tuple[Notice, ...], int, str]:
    """The samples, the notices, the last position, and the error of a recording."""
    blocks, error = [], ""
    try:
        blocks = [block.tobytes() for block in reader.channels()]
    except AudioError as raised:
        error = str(raised)
    return blocks, reader.notices.all(), reader.position, error


def both(
    processes: Subprocesses, source: object, options: Options | None = None
) -> tuple[object, object]:
    """What this process and another read."""
    with open_audio(source, options) as here, open_audio(source, options) as there:  # type: ignore[arg-type]
        there.decode_in(processes, 1)
        result = everything(here), everything(there)
        assert processes._all
        return result


@pytest.fixture(params=sorted(MEDIA))
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = tmp_path / f"a.{request.param}"
    path.write_bytes(MEDIA[request.param])
    return path


def test_the_samples_and_notices_are_the_same(processes: Subprocesses, path: Path) -> None:
    here, there = both(processes, path)
    assert there == here


@pytest.mark.parametrize("seed", range(4))
def test_damaged_files_are_the_same(processes: Subprocesses, path: Path, seed: int) -> None:
    media = damage(path.read_bytes(), 0.3, 3000, seed)
    path.write_bytes(media[: len(media) * (9 + seed) // 13])
    here, there = both(processes, path)
    assert there == here


def test_the_warnings_come_here(
    processes: Subprocesses, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "a.mp3"
    path.write_bytes(damage(MEDIA["mp3"], 0.3, 9000))
    texts = []
    for other in (False, True):
        caplog.clear()
        with caplog.at_level(logging.WARNING), open_audio(path) as reader:
            if other:
                reader.decode_in(processes, 1)
            everything(reader)
        texts.append(sorted(record.getMessage() for record in caplog.records))
    assert texts[0] == texts[1] != []


def test_options_and_spans_are_the_same(processes: Subprocesses, tmp_path: Path) -> None:
    path = tmp_path / "a.mp3"
    path.write_bytes(MEDIA["mp3"])
    for options in (
        Options(channel="right"),
        Options(diarize=True, speaker="channel"),
        Options(max_duration=12.5),
    ):
        here, there = both(processes, path, options)
        assert there == here
    here, there = both(processes, SpanSource(path, Span(1)))
    assert there == here


def test_a_relative_path_is_found(
    processes: Subprocesses, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, _ = both(processes, path)
    monkeypatch.chdir(path.parent)  # after the start of the process
    with open_audio(path.name) as reader:
        reader.decode_in(processes, 1)
        monkeypatch.chdir("/")
        with pytest.raises(AudioError):
            open_audio(path.name)
        monkeypatch.chdir(path.parent)
        assert everything(reader)[0] == here[0]  # type: ignore[index]


def test_a_file_that_was_deleted_is_one_error(processes: Subprocesses, path: Path) -> None:
    with open_audio(path) as reader:
        reader.decode_in(processes, 1)
        path.unlink()
        with pytest.raises(AudioError, match=re.escape(path.name)) as caught:
            list(reader.blocks())
    assert caught.value.source == str(path)


def test_sources_that_no_other_process_can_read_stay_here(tmp_path: Path) -> None:
    processes = Subprocesses()
    wav = tmp_path / "a.wav"
    wav.write_bytes(encode([tone(300, 2)], "wav", "pcm_s16le", rate=16_000))
    for source in (np.zeros(16_000, np.float32), MEDIA["opus"], wav):
        with open_audio(source) as reader:
            reader.decode_in(processes, 1)
            assert list(reader.blocks())
    assert processes._all == set()


def test_a_recording_that_was_begun_stays_here(path: Path) -> None:
    processes = Subprocesses()
    with open_audio(path) as reader:
        blocks = reader.blocks()
        next(blocks)
        reader.decode_in(processes, 1)
        assert len(list(blocks)) > 20
    assert processes._all == set()


def test_more_recordings_than_processes_are_read_here(processes: Subprocesses, path: Path) -> None:
    def samples(reader: AudioReader) -> list[Samples]:
        reader.decode_in(processes, 1)
        return list(reader.blocks())

    with open_audio(path) as one, open_audio(path) as other:
        one.decode_in(processes, 1)
        blocks = one.blocks()
        first = next(blocks)
        both_read = samples(other), [first, *blocks]
    assert all(np.array_equal(*pair) for pair in zip(*both_read, strict=True))


def test_a_close_gives_the_process_back(path: Path) -> None:
    processes = Subprocesses()
    for _ in range(2):
        reader = open_audio(path)
        reader.decode_in(processes, 1)
        next(reader.blocks())
        reader.close()
        reader.close()
        assert len(processes._idle) == 1
    processes.close()


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
def test_the_death_of_the_process_ends_the_recording(path: Path) -> None:
    processes = Subprocesses()
    with open_audio(path) as reader:
        reader.decode_in(processes, 1)
        blocks = reader.blocks()
        next(blocks)
        [process] = processes._all
        os.kill(process.pid, 9)
        with pytest.raises(EngineError, match=r"\(decoding\) was ended by SIGKILL"):
            list(blocks)
    assert processes._all == set()
    processes.close()
