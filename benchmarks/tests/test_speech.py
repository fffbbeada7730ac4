"""Speech is fetched completely or not at all, with clear errors."""

from pathlib import Path
from typing import Any

import pytest

from benchmarks import speech


def test_fetched_speech_is_complete_or_absent(tmp_path: Path) -> None:
    target = tmp_path / "cache" / "thing"

    def fail(directory: Path) -> None:
        (directory / "part").touch()
        raise speech.SpeechError("no network")

    with pytest.raises(speech.SpeechError):
        speech.fill_directory(target, fail)
    assert list((tmp_path / "cache").iterdir()) == []

    def fill_second(directory: Path) -> None:
        speech.fill_directory(target, lambda directory: (directory / "first").touch())
        (directory / "second").touch()

    speech.fill_directory(target, fill_second)
    assert [path.name for path in target.iterdir()] == ["first"]


def test_missing_tools_and_packages_are_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("WHISPERBATCH_SPEECH", str(tmp_path))
    with pytest.raises(speech.SpeechError, match="no Asterisk prompts in 'xx'"):
        speech.asterisk("xx")

    def missing(command: list[str], **_: Any) -> None:
        raise FileNotFoundError(2, "No such file", command[0])

    monkeypatch.setattr("subprocess.run", missing)
    with pytest.raises(
        speech.SpeechError, match=r"package no-such-speech, and apt-get is not installed"
    ):
        speech.debian("no-such-speech", "usr/share/no-such-speech/*")


def test_of_a_large_package_only_some_files_are_kept(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("WHISPERBATCH_SPEECH", str(tmp_path))
    stamps = "usr/share/tuxpaint/stamps"

    def run(command: list[str], directory: Path) -> None:
        if command[0] == "apt-get":
            (directory / "package.deb").touch()
            return
        for name in ("animals/mammals/dogs/dog.ogg", "animals/owl_desc.ogg", "fruit/apple.ogg"):
            path = Path(command[-1], stamps, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()

    monkeypatch.setattr(speech, "_run", run)
    assert [path.name for path in speech.animals()] == ["dog.ogg"]  # descriptions are speech
    assert speech.household() == []
    package = tmp_path / "tuxpaint-stamps-default" / stamps
    assert sorted(path.name for path in package.rglob("*.ogg")) == ["dog.ogg", "owl_desc.ogg"]
