"""Probes run in other processes, whatever happens there."""

import sys
import zipfile
from pathlib import Path

import pytest

from whisperbatch.doctor.probes import run_probe


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def test_the_result_of_a_probe_comes_back() -> None:
    result = run_probe("import_modules", time_limit=60, modules=["json", "no_such_module"])
    assert result.failure == ""
    assert result.values["failures"] == {
        "no_such_module": "ModuleNotFoundError: No module named 'no_such_module'"
    }


def test_what_libraries_print_is_not_the_result(site: Path) -> None:
    (site / "noisy.py").write_text("import os; print('{}'); os.write(1, b'raw'); os.write(2, b'e')")
    result = run_probe("import_modules", time_limit=60, modules=["noisy"])
    assert result.values == {"failures": {}}
    assert "{}" in result.details
    assert "raw" in result.details


def test_a_crash_is_a_failure_with_the_last_line_that_was_printed(site: Path) -> None:
    (site / "crash.py").write_text(
        "import os, sys; print('Unable to load libcudnn_ops.so.9', file=sys.stderr, flush=True); "
        "os.abort()"
    )
    result = run_probe("import_modules", time_limit=60, modules=["crash"])
    if sys.platform != "win32":
        assert "SIGABRT: Unable to load libcudnn_ops.so.9" in result.failure
    assert "crash.py" in result.details, "the stack of the crash"


def test_a_hang_is_a_failure(site: Path) -> None:
    (site / "hang.py").write_text("import time; time.sleep(60)")
    result = run_probe("import_modules", time_limit=1, modules=["hang"])
    assert result.failure == "no result within 1 s"


def test_an_error_of_whisperbatch_is_divided_into_message_and_fix() -> None:
    result = run_probe("find_weights", time_limit=60, model="/no/such/folder")
    assert result.failure == "model='/no/such/folder': there is no such directory"
    assert result.fix == "check the path"
    assert "Traceback" in result.details


def test_the_revision_of_the_model_is_passed_on() -> None:
    result = run_probe(
        "find_weights", time_limit=60, model=str(Path(__file__).parent), revision="v1"
    )
    assert result.failure.startswith("revision='v1' selects a version on the Hugging Face hub")


def test_a_process_that_cannot_start_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/no/such/python")
    result = run_probe("import_modules", time_limit=60, modules=[])
    assert result.failure.startswith("no process can be started")


def test_the_wheel_contains_the_clip(tmp_path: Path) -> None:
    root = Path(__file__).parents[3]
    builder = pytest.importorskip("hatchling.builders.wheel", reason="pip install hatchling")
    (wheel,) = builder.WheelBuilder(str(root)).build(directory=str(tmp_path))
    with zipfile.ZipFile(wheel) as archive:
        clip = archive.read("whisperbatch/doctor/clip.opus")
    assert clip == (root / "whisperbatch/doctor/clip.opus").read_bytes()
