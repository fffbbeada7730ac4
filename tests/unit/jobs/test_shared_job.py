"""Runs of a job on one directory at the same time, and by versions with other rules of chunks."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.unit.fakes import FakeEngine, noise
from tests.unit.media_files import encode
from whisperbatch.jobs.claims import Event, Failed, Finished, FinishedElsewhere, SegmentReady
from whisperbatch.jobs.inputs import WorkItem, find_inputs, plan_outputs
from whisperbatch.jobs.job import Job, run_job
from whisperbatch.jobs.ledger import Ledger
from whisperbatch.options import Options
from whisperbatch.transcriber import Transcriber
from whisperbatch.types import Transcript

COUNT = 12
OPTIONS = Options(vad=False, language="en", batch_size=1, chunk_length=5.0)


@pytest.fixture
def items(tmp_path: Path) -> tuple[WorkItem, ...]:
    """Recordings of 8 s, of which the first is broken."""
    talks = tmp_path / "talks"
    talks.mkdir()
    for number in range(COUNT):
        media = encode([noise(8, seed=number)], "wav", "pcm_s16le", rate=16000)
        (talks / f"{number:02}.wav").write_bytes(media if number else b"no media")
    return plan_outputs(tuple(find_inputs([str(talks)])), ("txt",), tmp_path / "texts")


def ends_of(items: Sequence[WorkItem], directory: Path, *, redo: bool = False) -> list[Event]:
    """Run a job with its own ledger, as a process does; return how each recording has ended."""

    def write(transcript: Transcript, path: Path) -> None:
        path.write_text(transcript.text)

    engine = FakeEngine(delay={"decode": 0.02})
    with Ledger(directory) as ledger, Transcriber(engine) as asr:
        job = Job(lambda _: "s", ledger, redo=redo)
        job.register()
        events = list(run_job(asr, items, OPTIONS, job, write=write))
    return [event for event in events if not isinstance(event, SegmentReady)]


def test_runs_at_the_same_time_share_the_recordings(
    items: tuple[WorkItem, ...], tmp_path: Path
) -> None:
    with ThreadPoolExecutor(3) as pool:
        runs = list(pool.map(lambda _: ends_of(items, tmp_path), range(3)))
    finished = [event.item.source for run in runs for event in run if isinstance(event, Finished)]
    assert sorted(finished) == [item.source for item in items[1:]]
    assert sum(any(isinstance(event, Finished) for event in run) for run in runs) > 1
    for run in runs:
        assert sorted(event.item.source for event in run) == [item.source for item in items]
        [failed] = [event for event in run if isinstance(event, Failed)]
        assert failed.item == items[0]
        assert "00.wav: is not media" in str(failed.error)
    with Ledger(tmp_path) as ledger:
        [lease] = ledger.leases.newest().values()  # of the broken one
        assert "is not media" in lease.error
        assert ledger.count() == 0
    assert any(isinstance(event, FinishedElsewhere) for run in runs for event in run)


def test_with_redo_each_run_makes_all_outputs(items: tuple[WorkItem, ...], tmp_path: Path) -> None:
    with ThreadPoolExecutor(2) as pool:
        runs = list(pool.map(lambda _: ends_of(items, tmp_path, redo=True), range(2)))
    assert [sum(isinstance(event, Finished) for event in run) for run in runs] == [COUNT - 1] * 2


def test_a_new_version_with_other_chunks_keeps_finished_outputs_and_shares_no_recording(
    items: tuple[WorkItem, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    ends_of(items[1:2], tmp_path)
    with Ledger(tmp_path) as ledger:
        job = Job(lambda _: "s", ledger)
        key = job.key(items[2])
        monkeypatch.setattr("whisperbatch.jobs.job.CHUNK_RULES", 99)
        caplog.set_level("INFO", "whisperbatch.jobs")
        assert job.remaining(items[1]) is None
        assert "01.txt: has other chunks than this version makes; it is kept" in caplog.text
        assert job.remaining(items[2]) == items[2]
        assert key != job.key(items[2])
