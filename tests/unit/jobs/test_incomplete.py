"""Recordings that were cut off: transcribed, counted, and made again if their files change."""

import secrets
from dataclasses import replace
from pathlib import Path

import pytest

from whisperbatch.jobs.inputs import WorkItem
from whisperbatch.jobs.job import Job, Made
from whisperbatch.jobs.ledger import Ledger
from whisperbatch.jobs.plans.format import Recording
from whisperbatch.jobs.plans.joining import JoinedRecording, Joiner, ReportBuilder
from whisperbatch.jobs.plans.stores import Store
from whisperbatch.jobs.workers.results import Results, SpanResult
from whisperbatch.types import CHUNK_RULES, Notice, Transcript

CUT_OFF = Transcript(
    (), "en", 1.0, 24.0, "a.wav", notices=(Notice("incomplete", 24.0, 60.0, "is cut off"),)
)
COMPLETE = replace(CUT_OFF, duration=60.0, notices=())


def write_text(transcript: Transcript, path: Path) -> None:
    path.write_text(f"{transcript.duration}")


@pytest.mark.parametrize("made", [Made("9f02", "2"), Made("9f02", "2", is_complete=False)])
def test_the_ledger_knows_incomplete_recordings(made: Made) -> None:
    assert Made.from_text(made.to_text()) == made


@pytest.mark.parametrize("text", ["9f02", "9f02/2/x", ""])
def test_entries_of_other_versions_are_complete(text: str) -> None:
    assert Made.from_text(text).is_complete


@pytest.mark.parametrize("end", [60.0, 24.0])  # 24.0: the file does not state its end
def test_an_incomplete_recording_is_done_until_its_file_changes(end: float, tmp_path: Path) -> None:
    cut_off = replace(CUT_OFF, notices=(Notice("incomplete", 24.0, end, "is cut off"),))
    recording, output = tmp_path / "a.wav", tmp_path / "a.txt"
    recording.write_bytes(b"first part")
    item = WorkItem(str(recording), (output,))
    with Ledger(tmp_path) as ledger:
        job = Job(lambda _: "settings", ledger)
        job.write(item, [job.fingerprint(item, output)], cut_off, write_text)
        assert job.remaining(item) is None
        assert not job.was_complete(item)
        recording.write_bytes(b"first part and the rest")
        assert job.remaining(item) == item
        job.write(item, [job.fingerprint(item, output)], COMPLETE, write_text)
        assert job.remaining(item) is None
        assert job.was_complete(item)


def test_an_incomplete_recording_with_other_rules_of_chunks_is_kept(tmp_path: Path) -> None:
    recording, output = tmp_path / "a.wav", tmp_path / "a.txt"
    recording.write_bytes(b"first part")
    output.write_text("text")
    item = WorkItem(str(recording), (output,))
    with Ledger(tmp_path) as ledger:
        job = Job(lambda _: "settings", ledger)
        made = Made(job.fingerprint(item, output) or "", str(CHUNK_RULES - 1), is_complete=False)
        ledger.finish(output, made.to_text())
        assert job.remaining(item) is None


def test_the_report_of_join_names_incomplete_recordings() -> None:
    store, output = (Store(f"memory://{secrets.token_hex()}") for _ in range(2))
    results = Results(store)
    recordings = []
    for number, transcript in enumerate((CUT_OFF, COMPLETE)):
        span = f"{number}" * 4
        results.create(
            SpanResult(
                id=span, uri=f"{number}.wav", worker="w", engine="fake", started=0.0, finished=1.0,
                transcript=transcript,
            )
        )  # fmt: skip
        recordings.append(
            Recording(f"r{number}", f"{number}.wav", "v", 60.0, "en", f"{number}", spans=(span,))
        )
    joiner = Joiner(results, output, ("txt",), lambda transcript, _: transcript.text, "settings")

    def join() -> list[JoinedRecording]:
        return list(joiner.join(recordings))

    first, again = join(), join()
    assert [item.state for item in first] == ["joined"] * 2
    assert [item.state for item in again] == ["already joined"] * 2
    for joined in (first, again):
        builder = ReportBuilder()
        for item in joined:
            builder.add(item)
        report = builder.report()
        assert (report.joined, report.incomplete_recordings) == (2, 1)
        assert report.incomplete == {"0.wav": 36.0}
