"""Every registered feature extractor satisfies `protocols.FeatureExtractor`."""

from concurrent.futures import ThreadPoolExecutor
from typing import get_args

import numpy as np
import pytest

from whisperbatch.features import EXTRACTORS, feature_extractor
from whisperbatch.options import FeatureKind
from whisperbatch.protocols import FeatureExtractor
from whisperbatch.types import WINDOW, Features, Samples

LENGTHS = (0, 1, 2, 80, 159, 160, 161, 399, 400, 401, 1600, 16_037, WINDOW)  # samples


def check_feature_extractor(extractor: FeatureExtractor) -> None:
    """Raise AssertionError if `extractor` violates `protocols.FeatureExtractor`."""
    assert isinstance(extractor, FeatureExtractor)
    rng = np.random.default_rng(3)
    noises: list[Samples] = [
        (0.1 * rng.standard_normal(length)).astype(np.float32) for length in LENGTHS
    ]
    for noise in noises:
        features = check_call(extractor, noise)
        assert (extractor(noise) == features).all(), "not deterministic"
        silence = check_call(extractor, np.zeros_like(noise))
        assert extractor.pad_value(silence) <= silence.min(initial=np.inf) + 1e-5
    check_threads(extractor, noises)


def check_call(extractor: FeatureExtractor, samples: Samples) -> Features:
    read_only = samples.copy()
    read_only.flags.writeable = False
    features = extractor(read_only)
    np.testing.assert_array_equal(read_only, samples)
    assert features.shape == (extractor.n_mels, len(samples) // 160)
    assert features.dtype == np.float32
    assert features.flags.c_contiguous
    assert not np.shares_memory(features, read_only)
    assert np.isfinite(features).all()
    value = extractor.pad_value(features)
    assert type(value) is float
    assert np.isfinite(value)
    return features


def check_threads(extractor: FeatureExtractor, chunks: list[Samples]) -> None:
    expected = [extractor(chunk) for chunk in chunks]
    with ThreadPoolExecutor(8) as pool:
        results = pool.map(extractor, chunks * 3)
        for features, expected_features in zip(results, expected * 3, strict=True):
            np.testing.assert_array_equal(features, expected_features)


@pytest.mark.parametrize("n_mels", [80, 128])
@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(kind, marks=pytest.mark.kaldi if kind.startswith("kaldi") else ())
        for kind in EXTRACTORS
    ],
)
def test_contract(kind: FeatureKind, n_mels: int) -> None:
    if kind.startswith("kaldi"):
        pytest.importorskip("torch")
        pytest.importorskip("torchaudio")
    check_feature_extractor(feature_extractor(kind, n_mels))


def test_every_kind_is_registered() -> None:
    assert set(EXTRACTORS) == set(get_args(FeatureKind))
