"""The engine passes rows that its decoder lacks to CTranslate2, already encoded."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from benchmarks import recordings
from tests.contract.engines import output_of, requests_for
from whisperbatch import Options
from whisperbatch.engines.ctranslate2.engine import EncodedView
from whisperbatch.engines.loading import load_engine
from whisperbatch.engines.onnx.engine import OnnxRuntimeEngine
from whisperbatch.features import feature_extractor
from whisperbatch.protocols import DecodeRequest, Sampling

FRAMES = (800, 500)
GREEDY = Options(beam_size=1)
SAMPLING = Sampling(temperature=0.5, best_of=2, seed=3)


@contextmanager
def loaded_engine() -> Iterator[OnnxRuntimeEngine]:
    """An engine whose fallback cannot encode."""
    loaded = load_engine("tiny.en", engine="onnxruntime", device="cpu")
    assert isinstance(loaded, OnnxRuntimeEngine)

    def refuse(_: Any) -> None:
        pytest.fail("the row was encoded again")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loaded.fallback, "encode", refuse)
        yield loaded
    loaded.close()


@pytest.fixture(scope="module")
def engine() -> Iterator[OnnxRuntimeEngine]:
    with loaded_engine() as loaded:
        yield loaded


@pytest.fixture
def new_engine() -> Iterator[OnnxRuntimeEngine]:
    with loaded_engine() as loaded:
        yield loaded


@pytest.fixture(scope="module")
def features() -> npt.NDArray[np.float32]:
    samples = (recordings.prompts("en", duration=20).samples / 32768).astype(np.float32)
    extract = feature_extractor("whisper", 80)
    rows = [extract(samples[: frames * 160]) for frames in FRAMES]
    return np.stack(
        [np.pad(row, ((0, 0), (0, 1500 - row.shape[1])), constant_values=row.min()) for row in rows]
    )


@pytest.mark.parametrize(
    ("options", "sampling"),
    [
        (Options(beam_size=6), None),
        pytest.param(Options(beam_size=1, repetition_penalty=1.2), None, marks=pytest.mark.slow),
        (Options(beam_size=1, repetition_penalty=1.2), SAMPLING),
        (Options(beam_size=1, timestamps="tokens"), None),
    ],
)
def test_the_fallback_decodes_from_the_encoder_output(
    engine: OnnxRuntimeEngine,
    features: npt.NDArray[np.float32],
    options: Options,
    sampling: Sampling | None,
) -> None:
    requests = [
        DecodeRequest(request.prompt, request.start, (), request.frames, sampling)
        for request in requests_for(engine, FRAMES, options)
    ]
    encoded = engine.encode(features)
    decoded = engine.decode(encoded, requests, options.search)
    expected = engine.fallback.decode(
        EncodedView.from_array(output_of(encoded)), requests, options.search
    )
    assert [row.hypothesis for row in decoded] == [row.hypothesis for row in expected]
    assert all(len(row.hypothesis.tokens) > 3 for row in decoded)


def test_the_weights_of_the_fallback_are_loaded_when_they_are_needed(
    new_engine: OnnxRuntimeEngine,
    features: npt.NDArray[np.float32],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loads: list[str] = []
    weights = new_engine.fallback._replicas.all[0].weights
    load = weights._load

    def counted() -> Any:
        loads.append("load")
        return load()

    monkeypatch.setattr(weights, "_load", counted)
    encoded = new_engine.encode(features)
    requests = requests_for(new_engine, FRAMES, GREEDY)
    new_engine.decode(encoded, requests, GREEDY.search)
    new_engine.decode(encoded, requests, Options(beam_size=5, no_repeat_ngram_size=3).search)
    sampled = [replace(request, sampling=SAMPLING) for request in requests]
    for beam_size in (1, 6):  # sampling does not use the beams
        new_engine.decode(encoded, sampled, Options(beam_size=beam_size).search)
    assert loads == []
    new_engine.decode(encoded, requests, Options(beam_size=6).search)
    assert loads == ["load"]
