"""Choice of the Vad, Silero's weights, and the calibration of probabilities."""

import hashlib
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

from whisperbatch.errors import ModelError
from whisperbatch.options import Options
from whisperbatch.types import Samples, SpeechFrames
from whisperbatch.vad import NoVad, open_vad, silero, vad_fingerprint, weights
from whisperbatch.vad.levels import CalibratedVad
from whisperbatch.vad.silero import SileroVad
from whisperbatch.vad.weights import find_weights


def test_options_select_the_vad() -> None:
    assert isinstance(open_vad(Options(vad=False)), NoVad)
    assert isinstance(open_vad(Options()), CalibratedVad)
    assert open_vad(Options()) is open_vad(Options(vad_onset=0.7))  # loaded once


def test_the_first_installed_package_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for package in ("early_vad", "late_vad"):
        (tmp_path / package).mkdir()
        (tmp_path / package / "__init__.py").write_text("raise ImportError('never imported')")
    (tmp_path / "late_vad" / "net.onnx").touch()
    monkeypatch.syspath_prepend(str(tmp_path))
    packages = ("no_such_vad", "early_vad", "late_vad")
    monkeypatch.setattr(weights, "WEIGHTS", [(package, "net.onnx") for package in packages])
    assert find_weights() == tmp_path / "late_vad" / "net.onnx"
    (tmp_path / "early_vad" / "net.onnx").touch()
    assert find_weights() == tmp_path / "early_vad" / "net.onnx"
    assert "early_vad" not in sys.modules


@pytest.fixture
def packaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The weights of a package "net_vad" in version 1, whose SHA-256 is known."""
    for folder in ("net_vad", "net_vad-1.dist-info"):
        (tmp_path / folder).mkdir()
    (tmp_path / "net_vad" / "__init__.py").touch()
    (tmp_path / "net_vad-1.dist-info" / "METADATA").write_text("Name: net-vad\nVersion: 1\n")
    path = tmp_path / "net_vad" / "net.onnx"
    path.write_bytes(b"weights")
    known = {("net_vad", "1"): hashlib.sha256(b"weights").hexdigest()}
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(weights, "WEIGHTS", [("net_vad", "net.onnx")])
    monkeypatch.setattr(weights, "DIGESTS", known)
    return path


def test_known_weights_are_compared_with_their_pinned_hash(
    packaged: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert find_weights() == packaged
    packaged.write_bytes(b"damaged")
    with pytest.raises(ModelError, match=r"net\.onnx: .*net-vad 1.*--force-reinstall.*net-vad==1"):
        find_weights()
    packaged.write_bytes(b"weights")
    assert find_weights() == packaged
    assert not caplog.text


@pytest.mark.parametrize("other", ["version", "place"])
def test_unknown_weights_give_one_warning(
    packaged: Path, caplog: pytest.LogCaptureFixture, other: str
) -> None:
    info = packaged.parents[1] / "net_vad-1.dist-info" / "METADATA"
    if other == "version":
        info.write_text("Name: net-vad\nVersion: 2\n")
    else:
        info.unlink()
        info.parent.rmdir()
    packaged.write_bytes(f"new weights in another {other}".encode())
    for _ in range(3):
        assert find_weights() == packaged
    assert caplog.text.count(f"{packaged}: unknown weights") == 1


def test_the_installed_weights_are_known(caplog: pytest.LogCaptureFixture) -> None:
    assert hashlib.sha256(find_weights().read_bytes()).hexdigest() in weights.DIGESTS.values()
    assert not caplog.text


def test_the_fingerprint_records_which_weights_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "net.onnx"
    monkeypatch.setattr(weights, "find_weights", lambda: path)
    fingerprints = set[str]()
    for content in (b"weights of one package", b"weights of another", b"weights of another"):
        path.write_bytes(content)
        fingerprints.add(vad_fingerprint(Options()))
    assert len(fingerprints) == 2
    assert vad_fingerprint(Options(vad=False)) not in fingerprints
    path.unlink()
    with pytest.raises(ModelError, match=r"net\.onnx: cannot be read"):
        vad_fingerprint(Options())
    assert vad_fingerprint(Options(vad=False))  # reads no weights


def test_missing_weights_name_what_to_reinstall(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weights, "WEIGHTS", [("no_such_vad", "a"), ("faster_whisper", "no/such")])
    with pytest.raises(ModelError, match="reinstall no_such_vad or faster_whisper"):
        SileroVad()


@pytest.mark.parametrize("content", [b"", b"<html>not found</html>"])
def test_broken_weights_name_their_file(
    content: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "net.onnx"
    path.write_bytes(content)
    monkeypatch.setattr(silero, "find_weights", lambda: path)
    with pytest.raises(ModelError, match=r"net\.onnx: does not load") as caught:
        SileroVad()
    assert caught.value.__cause__ is not None
    assert "\n" not in str(caught.value)


class FakeVad:
    """A Vad that yields fixed probabilities, in blocks of 32 VAD frames (about a second)."""

    hop = 512

    def __init__(self, probabilities: Sequence[float]) -> None:
        self._probabilities = np.array(probabilities, np.float32)

    def __call__(self, blocks: Iterable[Samples]) -> Iterator[SpeechFrames]:
        for start in range(0, len(self._probabilities), 32):
            block = self._probabilities[start : start + 32]
            yield SpeechFrames(np.zeros(512 * len(block), np.float32), block)


def calibrated(probabilities: Sequence[float]) -> list[float]:
    blocks = list(CalibratedVad(FakeVad(probabilities))([]))
    assert sum(len(block.samples) for block in blocks) == 512 * len(probabilities)
    return [float(probability) for block in blocks for probability in block.probabilities]


def test_high_probabilities_stay_unchanged() -> None:
    probabilities = [0.99, 0.4, 0.01, 0.98] * 500
    assert calibrated(probabilities) == np.array(probabilities, np.float32).tolist()


def test_low_probabilities_of_clear_speech_are_raised() -> None:
    """Silero gives similar probabilities for a telephone's narrow band."""
    result = calibrated([0.73, 0.52, 0.2, 0.01] * 500)
    clear_speech, speech, faint_speech, silence = result[1000:1004]
    assert clear_speech > speech > 0.8
    assert faint_speech > 0.5
    assert silence < 0.1


def test_without_clear_speech_probabilities_stay_unchanged() -> None:
    """Silero gives similar probabilities for music."""
    probabilities = [0.3, 0.2, 0.1, 0.05] * 500
    assert calibrated(probabilities) == np.array(probabilities, np.float32).tolist()


def test_a_turn_between_normal_voices_is_raised() -> None:
    """Silero gives similar probabilities for a hoarse voice."""
    normal, hoarse = [0.99, 0.3] * 157, [0.7, 0.3] * 250  # 10 s, 16 s
    result = calibrated([*normal, *hoarse, *normal])
    middle = result[len(normal) + len(hoarse) // 2 :]
    assert middle[1] > 0.5
    assert result[1] == result[-1] == pytest.approx(0.3)


def test_distant_audio_has_no_effect() -> None:
    result = calibrated([*([0.7, 0.3] * 2000), *([0.99, 0.3] * 2000)])
    assert result[1] > 0.5
    assert result[-1] == pytest.approx(0.3)
