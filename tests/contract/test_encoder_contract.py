"""The contract of encoders: close to float32, and a row is encoded the same in every batch."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from benchmarks import recordings
from tests.contract.engines import output_of
from whisperbatch.engines.loading import load_engine
from whisperbatch.features import feature_extractor
from whisperbatch.protocols import Engine

MAX_ERROR = {
    ("ctranslate2", "auto"): 0.1,
    ("openvino", "auto"): 0.05,
    ("onnxruntime", "int8"): 0.15,
}
"""Norm of the difference from float32, relative to the norm in float32, with all frames."""


def encode_rows(engine: Engine, features: npt.NDArray[np.float32]) -> npt.NDArray[Any]:
    rows = [engine.split(engine.encode(features))[n] for n in range(len(features))]
    return np.concatenate([output_of(row) for row in rows])


@pytest.fixture(scope="module")
def features() -> npt.NDArray[np.float32]:
    samples = (recordings.prompts("en", duration=60).samples / 32768).astype(np.float32)
    extract = feature_extractor("whisper", 80)
    return np.stack([extract(samples[n : n + 480_000]) for n in (0, 480_000)])


@pytest.fixture(
    scope="module", params=[("tiny.en", 384), pytest.param(("base", 512), marks=pytest.mark.slow)]
)
def model(request: pytest.FixtureRequest) -> tuple[str, int]:
    """The name of a model, and the size of its states."""
    found: tuple[str, int] = request.param
    return found


@pytest.fixture(scope="module")
def float32_output(model: tuple[str, int], features: npt.NDArray[np.float32]) -> npt.NDArray[Any]:
    engine = load_engine(model[0], engine="ctranslate2", device="cpu", compute_type="float32")
    output = encode_rows(engine, features)
    engine.close()
    return output


@pytest.mark.parametrize(("name", "compute_type"), MAX_ERROR)
def test_an_encoder_is_close_to_float32(
    name: str,
    compute_type: str,
    model: tuple[str, int],
    features: npt.NDArray[np.float32],
    float32_output: npt.NDArray[Any],
) -> None:
    engine = load_engine(
        model[0], engine=name, device="cpu", compute_type=compute_type, kept_frames=1.0
    )
    output = encode_rows(engine, features)
    assert output.shape == float32_output.shape == (2, 1500, model[1])
    assert output.dtype == np.float32
    for row, expected in zip(output, float32_output, strict=True):
        error = np.linalg.norm(row - expected) / np.linalg.norm(expected)
        assert 0 < error < MAX_ERROR[name, compute_type]
    assert np.array_equal(encode_rows(engine, features[1:2])[0], output[1])
    windows = np.ascontiguousarray(features[:, :, :1000])
    short = encode_rows(engine, windows)
    assert short.shape == (2, 500, model[1])
    with ThreadPoolExecutor(2) as pool:
        in_threads = list(pool.map(lambda n: encode_rows(engine, windows[n : n + 1]), range(2)))
    assert np.array_equal(np.concatenate(in_threads), short)
    engine.close()
