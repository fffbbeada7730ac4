"""Findings about audio and speech detection, from what their probes return."""

from collections.abc import Callable, Iterable

import pytest

from whisperbatch.doctor import audio
from whisperbatch.doctor.clip import CLIP, SECONDS
from whisperbatch.doctor.findings import Finding
from whisperbatch.doctor.processes import ProbeResult, run_probe

Check = Callable[[float], Iterable[Finding]]


def finding(monkeypatch: pytest.MonkeyPatch, check: Check, result: ProbeResult) -> Finding:
    monkeypatch.setattr(audio, "run_probe", lambda *_, **__: result)
    (only,) = check(60)
    return only


def test_the_clip_decodes_to_its_full_length() -> None:
    assert CLIP.stat().st_size < 40_000
    result = run_probe("decode_audio", time_limit=60, codecs=["mp3", "no_such_codec"])
    assert result.values["missing"] == ["no_such_codec"]
    assert result.values["seconds"] == pytest.approx(SECONDS, abs=0.01)


def test_this_machine_decodes_and_finds_the_speech() -> None:
    for check in (audio.check_decoder, audio.check_speech_detection):
        assert [found.level for found in check(60)] == ["ok"]


@pytest.mark.parametrize(
    ("check", "result", "level", "text"),
    [
        (audio.check_decoder, ProbeResult({}, "AudioError: x"), "problem", "cannot be decoded"),
        (
            audio.check_decoder,
            ProbeResult({"missing": [], "seconds": 3.0}),
            "problem",
            "3.0 s were decoded of a recording of 9.3 s",
        ),
        (
            audio.check_decoder,
            ProbeResult({"missing": ["aac", "mp3"], "seconds": SECONDS}),
            "warning",
            "cannot decode aac, mp3",
        ),
        (audio.check_speech_detection, ProbeResult({}, "no weights"), "problem", "no weights"),
        (
            audio.check_speech_detection,
            ProbeResult({"seconds": 0.0}),
            "problem",
            "0.0 s of speech in 9.3 s",
        ),
    ],
)
def test_a_wrong_result_is_found(
    monkeypatch: pytest.MonkeyPatch, check: Check, result: ProbeResult, level: str, text: str
) -> None:
    found = finding(monkeypatch, check, result)
    assert found.level == level
    assert text in found.message
    assert "pip install --upgrade --force-reinstall" in found.fix
