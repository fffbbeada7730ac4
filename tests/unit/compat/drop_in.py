"""Helpers for tests of the drop-in: a model on an engine without weights, and its threads."""

import threading
from typing import Any

import pytest

from tests.unit.fakes import FakeEngine
from whisperbatch import Transcriber
from whisperbatch.compat.faster_whisper import WhisperModel, transcribe

NO_VAD: dict[str, Any] = {"vad_filter": False}  # the VAD finds no speech in noise


def load_fake(monkeypatch: pytest.MonkeyPatch, engine: FakeEngine) -> WhisperModel:
    monkeypatch.setattr(transcribe, "load", lambda *_, **__: Transcriber(engine))
    return WhisperModel("fake")


def running_threads() -> set[str]:
    return {t.name for t in threading.enumerate() if t.name.startswith("whisperbatch")}
