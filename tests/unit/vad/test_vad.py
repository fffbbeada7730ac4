import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

from whisperbatch.errors import ModelError
from whisperbatch.options import VadOptions
from whisperbatch.types import Samples, SpeechFrames
from whisperbatch.vad import NoVad, open_vad, silero
from whisperbatch.vad.calibration import CalibratedVad
from whisperbatch.vad.silero import SileroVad, find_weights


def test_options_choose_the_vad() -> None:
    assert isinstance(open_vad(VadOptions(vad=False)), NoVad)
    assert isinstance(open_vad(VadOptions()), CalibratedVad)
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


class Told:
    """A Vad that gives the probabilities it is told, a second a block."""

    hop = 512

    def __init__(self, probabilities: Sequence[float]) -> None:
        self._probabilities = np.array(probabilities, np.float32)

    def __call__(self, blocks: Iterable[Samples]) -> Iterator[SpeechFrames]:
        for start in range(0, len(self._probabilities), 32):
            given = self._probabilities[start : start + 32]
            yield SpeechFrames(np.zeros(512 * len(given), np.float32), given)


def calibrated(probabilities: Sequence[float]) -> list[float]:
    found = list(CalibratedVad(Told(probabilities))([]))
    assert sum(len(frames.samples) for frames in found) == 512 * len(probabilities)
    return [float(p) for frames in found for p in frames.probabilities]


def test_a_sure_detector_is_believed() -> None:
    sure = [0.99, 0.4, 0.01, 0.98] * 500
    assert calibrated(sure) == np.array(sure, np.float32).tolist()


def test_a_doubtful_detector_is_encouraged() -> None:
    """As Silero is about a telephone's band."""
    found = calibrated([0.73, 0.52, 0.2, 0.01] * 500)
    speech, usual, faint, silence = found[1000:1004]
    assert speech > usual > 0.8
    assert faint > 0.5
    assert silence < 0.1


def test_without_sure_speech_nothing_is_made_of_a_doubt() -> None:
    """As of music."""
    doubt = [0.3, 0.2, 0.1, 0.05] * 500
    assert calibrated(doubt) == np.array(doubt, np.float32).tolist()


def test_only_what_is_near_counts() -> None:
    found = calibrated([*([0.7, 0.3] * 2000), *([0.99, 0.3] * 2000)])
    assert found[1] > 0.5
    assert found[-1] == pytest.approx(0.3)
