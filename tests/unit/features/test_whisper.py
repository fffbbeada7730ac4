"""Whisper's features, the registry of extractors, and the errors of the extra `kaldi`."""

import importlib
import os
import subprocess
import sys
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from faster_whisper.feature_extractor import FeatureExtractor as Reference

from whisperbatch.errors import MissingExtraError, OptionError
from whisperbatch.features import EXTRACTORS, KALDI, feature_extractor
from whisperbatch.features.whisper import SILENCE, WhisperFeatures, mel_filters
from whisperbatch.options import FeatureKind
from whisperbatch.types import WINDOW, Samples

KALDI_KINDS: tuple[FeatureKind, ...] = ("kaldi", "kaldi-mel", "kaldi-fbank")


def tones(length: int, seed: int = 0) -> Samples:
    """Return noise and gliding tones of varying loudness, shape (length,)."""
    rng = np.random.default_rng(seed)
    time = np.arange(length) / 16_000
    envelope = np.sin(2 * np.pi * 0.7 * time) ** 4
    tone = sum(np.sin(2 * np.pi * hertz * time * (1 + 0.05 * time)) for hertz in (130, 410, 2300))
    return (envelope * (0.1 * tone + 0.05 * rng.standard_normal(length))).astype(np.float32)


def reference(samples: Samples, n_mels: int = 80) -> Any:
    return Reference(feature_size=n_mels)(samples)[:, :-1]


@pytest.mark.parametrize("n_mels", [80, 128])
def test_filters_equal_whispers(n_mels: int) -> None:
    np.testing.assert_array_equal(mel_filters(n_mels), Reference(n_mels).mel_filters)


@pytest.mark.parametrize("n_mels", [80, 128])
@pytest.mark.parametrize(
    "length", [1, 159, 160, 161, 200, 201, 319, 360, 399, 400, 401, 25_600, 25_760, 123_456, WINDOW]
)
def test_equals_faster_whisper(length: int, n_mels: int) -> None:
    samples = tones(length)
    features = WhisperFeatures(n_mels)(samples)
    assert features.shape == (n_mels, length // 160)
    np.testing.assert_allclose(features, reference(samples, n_mels), rtol=0, atol=1e-5)


def test_a_peak_after_the_last_frame_still_sets_the_floor() -> None:
    samples = tones(16_000 + 100) * np.float32(1e-3)
    samples[-20:] = 1
    features = WhisperFeatures(80)(samples)
    assert features.max() - features.min() < 2
    np.testing.assert_allclose(features, reference(samples), rtol=0, atol=1e-5)


def test_silence_has_the_minimum_value_and_is_not_nan() -> None:
    np.testing.assert_allclose(WhisperFeatures(80)(np.zeros(8000, np.float32)), SILENCE, atol=1e-6)


def test_loud_and_faint_input() -> None:
    for gain in (1e-12, 1e-4, 1e4):
        samples = (tones(20_000) * gain).astype(np.float32)
        np.testing.assert_allclose(
            WhisperFeatures(80)(samples), reference(samples), rtol=0, atol=1e-5
        )


def test_strided_and_read_only_samples() -> None:
    samples = np.repeat(tones(9000), 2)
    samples.flags.writeable = False
    np.testing.assert_array_equal(
        WhisperFeatures(80)(samples[::2]), WhisperFeatures(80)(samples[::2].copy())
    )


@pytest.mark.parametrize("length", [160, 4000, 100_000])
def test_pad_value_is_the_feature_of_zeros_after_the_chunk(length: int) -> None:
    samples = tones(length)
    extractor = WhisperFeatures(80)
    frames = length // 160
    padded = extractor(np.concatenate((samples, np.zeros(16_000, np.float32))))
    value = extractor.pad_value(extractor(samples))
    np.testing.assert_allclose(padded[:, frames + 3 :], value, rtol=0, atol=1e-5)


def test_pad_value_of_silence_and_of_no_frames() -> None:
    extractor = WhisperFeatures(80)
    assert extractor.pad_value(extractor(np.zeros(4000, np.float32))) == pytest.approx(SILENCE)
    assert extractor.pad_value(np.empty((80, 0), np.float32)) == pytest.approx(SILENCE)


@pytest.mark.parametrize("n_mels", [1, 13, 40, 256])
def test_other_numbers_of_mels(n_mels: int) -> None:
    samples = tones(10_000)
    features = WhisperFeatures(n_mels)(samples)
    np.testing.assert_allclose(features, reference(samples, n_mels), rtol=0, atol=1e-4)


def test_registry() -> None:
    assert isinstance(feature_extractor("whisper", 128), WhisperFeatures)
    assert feature_extractor("whisper", 128).n_mels == 128
    assert EXTRACTORS["kaldi"] is KALDI
    with pytest.raises(OptionError, match="'mfcc' is none of whisper, kaldi"):
        feature_extractor("mfcc", 80)  # type: ignore[arg-type]


def test_import_loads_no_torch() -> None:
    code = "import sys, whisperbatch.features; sys.exit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, env=dict(os.environ))


@pytest.mark.parametrize("kind", KALDI_KINDS)
@pytest.mark.parametrize("missing", ["torch", "torchaudio"])
def test_a_missing_extra_names_the_package_to_install(
    kind: FeatureKind, missing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def absent(name: str) -> ModuleType:
        if name.partition(".")[0] == missing:
            raise ModuleNotFoundError(f"No module named {missing!r}", name=missing)
        return fake_torch("2.13.0+cpu")

    monkeypatch.setattr(importlib, "import_module", absent)
    with pytest.raises(MissingExtraError) as caught:
        feature_extractor(kind, 80)
    assert 'pip install "whisperbatch[kaldi]"' in str(caught.value)
    assert f"{missing} is not installed" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("kind", KALDI_KINDS)
@pytest.mark.parametrize(
    "error",
    [
        OSError("libc10_cuda.so: cannot open shared object file\nand more"),
        ImportError("undefined symbol"),
        RuntimeError("Detected that PyTorch and TorchAudio were compiled with different CUDA"),
        OSError(),
    ],
)
@pytest.mark.parametrize("version", ["2.13.0+cpu", "2.13.0+cu130"])
def test_torchaudio_of_another_build_names_the_builds_to_install(
    kind: FeatureKind, error: Exception, version: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch = fake_torch(version)
    monkeypatch.setitem(sys.modules, "torch", torch)

    def broken(name: str) -> ModuleType:
        if name.startswith("torchaudio"):
            raise error
        return torch

    monkeypatch.setattr(importlib, "import_module", broken)
    with pytest.raises(MissingExtraError) as caught:
        feature_extractor(kind, 80)
    message = str(caught.value)
    assert f"torchaudio does not load with torch {version}" in message
    assert "install torch and torchaudio of the same build" in message
    assert "\n" not in message
    assert caught.value.__cause__ is error


def test_torch_that_does_not_load(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(name: str) -> ModuleType:
        raise OSError("libtorch_cpu.so: truncated")

    monkeypatch.delitem(sys.modules, "torch", raising=False)
    monkeypatch.setattr(importlib, "import_module", broken)
    with pytest.raises(MissingExtraError, match=r"torch fails \(libtorch_cpu\.so: truncated\)"):
        feature_extractor("kaldi", 80)


def fake_torch(version: str) -> ModuleType:
    torch = ModuleType("torch")
    torch.__dict__["__version__"] = version
    return torch
