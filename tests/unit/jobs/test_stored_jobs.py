"""Jobs of an older version are continued: nothing that was finished is decoded again.

If a test of keys fails, users would transcribe their archives again. A new option must leave the
keys as they are, for example because `digest` leaves it out while it has its default.
"""

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

if sys.platform == "win32":
    pytest.skip("the stored keys contain paths of POSIX", allow_module_level=True)

from tests.unit.jobs import stored_jobs
from tests.unit.jobs.stored_jobs import DATA, PLAN, TALKS, TEXTS, engine, items, job, stored_job
from whisperbatch import jobs
from whisperbatch.jobs import Failed, Finished, Ledger, WorkItem, WorkReport, digest, run_job
from whisperbatch.jobs.leases import Leases
from whisperbatch.jobs.plans.format import PlanFiles
from whisperbatch.jobs.plans.planning import make_plan
from whisperbatch.options import Options
from whisperbatch.transcriber import Transcriber
from whisperbatch.writers import SubtitleOptions, TableOptions

ROWS: Final = 6  # of the interrupted recording


@pytest.fixture
def finished() -> Iterator[None]:
    with stored_job("finished_job", stored_jobs.SECONDS):
        yield


@pytest.fixture
def interrupted() -> Iterator[None]:
    with stored_job("interrupted_job", stored_jobs.SECONDS):
        yield


@pytest.fixture
def planned() -> Iterator[None]:
    with stored_job("plan_in_work", stored_jobs.PLANNED):
        (TALKS / "gone.wav").unlink()
        yield


def outputs(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in folder.glob("*.*") if path.suffix != ".db"}


@pytest.mark.usefixtures("finished")
def test_a_finished_job_stays_finished() -> None:
    with Ledger(TEXTS) as ledger:
        assert [job(ledger).remaining(item) for item in items()] == [None] * 5


@pytest.mark.usefixtures("interrupted")
def test_only_the_interrupted_recording_of_a_job_is_continued() -> None:
    before = outputs(TEXTS)
    fake = engine()
    with Transcriber(fake) as asr, Ledger(TEXTS) as ledger:
        left = [item for item in items() if isinstance(job(ledger).remaining(item), WorkItem)]
        assert [Path(item.source).stem for item in left] == ["4"]
        events = list(
            run_job(asr, left, stored_jobs.OPTIONS, job(ledger), write=stored_jobs.write_output)
        )
        assert not any(isinstance(event, Failed) for event in events)
        assert sum(isinstance(event, Finished) for event in events) == len(left)
        assert [job(ledger).remaining(item) for item in items()] == [None] * 5
        assert ledger.leases.newest() == {}
    after = outputs(TEXTS)
    assert after.keys() == outputs(DATA / "finished_job/texts").keys()
    assert {name: after[name] for name in before} == before
    assert 0 < len(fake.calls) <= ROWS  # fewer, if the journal is used


@pytest.mark.usefixtures("planned")
def test_only_the_interrupted_spans_of_a_plan_begin_again(tmp_path: Path) -> None:
    fake = engine()
    work = PlanFiles.at(str(PLAN)).work
    results = {name: work.read(f"results/{name}") for name in work.names("results")}
    assert len(results) == 4
    with Transcriber(fake) as asr:
        assert jobs.work(PLAN, asr=asr) == WorkReport(2, 0, 0, 400.0)
    rows = len(fake.calls)
    assert 400 / 30 <= rows <= 400 / 20
    assert len(work.names("results")) == 6
    assert {name: work.read(f"results/{name}") for name in results} == results
    assert Leases(work, "test").generations() == {}
    report = jobs.join(PLAN, tmp_path, formats=("txt", "srt"))
    assert (report.joined, report.failures) == (3, {"audio": 1})
    assert "Row" in (tmp_path / "0.txt").read_text()
    assert (tmp_path / "long.txt").read_text().count("Nothing new.") == rows


@pytest.mark.usefixtures("planned")
def test_a_plan_that_is_made_again_keeps_its_ids() -> None:
    files = PlanFiles.at(str(PLAN))
    stored = files.read()
    stored_jobs.write_saw(TALKS / "gone.wav", stored_jobs.PLANNED["gone"], 211 + 2 * 2)
    again = make_plan([str(TALKS)], stored.header)
    assert again == stored
    files.write(again)
    shutil.copy(PLAN, f"{PLAN}.again")
    assert Path(f"{PLAN}.again").read_bytes() == (DATA / "plan_in_work/talks.plan").read_bytes()


@pytest.mark.parametrize(
    ("value", "key"),
    [
        (Options(), "63813dd1bb3300bb4ce7382604f107c5"),
        (
            Options(initial_prompt="Dr. Ørsted", beam_size=1, diarize=True, hotwords="a"),
            "f68face330783d760bf34b5952c71e28",
        ),
        (SubtitleOptions(), "9e0b2ff8ea9ba8a0a9a2173b56bb890c"),
        ([("srt", SubtitleOptions())], "6c9305094de32097bca9b6b0413bcf6f"),
        (
            SubtitleOptions(max_line_width=30, highlight_words=True),
            "aab033d2beba441a958cbc0fc446610d",
        ),
        (TableOptions(), "20cdb2d790000ee08f10e20b64386382"),
        ([("compute_type", "int8")], "85716e2f5e17ebf18d72f2cba8bfc0d6"),
    ],
)
def test_keys_stay(value: object, key: str) -> None:
    assert digest(value) == key
