"""The first lines of users of other programs run, or get one line that says what to write."""

import io
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

import whisperbatch as wb
import whisperbatch.vad
from tests.model.command_line import run_here
from tests.unit.fake_diarizer import use_fake_diarizer
from tests.unit.fakes import FakeEngine, LoudVad, write_noise
from tests.unit.front_doors.features import AUDIBLE, LOUD, speaking_engine
from tests.unit.habits.lines import (
    COMMAND_LINES,
    PYTHON_LINES,
    RUNS,
)
from whisperbatch.engines import loading
from whisperbatch.engines.devices import choose_compute_type, choose_device
from whisperbatch.engines.settings import CTranslate2Settings
from whisperbatch.models import registry


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with recordings, where each known model is an engine without weights."""

    def find_model(name: str, **keywords: Any) -> Path:
        name = registry.SAME_MODELS.get(name, name)
        return tmp_path if name in registry.REPOSITORIES else registry.find_model(name, **keywords)

    def load_ctranslate2(_: Any, device: str, settings: CTranslate2Settings) -> FakeEngine:
        chosen = choose_device(device, settings.devices, device_count=0, library="CTranslate2")
        choose_compute_type(settings.compute_type, chosen, settings.devices)
        return speaking_engine()

    for place in ("whisperbatch.engines.loading", "whisperbatch.cli.transcribe"):
        monkeypatch.setattr(f"{place}.find_model", find_model)
    monkeypatch.setattr("whisperbatch.cli.transcribe.fingerprint", lambda *_: "fake")
    monkeypatch.setattr("whisperbatch.cli.transcribe.measured_kept_frames", lambda *_: 1.0)
    monkeypatch.setattr("whisperbatch.engines.loading.ModelInfo.read", lambda *_: None)
    monkeypatch.setattr(loading, "_load_onnxruntime", lambda *_, **__: speaking_engine())
    monkeypatch.setattr(loading, "_load_ctranslate2", load_ctranslate2)
    monkeypatch.setattr(whisperbatch.vad, "_silero", lambda: LoudVad({LOUD: 0.9, AUDIBLE: 0.3}))
    use_fake_diarizer(monkeypatch)
    monkeypatch.chdir(tmp_path)
    for name in ("audio.wav", "a.wav"):
        write_noise(tmp_path / name, seconds=4.0)
    return tmp_path


@pytest.mark.parametrize(("line", "answer"), COMMAND_LINES.items(), ids=COMMAND_LINES)
def test_a_command_line_runs_or_says_what_to_type(line: str, answer: str, folder: Path) -> None:
    result = run_here(*shlex.split(line), cwd=folder, status=0 if answer == RUNS else 2)
    status = re.compile(r"loading model|1 transcribed|--\S+ \S+ is not needed: ")
    errors = [each for each in result.stderr.splitlines() if not status.match(each)]
    if answer == RUNS:
        assert errors == []
    else:
        unknown = [each.startswith("whisperbatch: No such option: ") for each in errors]
        assert len(errors) == 1 or all(unknown)
        assert answer in "\n".join(errors)
        assert "=" not in result.stderr.replace("HF_HUB_OFFLINE=1", "")  # as Python writes options


@pytest.mark.parametrize(("line", "answer"), PYTHON_LINES.items(), ids=PYTHON_LINES)
def test_a_line_of_python_runs_or_says_what_to_write(line: str, answer: str, folder: Path) -> None:
    recording = io.BytesIO((folder / "audio.wav").read_bytes())
    if answer == RUNS:
        exec(line, {"recording": recording})  # noqa: S102 - a line of this test
        return
    with pytest.raises((wb.WhisperBatchError, AttributeError, ImportError, TypeError)) as caught:
        exec(line, {"recording": recording})  # noqa: S102 - a line of this test
    [message] = str(caught.value).splitlines()
    assert answer in message
    assert "`" not in message


def test_how_many_lines_run() -> None:
    counts = {
        "commands": (len(COMMAND_LINES), list(COMMAND_LINES.values()).count(RUNS)),
        "Python": (len(PYTHON_LINES), list(PYTHON_LINES.values()).count(RUNS)),
    }
    assert counts == {"commands": (76, 42), "Python": (95, 33)}
