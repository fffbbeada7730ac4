"""Actors with a model that needs no time, and that can be told to fail: for tests of the cluster.

The names of the recordings say what happens to them:

    broken...    an AudioError
    deadly...    the actor's process ends, at every attempt
    fatal...     the actor's process ends, at the first attempt
"""

import os
import threading
import time
from pathlib import Path
from typing import Any

from tests.unit.fakes import FakeEngine
from whisperbatch import AudioError, LanguageDetection, Segment, Transcript
from whisperbatch.ray.actors import RecordingActor, TaskActor
from whisperbatch.types import SpanSource

FOLDER = "CHEAP_ACTORS_FOLDER"
"""The environment variable with the folder for notes. Actors inherit it from the cluster."""


def note(kind: str, text: str) -> None:
    """Append a line to the notes of this kind; lines of several processes do not mix."""
    with (Path(os.environ[FOLDER]) / f"{kind}.txt").open("a") as file:
        file.write(f"{text}\n")


class CheapRunning:
    """A span that ends after a few milliseconds."""

    def __init__(self, source: Any, language: str | None) -> None:
        self._source, self._language = source, language
        self._cancelled = threading.Event()

    def result(self) -> Transcript:
        source, first = self._source, 0
        if isinstance(self._source, SpanSource):
            source, first = self._source.source, self._source.span.first
        name = Path(source).name
        time.sleep(0.03)
        if name.startswith("broken"):
            raise AudioError("cannot be decoded", source=source)
        died = Path(os.environ[FOLDER]) / "died"
        if name.startswith("deadly") or (name.startswith("fatal") and not died.exists()):
            died.touch()
            note("deaths", name)
            os._exit(1)
        text = f"{name} {first}"
        note("transcribed", text)
        language = self._language or "en"
        segment = Segment(0, 0.0, 1.0, text, language, -0.2, 0.0, 1.0)
        return Transcript((segment,), language, 1.0, 1.0, name)

    def cancel(self) -> None:
        self._cancelled.set()


class CheapTranscriber:
    """Has the methods of a Transcriber that workers call."""

    def __init__(self) -> None:
        self.engine = FakeEngine()
        note("models", str(os.getpid()))

    def submit(self, source: Any, *, options: Any) -> CheapRunning:
        return CheapRunning(source, options.language)

    def detect_language(self, source: Any, **options: Any) -> LanguageDetection:
        note("detected", Path(source).name)
        time.sleep(0.1)
        return LanguageDetection("fr", 0.9, {})

    def close(self) -> None:
        pass


class CheapTaskActor(TaskActor):
    """`TaskActor` without a model."""

    def load_model(self, settings: Any) -> Any:
        return CheapTranscriber()


class CheapRecordingActor(RecordingActor):
    """`RecordingActor` without a model."""

    def load_model(self, settings: Any) -> Any:
        return CheapTranscriber()
