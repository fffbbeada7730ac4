"""Probes in other processes, the order of all checks, the report, and the command line."""

import json
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from whisperbatch import doctor
from whisperbatch.cli.doctor import run_doctor
from whisperbatch.doctor import Finding, diagnose, has_problems, line, summary, to_json
from whisperbatch.doctor.probes import run_probe

GOOD = Finding("ok", "machine", "8 processors", measured={"processors": 8})
SLOW = Finding("warning", "machine", "slow", "buy", "a\nb")
BAD = Finding("problem", "packages", "av does not import", "pip install av")


def test_a_finding_is_one_line_with_its_fix() -> None:
    assert line(GOOD) == "ok       machine: 8 processors"
    assert line(BAD) == "problem  packages: av does not import. Fix: pip install av"
    assert line(SLOW) == "warning  machine: slow. Fix: buy"
    assert line(SLOW, details=True).splitlines()[1:] == ["         a", "         b"]


def test_the_summary_counts() -> None:
    assert summary([GOOD]) == "no problems and no warnings in 1 checks"
    assert summary([GOOD, SLOW, BAD, BAD]) == "2 problems and 1 warning in 4 checks"
    assert not has_problems([GOOD, SLOW])
    assert has_problems([GOOD, BAD])


def test_the_report_as_json() -> None:
    report = json.loads(to_json([GOOD, BAD]))
    assert not report["ok"]
    assert report["findings"][1] == {
        "level": "problem",
        "subject": "packages",
        "message": "av does not import",
        "fix": "pip install av",
        "details": "",
        "measured": {},
    }
    assert json.loads(to_json([GOOD, SLOW]))["ok"]


def test_a_check_that_fails_is_a_finding_and_the_others_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail() -> Iterator[Finding]:
        yield GOOD
        raise RuntimeError("our bug")

    monkeypatch.setattr(doctor, "check_versions", fail)
    monkeypatch.setattr(doctor, "check_imports", lambda _: [BAD])
    findings = list(diagnose())
    assert findings[:2] == [
        GOOD,
        Finding(
            "problem",
            "doctor",
            "the check of packages failed: RuntimeError: our bug",
            findings[1].fix,
            findings[1].details,
        ),
    ]
    assert BAD in findings
    assert "were not checked" in findings[-1].message


def test_a_missing_model_ends_no_other_check(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "check_imports", lambda _: [GOOD])
    for name in ("check_storage", "check_decoder", "check_speech_detection", "check_diarizer"):
        monkeypatch.setattr(doctor, name, lambda _: [])
    findings = list(diagnose(model="/no/such/model"))
    subjects = [finding.subject for finding in findings if finding.level == "problem"]
    assert subjects == ["weights"]
    assert findings[-1].message == "were not checked, without weights"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--time-limit", "nan"], "'nan' must be a number of seconds"),
        (["--time-limit", "1e300"], "'1e300' must be a number of seconds"),
        (["--device", "tpu"], "invalid choice: 'tpu'"),
        (["--no-such-flag"], "unrecognized arguments: --no-such-flag"),
    ],
)
def test_a_wrong_flag_is_one_line_and_status_2(
    capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    with pytest.raises(SystemExit) as end:
        run_doctor(arguments)
    assert end.value.code == 2
    (text,) = capsys.readouterr().err.splitlines()
    assert text.startswith("whisperbatch: ")
    assert message in text


def test_the_command_loads_no_library() -> None:
    code = (
        "import sys; import whisperbatch.cli, whisperbatch.cli.doctor; "
        "print(*sorted({name.partition('.')[0] for name in sys.modules}))"
    )
    modules = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)  # noqa: PLW1510
    libraries = {"numpy", "av", "ctranslate2", "onnxruntime", "typer", "rich", "huggingface_hub"}
    assert "whisperbatch" in modules.stdout.split()
    assert not libraries & set(modules.stdout.split())


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
