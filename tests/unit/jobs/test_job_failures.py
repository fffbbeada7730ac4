"""Outputs that cannot be written, and files that disappear, fail only their recording."""

import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.unit.fakes import FakeEngine, noise
from tests.unit.media_files import encode
from whisperbatch.errors import WriteError
from whisperbatch.jobs.claims import Event, Failed, Finished
from whisperbatch.jobs.inputs import WorkItem, find_inputs, plan_outputs
from whisperbatch.jobs.job import Job, WriteTranscript, run_job
from whisperbatch.jobs.ledger import Ledger
from whisperbatch.options import Options
from whisperbatch.transcriber import Transcriber
from whisperbatch.types import Transcript
from whisperbatch.writers import write

OPTIONS = Options(vad=False, language="en")


@pytest.fixture
def talks(tmp_path: Path) -> Path:
    directory = tmp_path / "talks"
    directory.mkdir()
    for number in range(6):
        media = encode([noise(2, seed=number)], "wav", "pcm_s16le", rate=16000)
        (directory / f"{number}.wav").write_bytes(media)
    return directory


def items_of(talks: Path, texts: Path, *formats: str) -> tuple[WorkItem, ...]:
    return plan_outputs(tuple(find_inputs([str(talks)])), formats or ("txt",), texts)


def events_of(
    items: Sequence[WorkItem], job: Job, write_file: WriteTranscript = write
) -> Iterator[Event]:
    asr = Transcriber(FakeEngine())
    yield from run_job(asr, items, OPTIONS, job, write=write_file, ordered=True)


def failures(
    items: Sequence[WorkItem], job: Job, write_file: WriteTranscript = write
) -> dict[str, str]:
    """Run the job; return the name of each recording that failed, and its error."""
    remaining = [job.remaining(item) for item in items]
    events: list[Any] = [entry for entry in remaining if isinstance(entry, Failed)]
    unfinished = [entry for entry in remaining if isinstance(entry, WorkItem)]
    events += events_of(unfinished, job, write_file)
    failed = [event for event in events if isinstance(event, Failed)]
    assert len({event.item.source for event in failed}) == len(failed)
    assert all("\n" not in str(event.error) for event in failed)
    return {Path(event.item.source).name: str(event.error) for event in failed}


def job_with(ledger: Ledger | None) -> Job:
    return Job(lambda _: "s", ledger)


def test_outputs_with_long_names_are_written_and_found_again(talks: Path, tmp_path: Path) -> None:
    long = [talks / ("z" * 251 + suffix) for suffix in (".wav", ".mp3")]
    long.append(talks / ("é" * 125 + ".wav"))
    for path in long:
        shutil.copy(talks / "0.wav", path)
    items = items_of(talks, tmp_path, "srt", "json")
    with Ledger(tmp_path) as ledger:
        assert failures(items, job_with(ledger)) == {}
        outputs = {output for item in items for output in item.outputs}
        assert len(outputs) == 18
        assert all(output.stat().st_size for output in outputs)
    with Ledger(tmp_path) as ledger:
        assert [job_with(ledger).remaining(item) for item in items] == [None] * 9
    assert not [path for path in tmp_path.iterdir() if path.suffix == ".tmp"]


@pytest.mark.parametrize("has_ledger", [True, False])
def test_an_output_that_cannot_be_written_fails_only_its_recording(
    talks: Path, tmp_path: Path, *, has_ledger: bool
) -> None:
    """A path is too long, a name is too long, or a directory has the name of the output."""
    items = list(items_of(talks, tmp_path, "txt", "srt"))
    for number, output in (
        (1, tmp_path.joinpath(*["folder"] * 700, "1.txt")),
        (2, tmp_path / f"{'z' * 300}.txt"),
        (3, tmp_path / "a\0b.txt"),
    ):
        items[number] = WorkItem(items[number].source, (output, items[number].outputs[1]))
    items[4].outputs[0].mkdir()
    with Ledger(tmp_path) as ledger:
        failed = failures(items, job_with(ledger if has_ledger else None))
    assert failed.keys() == {"1.wav", "2.wav", "3.wav", "4.wav"}
    for error in failed.values():
        assert "cannot be" in error or "exists already" in error
    for number in (0, 5):
        assert items[number].outputs[0].read_text()


def test_the_other_files_of_the_recording_are_written(talks: Path, tmp_path: Path) -> None:
    items = items_of(talks, tmp_path, "txt", "srt", "json")
    items[0].outputs[0].mkdir()
    items[1].outputs[0].mkdir()
    items[1].outputs[2].mkdir()
    failed = failures(items, job_with(None))
    assert failed.keys() == {"0.wav", "1.wav"}
    assert failed["0.wav"].endswith("0.txt: cannot be written: Is a directory")
    assert failed["1.wav"].endswith("Is a directory; and one more file of this recording")
    assert all(item.outputs[1].is_file() for item in items)


def test_recordings_that_disappear_fail_alone(talks: Path, tmp_path: Path) -> None:
    items = items_of(talks, tmp_path)
    for number in (1, 4):
        Path(items[number].source).unlink()
    failed = failures(items, job_with(None))
    assert failed.keys() == {"1.wav", "4.wav"}
    assert all("there is no such file" in error for error in failed.values())


def test_a_job_continues_when_its_directory_is_deleted(talks: Path, tmp_path: Path) -> None:
    texts = tmp_path / "texts"
    texts.mkdir()
    items = items_of(talks, texts)
    with Ledger(texts) as ledger:
        finished = 0
        for event in events_of(items, job_with(ledger)):
            assert not isinstance(event, Failed), event
            if isinstance(event, Finished):
                finished += 1
                if finished == 2:
                    shutil.rmtree(texts)
    assert [item.outputs[0].exists() for item in items] == [False, False, True, True, True, True]
    with Ledger(texts) as ledger:
        remaining = [job_with(ledger).remaining(item) for item in items]
        assert remaining == [*items[:2], None, None, None, None]
        assert failures(items, job_with(ledger)) == {}
    assert all(item.outputs[0].exists() for item in items)


def test_a_disk_that_fills_up_loses_nothing(talks: Path, tmp_path: Path) -> None:
    """The ledger and two outputs cannot be written; the next run completes the job."""
    items = items_of(talks, tmp_path / ("n" * 200), "txt", "json")

    def write_or_fail(transcript: Transcript, path: Path) -> None:
        if path.name in ("0.txt", "1.json"):
            raise WriteError(f"{path}: cannot be written: No space left on device")
        write(transcript, path)

    with Ledger(tmp_path) as ledger:
        [(pages,)] = ledger._database.execute("PRAGMA page_count")
        ledger._database.execute(f"PRAGMA max_page_count={pages}")
        for number in range(14):  # the remaining space of the table, but for a few entries
            ledger.begin(tmp_path / f"{number:0230}")
        failed = failures(items, job_with(ledger), write_or_fail)
    assert {"0.wav", "1.wav"} < failed.keys()
    assert any("cannot be listed in" in error for error in failed.values())
    with Ledger(tmp_path) as ledger:
        remaining = [job_with(ledger).remaining(item) for item in items]
        assert not any(isinstance(entry, Failed) for entry in remaining)
        for item, entry in zip(items, remaining, strict=True):
            unfinished = entry.outputs if isinstance(entry, WorkItem) else ()
            for output in item.outputs:
                assert output in unfinished or output.stat().st_size
        assert failures(items, job_with(ledger)) == {}
        assert [job_with(ledger).remaining(item) for item in items] == [None] * 6
