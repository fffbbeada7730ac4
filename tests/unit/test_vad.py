import sys
from pathlib import Path

import pytest

from whisperbatch.errors import ModelError
from whisperbatch.options import VadOptions
from whisperbatch.vad import Everything, open_vad, silero
from whisperbatch.vad.silero import SileroVad, find_weights


def test_options_choose_the_vad() -> None:
    assert isinstance(open_vad(VadOptions(vad=False)), Everything)
    assert isinstance(open_vad(VadOptions()), SileroVad)
    assert open_vad(VadOptions()) is open_vad(VadOptions(vad_onset=0.7))  # loaded once


def test_the_first_installed_package_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for package in ("early_vad", "late_vad"):
        (tmp_path / package).mkdir()
        (tmp_path / package / "__init__.py").write_text("raise ImportError('never imported')")
    (tmp_path / "late_vad" / "net.onnx").touch()
    monkeypatch.syspath_prepend(str(tmp_path))
    packages = ("no_such_vad", "early_vad", "late_vad")
    monkeypatch.setattr(silero, "WEIGHTS", [(package, "net.onnx") for package in packages])
    assert find_weights() == tmp_path / "late_vad" / "net.onnx"
    (tmp_path / "early_vad" / "net.onnx").touch()
    assert find_weights() == tmp_path / "early_vad" / "net.onnx"
    assert "early_vad" not in sys.modules


def test_missing_weights_name_what_to_reinstall(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(silero, "WEIGHTS", [("no_such_vad", "a"), ("faster_whisper", "no/such")])
    with pytest.raises(ModelError, match="reinstall no_such_vad or faster_whisper"):
        SileroVad()


@pytest.mark.parametrize("content", [b"", b"<html>not found</html>"])
def test_broken_weights_name_their_file(
    content: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "net.onnx"
    file.write_bytes(content)
    monkeypatch.setattr(silero, "find_weights", lambda: file)
    with pytest.raises(ModelError, match=r"net\.onnx: does not load") as caught:
        SileroVad()
    assert caught.value.__cause__ is not None
    assert "\n" not in str(caught.value)
