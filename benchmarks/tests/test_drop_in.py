"""`benchmarks.drop_in` runs a project's tests on both packages."""

import sys
from pathlib import Path

import pytest

from benchmarks import drop_in

TESTS = """
from faster_whisper import WhisperModel, available_models

def test_on_both():
    assert "tiny" in available_models()

def test_with_theirs_only():
    assert WhisperModel.__module__ == "faster_whisper.transcribe"

def test_with_a_model():
    assert WhisperModel("tiny.en").supported_languages == ["en"]
"""


@pytest.mark.slow
def test_tests_that_fail_with_the_drop_in_only_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_both.py").write_text(TESTS)
    monkeypatch.setattr(sys, "argv", ["drop_in", str(tmp_path)])
    with pytest.raises(SystemExit, match=r"only with .*: \S*test_both.test_with_theirs_only$"):
        drop_in.main()
    output = capfd.readouterr().out
    assert "| test_both.test_on_both | passes | passes |" in output.replace("tests.", "")
    assert "| all 3 | 3 pass | 2 pass |" in output
