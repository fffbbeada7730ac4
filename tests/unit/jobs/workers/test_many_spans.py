"""A job with recordings of all lengths, on workers without a model."""

import json
import secrets
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.unit.jobs.planned_jobs import header
from whisperbatch.errors import AudioError
from whisperbatch.jobs import join, status
from whisperbatch.jobs.leases import Lease, Leases
from whisperbatch.jobs.plans.format import PlanFiles, PlannedSpan
from whisperbatch.jobs.plans.planning import make_plan
from whisperbatch.jobs.plans.recordings import StoredFile
from whisperbatch.jobs.plans.stores import Store
from whisperbatch.jobs.workers import spans, worker
from whisperbatch.jobs.workers.results import DetectedLanguage, Results
from whisperbatch.jobs.workers.spans import Languages, Running
from whisperbatch.jobs.workers.tasks import TaskQueue
from whisperbatch.jobs.workers.worker import Worker
from whisperbatch.types import LanguageDetection, Segment, Transcript


class Finished:
    def __init__(self, transcript: Transcript) -> None:
        self._transcript = transcript

    def result(self) -> Transcript:
        return self._transcript

    def cancel(self) -> None:
        pass


class FakeSpans:
    """Writes a segment for each point of a span; recordings named "broken" cannot be read."""

    def __init__(self) -> None:
        self.started: Counter[str] = Counter()
        self.detected: Counter[str] = Counter()
        self._lock = threading.Lock()

    def start(self, source: Any, span: PlannedSpan, language: str | None) -> Running:
        time.sleep(0.001)
        with self._lock:
            self.started[span.id] += 1
        if "broken" in span.uri:
            raise AudioError("cannot be decoded", source=span.uri)
        last = span.last or int((span.first * 300 + span.duration) // 300)
        segments = tuple(
            Segment(0, point * 300.0, point * 300.0 + 1, f"{point}", language or "xx", -0.1, 0, 1)
            for point in range(span.first, last)
        )
        probability = 1.0 if language else 0.5
        return Finished(Transcript(segments, language, probability, last * 300.0, span.uri))

    def detect_language(self, source: str | StoredFile) -> LanguageDetection:
        with self._lock:
            self.detected[str(source)] += 1
        return LanguageDetection("fr", 0.9, {"fr": 0.9})


@pytest.fixture(autouse=True)
def _without_files(monkeypatch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def open_recording(uri: str, _: str, **__: object) -> Iterator[str]:
        yield uri

    monkeypatch.setattr(worker, "open_recording", open_recording)
    monkeypatch.setattr(spans, "open_recording", open_recording)
    monkeypatch.setattr(spans, "POLL", 0.01)


def run_worker(path: Path, spans: FakeSpans, name: str) -> None:
    files = PlanFiles.at(str(path))
    results = Results(files.work)
    leases = Leases(files.work, name, duration=60.0)
    running = Worker(
        TaskQueue(files.read().tasks, leases, results),
        results,
        Languages(results, leases, spans),
        spans,
        name=name,
        engine="fake",
        at_once=4,
        audio_ahead=480.0,
    )
    for _ in running.run():
        pass


@pytest.mark.parametrize("moment", ["before the lease", "during the detection"])
def test_a_language_that_another_worker_has_found_meanwhile_is_used(moment: str) -> None:
    """Two workers find no language; one detects it before the other begins or ends."""
    store = Store(f"memory://{secrets.token_hex()}")
    results, spans = Results(store), FakeSpans()
    russian = DetectedLanguage("ru", 0.8)

    class Late(Leases):
        def acquire(self, task: str, before: Lease | None = None) -> Lease | None:
            if moment == "before the lease":
                results.create_language(task, russian)
            return super().acquire(task, before)

    class Slow(FakeSpans):
        def detect_language(self, source: str | StoredFile) -> LanguageDetection:
            results.create_language("task", russian)
            return super().detect_language(source)

    if moment == "during the detection":
        spans = Slow()
    found = Languages(results, Late(store, "late"), spans)
    span = PlannedSpan("s", "r", "/talks/a.mp3", "1", 0, 1, 300.0, language_task="task")
    assert found.detect(span, threading.Event()) == russian
    assert spans.detected.total() == (moment == "during the detection")
    assert not Leases(store, "other").generations()


def test_a_long_recording_and_broken_ones_among_many(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [
        {"uri": f"/talks/{'broken' if number % 100 == 50 else ''}{number}.mp3", "duration": 20.0}
        for number in range(500)
    ]
    rows.insert(250, {"uri": "/talks/congress.mp3", "duration": 36_000.0})
    manifest = tmp_path / "talks.jsonl"
    manifest.write_text("".join(json.dumps({**row, "etag": "1"}) + "\n" for row in rows))
    plan = make_plan([str(manifest)], header(1800.0, language=None))
    path = tmp_path / "talks.plan"
    PlanFiles.at(str(path)).write(plan)
    assert len(plan.tasks) == 20 + 6
    assert len(plan.tasks[0].spans) == 1  # the parts of the long recording come first
    spans = FakeSpans()
    threads = [
        threading.Thread(target=run_worker, args=(path, spans, f"worker {number}"))
        for number in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(spans.started.values()) == {1}
    assert len(spans.started) == 520
    assert spans.detected == {"/talks/congress.mp3": 1}
    found = status(path)
    assert (found.done, found.transcribed, found.failed) == (26, 515, 5)
    report = join(path, tmp_path / "out", formats=("txt", "json"))
    assert (report.recordings, report.joined, report.failures) == (501, 496, {"audio": 5})
    words = (tmp_path / "out/congress.txt").read_text().split()
    assert words == [str(point) for point in range(120)]
    written = json.loads((tmp_path / "out/congress.json").read_text())
    assert [segment["id"] for segment in written["segments"]] == list(range(120))
    assert (written["language_code"], written["language_probability"]) == ("fr", 0.9)
    assert len(list((tmp_path / "out").glob("*.txt"))) == 496
