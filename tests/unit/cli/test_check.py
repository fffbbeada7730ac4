"""`whisperbatch check`: what it prints, and its exit status."""

import json
from pathlib import Path

import pytest

from tests.model.command_line import run_here

GOOD = "1\n00:00:01,000 --> 00:00:03,000\nWell, I know that.\n"
FAST = "1\n00:00:01,000 --> 00:00:02,000\nWell, I know that he came.\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "good.srt").write_text(GOOD)
    (tmp_path / "fast.srt").write_text(FAST)
    return tmp_path


def test_a_good_file(folder: Path) -> None:
    done = run_here("check", "good.srt", cwd=folder)
    assert (done.stdout, done.stderr) == ("", "0 violations\n")


def test_violations_are_lines_and_the_exit_status_is_1(folder: Path) -> None:
    done = run_here("check", "fast.srt", "--rules", "netflix", cwd=folder, status=1)
    assert done.stdout == ("1  00:00:01.000  reading speed: 26 columns per second, at most 20\n")
    assert done.stderr == "1 violation: 1 reading speed\n"
    done = run_here("check", "good.srt", "fast.srt", "--rules", "bbc", cwd=folder, status=1)
    assert done.stdout == (
        "fast.srt: 1  00:00:01.000  reading speed: 6 words per second, at most 3\n"
    )
    assert done.stderr.splitlines() == [
        "good.srt: 0 violations",
        "fast.srt: 1 violation: 1 reading speed",
    ]
    run_here("check", "fast.srt", "--rules", "plain", cwd=folder)


def test_json(folder: Path) -> None:
    done = run_here("check", "good.srt", "fast.srt", "-f", "json", cwd=folder, status=1)
    good, fast = json.loads(done.stdout)
    assert good == {"file": "good.srt", "violations": []}
    [violation] = fast["violations"]
    assert (violation["cue"], violation["rule"], violation["value"]) == (1, "reading speed", 26)
    assert done.stdout.count("\n") == 1


def test_the_language_changes_the_limit(folder: Path) -> None:
    done = run_here("check", "good.srt", "--language", "de", "--frame-rate", "25", cwd=folder)
    assert done.stdout == ""
    slow = FAST.replace("00:00:02,000", "00:00:02,400")
    (folder / "a.de.srt").write_text(slow)
    (folder / "a.en.srt").write_text(slow)
    run_here("check", "a.en.srt", cwd=folder)
    run_here("check", "a.de.srt", cwd=folder, status=1)


def test_files_that_cannot_be_read(folder: Path) -> None:
    done = run_here("check", "missing.srt", cwd=folder, status=2)
    assert "missing.srt': there is no such file; check the path" in done.stderr
    done = run_here("check", "missing.srt", "good.srt", cwd=folder, status=1)
    assert "failed: 'missing.srt': there is no such file; check the path" in done.stderr
    assert "good.srt: 0 violations" in done.stderr
    assert "is none of" in run_here("check", "a.docx", cwd=folder, status=2).stderr
