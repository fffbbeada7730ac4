"""Kaldi's filter bank. The expected values were computed by torchaudio 2.11:

torchaudio.compliance.kaldi.fbank(samples[None] * 32768, num_mel_bins=80, dither=0.0)
"""

import numpy as np
import pytest

from tests.unit.diarization.networks.signals import voice
from whisperbatch.diarization.networks import Fbank

EXPECTED = {  # frame -> every sixteenth band
    0: [6.9339, 11.8455, 13.0923, 12.0993, 16.2099],
    75: [17.2439, 18.0603, 18.7192, 12.2397, 16.1782],
    500: [2.0952, 9.5695, 10.0557, 12.2639, 16.2008],
    997: [4.8092, 12.8904, 13.9908, 14.0957, 16.1664],
}


def test_equals_torchaudio() -> None:
    features = Fbank()(voice(160_000))
    assert features.shape == (998, 80)
    assert features.dtype == np.float32
    assert features.mean() == pytest.approx(14.3183, abs=1e-4)
    for frame, bands in EXPECTED.items():
        np.testing.assert_allclose(features[frame, ::16], bands, atol=2e-3)


def test_a_window_is_a_slice() -> None:
    samples, fbank = voice(80_000), Fbank()
    whole = fbank(samples)
    for first in (0, 37, 161):
        window = fbank(samples[160 * first : 160 * first + 24_000])
        np.testing.assert_allclose(window, whole[first : first + 148], atol=1e-4)


@pytest.mark.parametrize(("samples", "frames"), [(0, 0), (399, 0), (400, 1), (559, 1), (560, 2)])
def test_only_complete_frames(samples: int, frames: int) -> None:
    assert Fbank()(voice(samples)).shape == (frames, 80)


def test_silence_has_the_smallest_energy() -> None:
    features = Fbank()(np.zeros(800, np.float32))
    np.testing.assert_allclose(features, -15.942385, atol=1e-5)
