"""Finished outputs are made again when the share of the encoder's frames that is kept changes."""

from pathlib import Path
from typing import Any

import pytest

import whisperbatch
from tests.unit.cli.test_transcribe_options import arguments
from tests.unit.fakes import FakeEngine, write_noise
from whisperbatch import Transcriber
from whisperbatch.cli import transcribe


class Runs:
    """Transcribes a recording on the command line, unless its output is finished."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.recording = write_noise(folder / "talk.wav")
        self.loaded = 0
        monkeypatch.setattr(whisperbatch, "load", self._load)
        monkeypatch.setattr(transcribe, "find_model", lambda *_, **__: folder)
        monkeypatch.setattr(transcribe, "fingerprint", lambda *_: "fake")

    def _load(self, *_: Any, **__: Any) -> Transcriber:
        self.loaded += 1
        return Transcriber(FakeEngine())

    def transcribes(self, **load: float) -> bool:
        loaded = self.loaded
        run = arguments(inputs=(str(self.recording),), formats="txt", resume=True, load=load)
        assert transcribe.transcribe_all(run) == 0
        assert self.recording.with_suffix(".txt").exists()
        return self.loaded > loaded


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Runs:
    return Runs(tmp_path, monkeypatch)


def test_the_share_that_was_measured_for_a_model(
    runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    for share, is_new in ((1.0, True), (1.0, False), (0.8, True), (0.8, False)):
        monkeypatch.setattr(transcribe, "measured_kept_frames", lambda _, share=share: share)
        assert runs.transcribes() == is_new


def test_the_share_of_the_option(runs: Runs) -> None:
    assert runs.transcribes()
    for share, is_new in ((0.5, True), (0.5, False), (0.6, True), (0.6, False)):
        assert runs.transcribes(kept_frames=share) == is_new
