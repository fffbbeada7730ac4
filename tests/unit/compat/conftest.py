"""Fixtures for tests of the drop-in."""

import wave
from pathlib import Path

import pytest

from benchmarks.recordings import set_wave_format
from tests.unit.compat.drop_in import load_fake
from tests.unit.fakes import FakeEngine, noise
from whisperbatch.compat.faster_whisper import WhisperModel


@pytest.fixture
def engine() -> FakeEngine:
    return FakeEngine()


@pytest.fixture
def model(engine: FakeEngine, monkeypatch: pytest.MonkeyPatch) -> WhisperModel:
    return load_fake(monkeypatch, engine)


@pytest.fixture(scope="session")
def wav(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Seventy seconds of noise, for which the fake engine decodes four sentences."""
    path = tmp_path_factory.mktemp("compat") / "noise.wav"
    with wave.open(str(path), "wb") as file:
        set_wave_format(file)
        file.writeframes((noise(70) * 10000).astype("<i2").tobytes())
    return path
