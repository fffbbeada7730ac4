"""Whole recordings without a plan."""

from pathlib import Path
from typing import Any

import pytest

from tests.unit.fakes import FakeEngine, write_noise
from whisperbatch.errors import EngineError
from whisperbatch.jobs import RecordingWorker, SpanOutcome
from whisperbatch.jobs.workers import results
from whisperbatch.options import resolve
from whisperbatch.transcriber import Transcriber


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results, "ENGINE_PAUSES", (0.0,))
    monkeypatch.setattr(results, "STORAGE_PAUSES", (0.0, 0.0))


def outcomes(*recordings: Any, engine: FakeEngine | None = None) -> dict[str, SpanOutcome]:
    with Transcriber(engine or FakeEngine()) as asr:
        worker = RecordingWorker(asr, resolve(None, vad=False))
        found = list(worker.outcomes(recordings))
    assert [outcome.span.id for outcome in found] == [id_ for id_, _, _ in recordings]
    return {outcome.span.id: outcome for outcome in found}


@pytest.mark.usefixtures("no_threads_left")
def test_each_recording_has_an_outcome(tmp_path: Path) -> None:
    path = str(write_noise(tmp_path / "a.wav", 2.0))
    found = outcomes(
        ("a", path, "en"),
        ("b", path, None),
        ("c", str(tmp_path / "missing.wav"), "en"),
        ("d", None, None),
        ("e", path, "xx"),
    )
    transcript = found["a"].transcript
    assert transcript
    assert (transcript.language, found["a"].end) == ("en", 2.0)
    assert found["b"].transcript
    kinds = {id_: o.failure.kind for id_, o in found.items() if o.failure}
    assert kinds == {"c": "audio", "d": "option", "e": "option"}


def test_a_failing_engine_is_tried_again(tmp_path: Path) -> None:
    path = str(write_noise(tmp_path / "a.wav", 2.0))
    assert outcomes(("a", path, "en"), engine=FakeEngine(failing={"encode": range(2)}))["a"]
    broken = FakeEngine(failing={"encode": range(1000)})
    failure = outcomes(("a", path, "en"), ("b", path, "en"), engine=broken)["b"].failure
    assert failure
    assert failure.kind == "engine"


def test_a_broken_machine_ends_the_run(tmp_path: Path) -> None:
    path = str(write_noise(tmp_path / "a.wav", 2.0))
    with Transcriber(FakeEngine(failing={"encode": range(1000)})) as asr:
        worker = RecordingWorker(asr, resolve(None, vad=False, language="en"))
        for _ in range(2):
            [outcome] = worker.outcomes([("a", path, None)])
            assert outcome.failure
        with pytest.raises(EngineError, match="3 recordings in a row failed"):
            list(worker.outcomes([("a", path, None)]))


@pytest.mark.usefixtures("no_threads_left")
def test_a_consumer_may_stop(tmp_path: Path) -> None:
    path = str(write_noise(tmp_path / "a.wav", 2.0))
    with Transcriber(FakeEngine(delay={"decode": 0.05})) as asr:
        worker = RecordingWorker(asr, resolve(None, vad=False, language="en"))
        found = worker.outcomes((str(number), path, None) for number in range(100))
        assert next(found).transcript
        found.close()
        assert len(list(worker.outcomes([("a", path, None)]))) == 1
