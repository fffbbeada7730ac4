"""The command line never prints a traceback, except with --verbose."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.fakes import write_noise

PROGRAM = """
import sys
from pathlib import Path

from tests.unit.fakes import FakeEngine
from whisperbatch import Transcriber
from whisperbatch.cli import app, transcribe
from whisperbatch.recording import Row

def fail(*arguments, **keywords):
    raise LookupError("a hole in the list")

def row_of(chunk, extractor, recording):
    return fail() if chunk.length < 48000 else of(chunk, extractor, recording)

of, Row.of = Row.of, row_of
transcribe.wb.load = lambda *_, **__: Transcriber(FakeEngine())
transcribe.find_model = lambda *_, **__: Path("fake")
transcribe.fingerprint = lambda *_: "fake"
if "--quiet" in sys.argv:
    app.transcribe_all = fail
app.run()
"""


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", PROGRAM, "transcribe", *arguments, "--no-vad", "--language", "fr"],
        cwd=Path(__file__).parents[3],
        capture_output=True,
        check=False,
        text=True,
        env={"PYTHONPATH": str(Path(__file__).parents[3]), "HF_HUB_OFFLINE": "1"},
    )


@pytest.mark.parametrize("verbose", [False, True])
def test_a_recording_with_an_unexpected_error_fails_alone(verbose: bool, tmp_path: Path) -> None:
    good, bad = write_noise(tmp_path / "good.wav", 4.0), write_noise(tmp_path / "bad.wav", 2.0)
    flags = ["--verbose"] if verbose else []
    result = run(str(bad), str(good), "-o", str(tmp_path / "texts"), *flags)
    assert result.returncode == 1, result.stderr
    assert f"failed: {bad}: unexpected LookupError: a hole in the list; this is" in result.stderr
    assert "1 transcribed, 1 failed" in result.stderr
    assert ("Traceback" in result.stderr) == verbose
    assert [path.name for path in (tmp_path / "texts").glob("*.txt")] == ["good.txt"]


@pytest.mark.parametrize("verbose", [False, True])
def test_an_unexpected_error_outside_of_a_recording(verbose: bool, tmp_path: Path) -> None:
    good = write_noise(tmp_path / "good.wav")
    flags = ["--verbose"] if verbose else []
    result = run(str(good), "--quiet", *flags)
    assert result.returncode == 6
    line = result.stderr.splitlines()[-1]
    assert line.startswith(
        "whisperbatch: unexpected LookupError: a hole in the list; this is a bug"
    )
    assert ("Traceback" in result.stderr) == verbose
    assert verbose or len(result.stderr.splitlines()) == 1
