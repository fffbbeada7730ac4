from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from itertools import repeat
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from tests.unit.fakes import Call, EncodedRow, FakeEngine, MemoryStore
from whisperbatch.errors import EngineError
from whisperbatch.jobs.journal import JournaledEngine
from whisperbatch.options import SearchOptions
from whisperbatch.protocols import (
    Alignment,
    AlignRequest,
    DecodeRequest,
    Encoded,
    Engine,
    Hypothesis,
    Sampling,
)

PROMPT = (50258, 50363)
OPTIONS = SearchOptions()


def tracing_engine(fingerprint: str = "tracing") -> FakeEngine:
    """Return an engine whose text depends on the row only."""

    def decode(call: Call) -> Hypothesis:
        seed = call.sampling.seed if call.sampling else 0
        tokens = (round(call.row.level * 1000), call.options.beam_size, len(call.prompt), seed)
        return Hypothesis(tokens, -0.1 / 3, 1 / 7)

    def align(row: EncodedRow, tokens: Sequence[int], frames: int) -> Alignment:
        starts = np.arange(len(tokens)) / 3 + row.level
        return Alignment(starts, starts + 0.1, np.full(len(tokens), 1 / 3))

    return FakeEngine(
        detect=lambda row: {"fr": row.level % 1, "en": 1 - row.level % 1},
        decode=decode,
        align=align,
        fingerprint=fingerprint,
    )


def features(*levels: float) -> npt.NDArray[np.float32]:
    return np.array([np.full((80, 200), level) for level in levels], np.float32)


def decoded(
    engine: Engine,
    rows: npt.NDArray[Any],
    options: SearchOptions = OPTIONS,
    sampling: Sequence[Sampling] | None = None,
    encoded: Encoded | None = None,
) -> list[tuple[Any, ...]]:
    """Decode rows as the pipeline does; return the results as comparable values."""
    encoded = encoded or engine.encode(rows)
    requests = [
        DecodeRequest(PROMPT, PROMPT[:1], (), 200, row_sampling)
        for row_sampling in sampling or repeat(None, len(rows))
    ]
    return [
        (row.hypothesis, *columns(row.alignment))
        for row in engine.decode(encoded, requests, options)
    ]


def columns(alignment: Alignment) -> list[list[float]]:
    return [
        column.tolist() for column in (alignment.starts, alignment.ends, alignment.probabilities)
    ]


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


def test_a_journaled_engine_returns_the_results_of_the_wrapped_engine(store: MemoryStore) -> None:
    rows = features(0.1, 0.2, 0.3)
    journaled = JournaledEngine(tracing_engine(), store)
    assert isinstance(journaled, Engine)
    assert decoded(journaled, rows) == decoded(tracing_engine(), rows)
    assert journaled.detect_language(journaled.encode(rows)) == tracing_engine().detect_language(
        tracing_engine().encode(rows)
    )


def test_the_wrapped_engine_chooses_the_batch_size(store: MemoryStore) -> None:
    engine: Any = tracing_engine()
    assert JournaledEngine(engine, store).default_batch_size(5) == 8
    engine.default_batch_size = lambda hypotheses: 10 * hypotheses
    assert JournaledEngine(engine, store).default_batch_size(5) == 50


def test_features_are_in_the_type_of_the_wrapped_engine(store: MemoryStore) -> None:
    engine: Any = tracing_engine()
    assert JournaledEngine(engine, store).feature_type is np.float32
    engine.feature_type = np.float16
    journaled = JournaledEngine(engine, store)
    assert journaled.feature_type is np.float16
    decoded(journaled, features(0.1).astype(np.float16))
    assert engine.features.dtype == np.float16


def test_stored_results_are_not_computed_again(store: MemoryStore) -> None:
    rows = features(0.1, 0.2, 0.3)
    first = decoded(JournaledEngine(tracing_engine(), store), rows)
    engine = tracing_engine()
    assert decoded(JournaledEngine(engine, store), rows) == first
    assert engine.batch_sizes == {"encode": [], "decode": [], "align": [], "detect_language": []}


def test_only_new_rows_are_encoded_and_decoded_in_one_batch(store: MemoryStore) -> None:
    decoded(JournaledEngine(tracing_engine(), store), features(0.2))
    engine = tracing_engine()
    rows = features(0.1, 0.2, 0.3)
    assert decoded(JournaledEngine(engine, store), rows) == decoded(tracing_engine(), rows)
    assert engine.batch_sizes == {
        "encode": [2],
        "decode": [2],
        "align": [],
        "detect_language": [],
    }


def test_a_given_text_is_aligned_once(store: MemoryStore) -> None:
    rows = features(0.1, 0.2)
    texts = [AlignRequest(PROMPT[:1], (5, 6, 7), 200), AlignRequest(PROMPT[:1], (), 200)]

    def aligned(engine: Engine, texts: Sequence[AlignRequest]) -> list[list[list[float]]]:
        return [columns(row) for row in engine.align(engine.encode(rows), texts)]

    expected = aligned(tracing_engine(), texts)
    assert aligned(JournaledEngine(tracing_engine(), store), texts) == expected
    engine = tracing_engine()
    journaled = JournaledEngine(engine, store)
    assert aligned(journaled, texts) == expected
    assert engine.batch_sizes["align"] == []
    assert aligned(journaled, [replace(texts[0], frames=100), texts[1]]) == expected
    assert engine.batch_sizes["align"] == [1]


def test_options_at_their_defaults_are_not_part_of_a_key(store: MemoryStore) -> None:
    """A new option with a default value therefore changes no stored key."""
    rows = features(0.1)
    default = SearchOptions()
    with_one_option_less = copy(default)
    vars(with_one_option_less).pop("repetition_penalty")  # the class's default remains
    decoded(JournaledEngine(tracing_engine(), store), rows, with_one_option_less)
    engine = tracing_engine()
    decoded(JournaledEngine(engine, store), rows, default)
    assert engine.batches == []


@pytest.mark.parametrize(
    "options", [replace(OPTIONS, beam_size=2), replace(OPTIONS, max_new_tokens=7)]
)
def test_results_of_other_options_are_computed(store: MemoryStore, options: SearchOptions) -> None:
    rows = features(0.1)
    decoded(JournaledEngine(tracing_engine(), store), rows)
    engine = tracing_engine()
    assert decoded(JournaledEngine(engine, store), rows, options) == decoded(
        tracing_engine(), rows, options
    )
    assert engine.batches == [1]


def test_results_of_another_seed_or_other_weights_are_computed(store: MemoryStore) -> None:
    rows = features(0.1)
    decoded(JournaledEngine(tracing_engine(), store), rows)
    for engine, sampling in (
        (tracing_engine(), [Sampling(0.5, 1, seed=3)]),
        (tracing_engine(), [Sampling(0.5, 1, seed=4)]),
        (tracing_engine("other weights"), None),
    ):
        assert decoded(JournaledEngine(engine, store), rows, sampling=sampling) == decoded(
            tracing_engine(), rows, sampling=sampling
        )
        assert engine.batches == [1]


def test_rows_are_encoded_once_for_language_detection_and_decoding(store: MemoryStore) -> None:
    rows = features(0.1, 0.2, 0.3)
    engine = tracing_engine()
    journaled = JournaledEngine(engine, store)
    encoded = journaled.encode(rows)
    journaled.detect_language(encoded)
    first, second, third = journaled.split(encoded)
    joined = journaled.join([third, first, second])
    mixed = rows[[2, 0, 1]]
    assert decoded(journaled, mixed, encoded=joined) == decoded(tracing_engine(), mixed)
    assert engine.batch_sizes == {
        "encode": [3],
        "decode": [3],
        "align": [],
        "detect_language": [3],
    }


def test_encoded_rows_and_new_rows_make_one_batch(store: MemoryStore) -> None:
    engine = tracing_engine()
    journaled = JournaledEngine(engine, store)
    encoded = journaled.encode(features(0.1))
    journaled.detect_language(encoded)
    [first] = journaled.split(encoded)
    joined = journaled.join([first, journaled.encode(features(0.2))])
    rows = features(0.1, 0.2)
    assert decoded(journaled, rows, encoded=joined) == decoded(tracing_engine(), rows)
    assert engine.batch_sizes["encode"] == [1, 1]


def test_encoder_output_of_another_engine_is_refused(store: MemoryStore) -> None:
    with pytest.raises(EngineError, match="another engine"):
        JournaledEngine(tracing_engine(), store).detect_language(
            tracing_engine().encode(features(0.1))
        )
