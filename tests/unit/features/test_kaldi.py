"""Features on Kaldi's frames. Skipped if PyTorch or torchaudio is not installed."""

from typing import Any

import numpy as np
import pytest

from whisperbatch.features.kaldi import FBANK_SILENCE, KaldiFbank, KaldiMel, load_torchaudio
from whisperbatch.features.whisper import WhisperFeatures
from whisperbatch.types import WINDOW, Samples

pytestmark = pytest.mark.kaldi


@pytest.fixture(scope="module")
def modules() -> tuple[Any, Any]:
    pytest.importorskip("torch")
    pytest.importorskip("torchaudio")
    return load_torchaudio()


@pytest.fixture(autouse=True)
def _needs_torch(modules: tuple[Any, Any]) -> None:
    pass


def speechlike(length: int) -> Samples:
    """Return noise in bursts of varying loudness, shape (length,)."""
    rng = np.random.default_rng(7)
    envelope = np.abs(np.sin(np.arange(length) / 9000)) ** 3
    return (0.05 * envelope * rng.standard_normal(length)).astype(np.float32)


@pytest.mark.parametrize("n_mels", [80, 128])
@pytest.mark.parametrize("length", [160, 321, 51_200, 51_360, 160_000, WINDOW])
def test_mel_is_close_to_whispers_features(length: int, n_mels: int) -> None:
    samples = speechlike(length)
    difference = np.abs(KaldiMel(n_mels)(samples) - WhisperFeatures(n_mels)(samples))
    assert difference.mean() < 0.002
    assert difference.max() < 0.3


def test_mel_of_silence_equals_whispers_features() -> None:
    silence = np.zeros(16_000, np.float32)
    np.testing.assert_allclose(KaldiMel(80)(silence), WhisperFeatures(80)(silence), atol=1e-5)


def test_fbank_equals_the_published_version(modules: tuple[Any, Any]) -> None:
    torch, kaldi = modules
    samples = speechlike(50_000)
    published = kaldi.fbank(
        torch.from_numpy(samples)[None], num_mel_bins=80, window_type="hanning"
    ).numpy()
    published = (published.T + 4.2677393) / (2 * 4.5689974)
    features = KaldiFbank(80)(samples)
    assert published.shape[1] == 1 + (50_000 - 400) // 160
    np.testing.assert_allclose(features[:, : published.shape[1]], published, atol=1e-5)


def test_fbank_pads_with_the_value_of_silence() -> None:
    extractor = KaldiFbank(80)
    features = extractor(np.zeros(16_000, np.float32))
    np.testing.assert_allclose(features, FBANK_SILENCE, atol=1e-5)
    assert extractor.pad_value(features) == FBANK_SILENCE


@pytest.mark.parametrize("extractor", [KaldiMel, KaldiFbank])
def test_the_number_of_torch_threads_does_not_change(
    extractor: Any, modules: tuple[Any, Any]
) -> None:
    torch, _ = modules
    threads = torch.get_num_threads()
    extractor(80)(speechlike(16_000))
    assert torch.get_num_threads() == threads
