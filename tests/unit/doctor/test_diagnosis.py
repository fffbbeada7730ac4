"""The order of all checks, the report, and the command line without libraries."""

import json
import subprocess
import sys
from collections.abc import Iterator

import pytest

from whisperbatch import doctor
from whisperbatch.cli.doctor import run_doctor
from whisperbatch.doctor import Finding, diagnose, has_problems, line, summary, to_json

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
