"""What every encoder must do: be near to float32, and give a row what it gives it alone."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from benchmarks import recordings
from whisperbatch.engines.ctranslate2.engine import CTranslate2Engine
from whisperbatch.features import feature_extractor
from whisperbatch.models.registry import find_model

MOST = {"ctranslate2": 0.1, "openvino": 0.05}  # of the norm of the difference, beside float32's


def encoded(engine: CTranslate2Engine, features: npt.NDArray[np.float32]) -> npt.NDArray[Any]:
    rows = [engine.split(engine.encode(features))[n] for n in range(len(features))]
    return np.concatenate([np.array(row.view) for row in rows])  # type: ignore[attr-defined]


@pytest.fixture(scope="module")
def features() -> npt.NDArray[np.float32]:
    samples = (recordings.prompts("en", duration=90).samples / 32768).astype(np.float32)
    extract = feature_extractor("whisper", 80)
    return np.stack([extract(samples[n : n + 480_000]) for n in range(0, 3 * 480_000, 480_000)])


@pytest.fixture(scope="module")
def exact(features: npt.NDArray[np.float32]) -> npt.NDArray[Any]:
    engine = CTranslate2Engine(
        find_model("base"),
        name="base",
        device="cpu",
        compute_type="float32",
        encoder="ctranslate2",
    )
    found = encoded(engine, features)
    engine.close()
    return found


@pytest.mark.parametrize("encoder", MOST)
def test_an_encoder_is_near_to_float32(
    encoder: str, features: npt.NDArray[np.float32], exact: npt.NDArray[Any]
) -> None:
    engine = CTranslate2Engine(find_model("base"), name="base", device="cpu", encoder=encoder)
    found = encoded(engine, features)
    assert found.shape == exact.shape == (3, 1500, 512)
    assert found.dtype == np.float32
    for row, wanted in zip(found, exact, strict=True):
        error = np.linalg.norm(row - wanted) / np.linalg.norm(wanted)
        assert 0 < error < MOST[encoder]
    assert np.array_equal(encoded(engine, features[1:2])[0], found[1])
    short = encoded(engine, np.ascontiguousarray(features[:, :, :1000]))
    assert short.shape == (3, 500, 512)
    with ThreadPoolExecutor(3) as pool:
        again = list(pool.map(lambda n: encoded(engine, features[n : n + 1]), range(3)))
    assert np.array_equal(np.concatenate(again), found)
    engine.close()


def test_float32_is_asked_of_openvino_too(
    features: npt.NDArray[np.float32], exact: npt.NDArray[Any]
) -> None:
    engine = CTranslate2Engine(
        find_model("base"), name="base", device="cpu", compute_type="float32", encoder="openvino"
    )
    error = np.linalg.norm(encoded(engine, features) - exact) / np.linalg.norm(exact)
    assert error < 1e-4
    engine.close()
