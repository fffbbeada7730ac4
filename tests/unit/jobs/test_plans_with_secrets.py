"""Plans of recordings whose URLs have secrets: the plan keeps them, and nothing else shows them."""

import json
import logging
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.unit.fakes import FakeEngine
from tests.unit.jobs.planned_jobs import write_plan
from tests.unit.signed_urls import SECRET, SIGNATURE, check, serving
from whisperbatch import jobs
from whisperbatch.cli.plans import PlanArguments, make_plan
from whisperbatch.errors import WhisperBatchError
from whisperbatch.jobs.plans import stores
from whisperbatch.jobs.plans.format import Failure, PlanFiles, Recording
from whisperbatch.jobs.plans.joining import JoinedRecording, ReportBuilder
from whisperbatch.jobs.plans.stores import Store, file_system
from whisperbatch.jobs.workers.outcomes import SpanOutcome
from whisperbatch.transcriber import Transcriber


@pytest.fixture(scope="module")
def base() -> Iterator[str]:
    """The address of a server, with a user and a password."""
    with serving() as address:
        yield address


@pytest.fixture
def url(base: str) -> str:
    """A recording."""
    return f"{base}/a.wav?{SIGNATURE}"


def manifest(folder: Path, *urls: str) -> Path:
    """A manifest, which needs no probing."""
    path = folder / "talks.jsonl"
    rows = [{"uri": url, "duration": 3.0, "etag": "1", "language": "en"} for url in urls]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_a_plan_keeps_the_url_for_the_user_alone(
    tmp_path: Path,
    url: str,
    base: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = tmp_path / "talks.plan"
    path.write_text('{"type": "plan"}')  # an older file with the usual mode
    path.unlink()
    write_plan(path, [manifest(tmp_path, url, f"{base}/b.wav")])
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert PlanFiles.at(str(path)).read().recordings[0].uri == url
    write_plan(path, [manifest(tmp_path, "https://h/a.wav")])
    assert stat.S_IMODE(path.stat().st_mode) != 0o600
    monkeypatch.setattr(
        jobs, "plan", lambda sources, output, **_: write_plan(output, list(sources))
    )
    make_plan(PlanArguments(sources=[str(manifest(tmp_path, url))], output=str(path)))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    printed = capsys.readouterr().err
    assert "passwords or signatures of 1 URLs" in printed
    assert "mode 0600" in printed
    assert SECRET not in printed
    make_plan(PlanArguments(sources=[str(manifest(tmp_path, "https://h/a"))], output=str(path)))
    assert "passwords" not in capsys.readouterr().err


def test_a_new_signature_leaves_the_results_of_a_plan_valid(tmp_path: Path, url: str) -> None:
    plans = [
        write_plan(tmp_path / "talks.plan", [manifest(tmp_path, url.replace(SECRET, text))])
        for text in (SECRET, SECRET)
    ]
    renewed = manifest(tmp_path, url.replace(f"Signature={SECRET}", "Signature=new"))
    plans.append(write_plan(tmp_path / "talks.plan", [renewed]))
    assert len({plan.recordings[0].id for plan in plans}) == 1
    assert plans[2].recordings[0].uri.endswith("=new")


def test_the_files_of_a_plan_show_no_secret(
    tmp_path: Path, url: str, base: str, caplog: pytest.LogCaptureFixture
) -> None:
    pytest.importorskip("aiohttp")
    caplog.set_level(logging.DEBUG, "whisperbatch")
    path = tmp_path / "talks.plan"
    signed = [url, f"{base}/forbidden.wav?{SIGNATURE}", f"{base}/no.mp3?{SIGNATURE}"]
    plan = write_plan(path, signed)  # probed
    assert [bool(recording.failure) for recording in plan.recordings] == [False, True, True]
    with Transcriber(FakeEngine()) as asr:
        events: list[Any] = []
        work = jobs.work(path, asr=asr, on_span=events.append)
        assert (work.transcribed, work.failed) == (1, 0)
        later = tmp_path / "later.plan"
        write_plan(later, [manifest(tmp_path, *signed[1:], f"{base}/forbidden.wav?token={SECRET}")])
        jobs.work(later, asr=asr)
    texts = [jobs.join(each, tmp_path / "out", formats=("json", "txt")) for each in (path, later)]
    assert SECRET not in repr(texts)
    written = [file for file in tmp_path.rglob("*") if file.is_file()]
    shown_in = [file for file in written if SECRET in file.read_text(encoding="utf-8")]
    assert {file.suffix for file in shown_in} == {".plan", ".jsonl"}
    assert {stat.S_IMODE(file.stat().st_mode) for file in shown_in if file.suffix == ".plan"} == {
        0o600
    }
    assert any("127.0.0.1" in file.read_text() for file in written if ".work" in str(file))
    assert SECRET not in "".join(str(file) for file in written)
    assert SECRET not in caplog.text


def test_failures_that_differ_only_in_secrets_are_all_listed() -> None:

    builder = ReportBuilder()
    for token in ("hush", "hush2"):
        recording = Recording(token, f"https://h/get?token={token}", "", 1.0, None, "get")
        builder.add(JoinedRecording(recording, "failed", failure=Failure("audio", "no")))
    assert list(builder.report().failed) == ["https://h/get?***", "https://h/get?*** (2)"]


def test_errors_of_stores_show_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("aiohttp")
    monkeypatch.setattr(stores, "PAUSES", ())
    place = f"http://me:{SECRET}@127.0.0.1:1/jobs?token={SECRET}"
    doors: tuple[Callable[[], object], ...] = (
        lambda: Store(place).read("a"),
        lambda: file_system(f"nosuch://me:{SECRET}@h/a"),
        lambda: jobs.status(f"{place[:-11]}/talks.plan?token={SECRET}"),
        lambda: jobs.plan(f"{place}.jsonl", "a.plan"),
    )
    for door in doors:
        with pytest.raises(WhisperBatchError) as caught:
            door()
        check(caught.value)


def test_rows_of_ray_show_no_secret(url: str) -> None:
    pytest.importorskip("pyarrow")
    from whisperbatch.ray.actors import recording_row, span_row  # noqa: PLC0415 - needs pyarrow

    outcome = SpanOutcome(
        jobs.PlannedSpan("1", "1", url, "", 0, None, 3.0), None, Failure("audio", "no")
    )
    assert SECRET not in f"{span_row(outcome)} {recording_row(outcome)}"
