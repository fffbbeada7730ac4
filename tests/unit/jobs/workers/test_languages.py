import secrets
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.unit.fakes import write_noise
from whisperbatch.errors import ClosedError
from whisperbatch.jobs.leases import Leases
from whisperbatch.jobs.plans.format import PlannedSpan
from whisperbatch.jobs.plans.recordings import version_of
from whisperbatch.jobs.plans.stores import Store
from whisperbatch.jobs.workers.results import Results
from whisperbatch.jobs.workers.spans import Languages
from whisperbatch.types import LanguageDetection


class French:
    """A model that hears French, and counts."""

    detections = 0

    def detect_language(self, _: object) -> LanguageDetection:
        self.detections += 1
        return LanguageDetection("fr", 0.9, {"fr": 0.9})

    def start(self, *_: object) -> Any:
        raise NotImplementedError


def span(path: Path, task: str) -> PlannedSpan:
    uri = str(path)
    return PlannedSpan("s", "r", uri, version_of(uri), 0, 1, 300.0, language_task=task)


def test_a_language_that_another_worker_detects_stops_no_other_recording(tmp_path: Path) -> None:
    path = write_noise(tmp_path / "a.wav")
    store = Store(f"memory://{secrets.token_hex()}")
    assert Leases(store, "other", duration=500.0).acquire("slow")  # it may have died
    model = French()
    languages = Languages(Results(store), Leases(store, "this"), model)
    stopping = threading.Event()

    def wait() -> None:
        with pytest.raises(ClosedError):
            languages.detect(span(path, "slow"), stopping)

    waiting = [threading.Thread(target=wait) for _ in range(3)]
    for thread in waiting:
        thread.start()
    found: list[str | None] = []
    other = threading.Thread(
        target=lambda: found.append(languages.detect(span(path, "fast"), stopping).language)
    )
    other.start()
    other.join(30)
    assert found == ["fr"]
    assert languages.detect(span(path, "fast"), stopping).language == "fr"
    assert model.detections == 1
    stopping.set()
    for thread in waiting:
        thread.join()
