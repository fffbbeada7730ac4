"""The option `reader_processes`: the same transcripts, and processes that end with their use."""

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import whisperbatch as wb
from tests.unit.fakes import Call, FakeEngine, LoudVad, noise, worker_threads
from tests.unit.media_files import encode
from whisperbatch.audio import in_subprocess as decoding
from whisperbatch.transcriber import Transcriber
from whisperbatch.vad import in_subprocess as detection

TASKS = "tests.unit.subprocess_tasks"
OPTIONS = wb.Options(language="fr", chunk_length=5.0, second_opinion=False)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("media") / "a.mp3"
    path.write_bytes(encode([noise(60)], "mp3", "libmp3lame", rate=16_000))
    return path


@pytest.fixture(autouse=True)
def loud_vad(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("whisperbatch.vad._silero", lambda: LoudVad({0.01: 0.9}))
    monkeypatch.setattr(detection, "TASK", f"{TASKS}:loud_detection")


def level(call: Call) -> str:
    """A text that shows the samples of the row."""
    return f" Level {call.row.level:.9f}."


@pytest.fixture
def asr() -> Iterator[Transcriber]:
    with Transcriber(FakeEngine(decode=level)) as asr:
        yield asr


@pytest.mark.parametrize("vad", [True, False])
@pytest.mark.parametrize("readers", [1, 3])
def test_the_transcript_is_the_same(asr: Transcriber, path: Path, readers: int, vad: bool) -> None:
    options = replace(OPTIONS, vad=vad, second_opinion=not vad)
    expected = asr.transcribe(path, options=options)
    assert asr._processes._all == set()
    options = replace(options, readers=readers, reader_processes=True)
    assert asr.transcribe(path, options=options) == expected
    pids = {process.pid for process in asr._processes._all}
    assert len(pids) == 1 + vad
    assert asr.transcribe(path, options=options) == expected
    assert {process.pid for process in asr._processes._all} == pids


def test_the_close_ends_the_processes(path: Path) -> None:
    with Transcriber(FakeEngine(decode=level)) as asr:
        asr.transcribe(path, options=OPTIONS, reader_processes=True)
        processes = [*asr._processes._all]
    assert len(processes) == 2
    assert all(process._process.returncode is not None for process in processes)


def test_a_stream_that_is_closed_gives_its_processes_back(asr: Transcriber, path: Path) -> None:
    for _ in range(2):
        stream = asr.stream(path, options=OPTIONS, batch_size=1, reader_processes=True)
        next(stream)
        stream.close()
        assert worker_threads() == set()
        assert len(asr._processes._idle) == len(asr._processes._all) == 2


@pytest.mark.parametrize("stage", [decoding, detection])
def test_a_process_that_dies_ends_only_its_recording(
    asr: Transcriber, path: Path, stage: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    asr.transcribe(path, options=OPTIONS, reader_processes=True)
    good = asr.transcribe(path, options=OPTIONS)
    work = asr.transcribe_many(
        [path] * 3, options=OPTIONS, reader_processes=True, readers=8, on_error="yield"
    )
    monkeypatch.setattr(stage, "TASK", f"{TASKS}:dies_once")
    monkeypatch.setenv("DIES", str(path.parent / f"{stage.__name__}.died"))  # type: ignore[attr-defined]
    for process in asr._processes._idle:
        process.end()
    asr._processes._idle.clear()
    results = list(work)
    errors = [each for each in results if isinstance(each, wb.WhisperBatchError)]
    assert len(errors) == 1
    assert "was ended by SIGKILL" in str(errors[0])
    assert [each for each in results if each not in errors] == [good, good]


def test_programs_that_cannot_start_an_interpreter(
    asr: Transcriber, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    with pytest.raises(wb.OptionError, match="reader_processes=True starts Python interpreters"):
        asr.transcribe(path, options=OPTIONS, reader_processes=True)
    assert asr.transcribe(path, options=OPTIONS).segments
