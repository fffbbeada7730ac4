from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from tests.unit.fakes import Call, EncodedRow, FakeEngine, MemoryStore
from whisperbatch.errors import EngineError
from whisperbatch.jobs.journal import JournaledEngine
from whisperbatch.options import DecodeOptions
from whisperbatch.protocols import Alignment, Encoded, Engine, Sampling
from whisperbatch.types import Hypothesis

PROMPT = [50258, 50363]
OPTIONS = DecodeOptions()


def tracing_engine(fingerprint: str = "tracing") -> FakeEngine:
    """Return an engine whose text depends on the row only.

    Token times are exact only for tokens that the same encoder output was decoded to.
    """

    def decode(call: Call) -> Hypothesis:
        seed = call.sampling.seed if call.sampling else 0
        tokens = (round(call.row.level * 1000), call.options.beam_size, len(call.prompt), seed)
        return Hypothesis(tokens, -0.1 / 3, 1 / 7)

    def align(
        row: EncodedRow, tokens: Sequence[int], frames: int, was_generated: bool
    ) -> Alignment:
        starts = np.arange(len(tokens)) / 3 + (0 if was_generated else 100)
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
    rows: npt.NDArray[np.float32],
    options: DecodeOptions = OPTIONS,
    sampling: Sequence[Sampling] | None = None,
    encoded: Encoded | None = None,
) -> list[tuple[Any, ...]]:
    """Decode and align rows as the pipeline does; return the results as comparable values."""
    encoded = encoded or engine.encode(rows)
    prompts = [PROMPT] * len(rows)
    texts = engine.generate(encoded, prompts, options, sampling)
    times = engine.align(encoded, prompts, [text.tokens for text in texts], [200] * len(rows))
    return [
        (text, row.starts.tolist(), row.ends.tolist(), row.probabilities.tolist())
        for text, row in zip(texts, times, strict=True)
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


def test_stored_results_are_not_computed_again(store: MemoryStore) -> None:
    rows = features(0.1, 0.2, 0.3)
    first = decoded(JournaledEngine(tracing_engine(), store), rows)
    engine = tracing_engine()
    assert decoded(JournaledEngine(engine, store), rows) == first
    assert engine.batch_sizes == {"encode": [], "generate": [], "align": [], "detect_language": []}


def test_only_new_rows_are_encoded_and_decoded_in_one_batch(store: MemoryStore) -> None:
    decoded(JournaledEngine(tracing_engine(), store), features(0.2))
    engine = tracing_engine()
    rows = features(0.1, 0.2, 0.3)
    assert decoded(JournaledEngine(engine, store), rows) == decoded(tracing_engine(), rows)
    assert engine.batch_sizes == {
        "encode": [2],
        "generate": [2],
        "align": [2],
        "detect_language": [],
    }


def test_a_text_is_stored_only_together_with_its_times(store: MemoryStore) -> None:
    engine = JournaledEngine(tracing_engine(), store)
    engine.generate(engine.encode(features(0.1)), [PROMPT], OPTIONS)
    assert not store.values  # after a kill here the row would be decoded again


def test_a_text_whose_times_are_missing_is_decoded_again_to_be_aligned(store: MemoryStore) -> None:
    rows = features(0.1, 0.2)
    first = decoded(JournaledEngine(tracing_engine(), store), rows)
    for key, value in list(store.values.items()):
        if value.startswith(b"[[0"):  # times: three lists
            del store.values[key]
    assert len(store.values) == 2
    engine = tracing_engine()
    assert decoded(JournaledEngine(engine, store), rows) == first
    assert engine.batches == [2]


def test_times_that_another_thread_stored_in_the_meantime_change_nothing(
    store: MemoryStore,
) -> None:
    rows = features(0.1, 0.2)
    expected = decoded(tracing_engine(), rows)
    engine = JournaledEngine(tracing_engine(), store)
    encoded = engine.encode(rows)
    texts = engine.generate(encoded, [PROMPT] * 2, OPTIONS)
    decoded(JournaledEngine(tracing_engine(), store), rows[:1])
    times = engine.align(encoded, [PROMPT] * 2, [text.tokens for text in texts], [200, 200])
    assert [row.starts.tolist() for row in times] == [row[1] for row in expected]


@pytest.mark.parametrize(
    "options", [replace(OPTIONS, beam_size=2), replace(OPTIONS, max_new_tokens=7)]
)
def test_results_of_other_options_are_computed(store: MemoryStore, options: DecodeOptions) -> None:
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


def test_results_of_another_batch_size_come_from_the_store(store: MemoryStore) -> None:
    rows = features(0.1)
    decoded(JournaledEngine(tracing_engine(), store), rows)
    engine = tracing_engine()
    decoded(JournaledEngine(engine, store), rows, replace(OPTIONS, batch_size=3))
    assert engine.batches == []


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
        "generate": [3],
        "align": [3],
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
