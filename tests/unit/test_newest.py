"""`make newest` finds the interpreters, names those that it skips, and fails if a step fails."""

import os
import sys
from pathlib import Path

import pytest

from tests import newest

THIS = ".".join(map(str, sys.version_info[:2]))


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without Python, with the folders `bin` (on PATH) and `pyenv`."""
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path / "pyenv"))
    return tmp_path


def add(path: Path, code: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{code}\n")
    path.chmod(0o755)
    return path


def test_an_interpreter_on_path_comes_first(machine: Path) -> None:
    on_path = add(machine / f"bin/python{THIS}", f'exec {sys.executable} "$@"')
    add(machine / f"pyenv/versions/{THIS}.1/bin/python", f'exec {sys.executable} "$@"')
    assert newest.find_interpreter(THIS) == on_path


def test_a_program_of_pyenv_without_a_version_is_passed_over(machine: Path) -> None:
    add(machine / f"bin/python{THIS}", "exit 127")
    other = add(machine / f"pyenv/versions/{THIS}.1/bin/python", f'exec {sys.executable} "$@"')
    assert newest.find_interpreter(THIS) == other


@pytest.mark.parametrize("code", ["exit 1", f'exec {sys.executable} "$@"'])
def test_another_version_is_no_interpreter(machine: Path, code: str) -> None:
    add(machine / "bin/python3.99", code)
    assert newest.find_interpreter("3.99") is None
    assert newest.find_interpreter("3.10") is None or THIS == "3.10"


@pytest.mark.parametrize(
    ("found", "failed", "status"),
    [
        ({"3.12", "3.13"}, {}, 0),
        ({"3.12", "3.13"}, {"3.13": "the tests"}, 1),
        ({"3.12"}, {"3.12": "the installation"}, 1),
        (set(), {}, 1),
    ],
)
def test_the_status_and_the_skipped_interpreters(
    found: set[str],
    failed: dict[str, str],
    status: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(
        newest, "find_interpreter", lambda v: Path("python") if v in found else None
    )
    monkeypatch.setattr(newest, "check_newest", lambda _, version: failed.get(version, ""))
    assert newest.main([]) == status
    printed = capsys.readouterr().out
    for version in newest.VERSIONS:
        outcome = f"{failed[version]} failed" if version in failed else "passed"
        outcome = outcome if version in found else "skipped: there is no interpreter"
        assert f"newest dependencies on Python {version}: {outcome}\n" in printed


def test_versions_that_are_newer_than_the_table_are_named(
    capsys: pytest.CaptureFixture[str],
) -> None:
    newest.report_versions([("av", "99.0"), ("numpy", "1.26"), ("typing_extensions", "99.0")])
    printed = capsys.readouterr().out.splitlines()
    assert [line.split()[:3] for line in printed] == [
        ["av", "99.0", "passed:"],
        ["typing_extensions", "99.0", "passed:"],
    ]


def test_each_step_must_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    commands: list[str] = []
    monkeypatch.setattr(newest, "_installed", lambda _: [])

    def run(command: list[object]) -> int:
        commands.append(" ".join(map(str, command)))
        return int(commands[-1].endswith("tests/unit"))

    monkeypatch.setattr(newest, "_run", run)
    assert newest.check_newest(Path("python"), "3.99") == "the tests"
    assert len(commands) == 3
    assert "--upgrade --upgrade-strategy eager" in commands[1]
    assert os.fspath(newest.ROOT / ".venv-newest-3.99") in commands[0]
