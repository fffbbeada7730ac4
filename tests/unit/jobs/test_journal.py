"""Results of rows are stored; stored results are not computed again."""

import json
from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.unit.fakes import Call, EncodedRow, FakeEngine, MemoryStore
from whisperbatch.jobs.journal import Journal
from whisperbatch.options import Options, SearchOptions
from whisperbatch.protocols import Alignment, DecodeRequest, Hypothesis, Sampling
from whisperbatch.recording import RecordingState, Row
from whisperbatch.scheduling import RunShare, Scheduler, SharedModel
from whisperbatch.types import Chunk

PROMPT = (50258, 50363)
OPTIONS = SearchOptions()
LEVELS = (0.1, 0.2, 0.3)


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


def row(level: float) -> Row:
    """Return a row whose features have one value, in a window of 2 s."""
    chunk = Chunk(0, 0, (), (), np.zeros(0, np.float32))
    made = Row(chunk, np.full((80, 200), level, np.float32), 0.0, RecordingState(0))
    made.prepare(np.float32, 200)
    return made


def results(
    engine: FakeEngine,
    store: MemoryStore | None,
    levels: Sequence[float] = LEVELS,
    options: SearchOptions = OPTIONS,
    sampling: Sampling | None = None,
) -> list[tuple[Any, ...]]:
    """Return the language and the text of rows, as comparable values."""
    scheduler, run = Scheduler(engine, Journal(engine, store) if store else None), RunShare()
    with scheduler.running(run):
        model = SharedModel(scheduler, run, Options(batch_size=8))
        rows = [row(level) for level in levels]
        for each in rows:
            each.encoding.keep = True
        languages = model.detect_languages(rows)
        request = DecodeRequest(PROMPT, PROMPT[:1], (), 200, sampling)
        decoded = model.decode([(each, request, options) for each in rows])
    return [
        (language, each.hypothesis, *(column.tolist() for column in columns(each.alignment)))
        for language, each in zip(languages, decoded, strict=True)
    ]


def columns(alignment: Alignment) -> tuple[Any, ...]:
    return alignment.starts, alignment.ends, alignment.probabilities


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


def test_results_are_those_of_the_engine(store: MemoryStore) -> None:
    expected = results(tracing_engine(), None)
    for _ in range(2):
        assert results(tracing_engine(), store) == expected


def test_stored_results_are_not_computed_again(store: MemoryStore) -> None:
    results(tracing_engine(), store)
    engine = tracing_engine()
    results(engine, store)
    assert not any(engine.batch_sizes.values())


def test_only_new_rows_are_encoded_and_decoded_in_one_call(store: MemoryStore) -> None:
    results(tracing_engine(), store, [0.2])
    engine = tracing_engine()
    assert results(engine, store) == results(tracing_engine(), None)
    assert engine.batch_sizes == {
        "encode": [2],
        "decode": [2],
        "align": [],
        "detect_language": [2],
    }


def test_the_keys_are_those_of_earlier_versions(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The ledger of an interrupted job has keys of the version that began the job."""
    monkeypatch.setattr("whisperbatch.jobs.journal.version", lambda _: "1.0")
    results(tracing_engine(), store, [0.2], replace(OPTIONS, beam_size=2), Sampling(0.5, 3, 7))
    assert [key.hex() for key in store.values] == KEYS


KEYS = [
    "9ce7ddcd8a08ca1b5ed511f6918ad98af393240f",
    "143254c940721656c734cd3bd93dda68047b1274",
]


def test_options_at_their_defaults_are_not_part_of_a_key(store: MemoryStore) -> None:
    """A new option with a default value therefore changes no stored key."""
    with_one_option_less = copy(OPTIONS)
    vars(with_one_option_less).pop("repetition_penalty")  # the class's default remains
    results(tracing_engine(), store, options=with_one_option_less)
    engine = tracing_engine()
    results(engine, store)
    assert engine.batches == []


@pytest.mark.parametrize(
    "changes",
    [
        {"options": replace(OPTIONS, beam_size=2)},
        {"options": replace(OPTIONS, max_new_tokens=7)},
        {"sampling": Sampling(0.5, 1, seed=3)},
        {"sampling": Sampling(0.5, 1, seed=4)},
    ],
)
def test_results_of_other_options_or_seeds_are_computed(
    store: MemoryStore, changes: dict[str, Any]
) -> None:
    results(tracing_engine(), store)
    results(tracing_engine(), store, sampling=Sampling(0.5, 1, seed=5))
    engine = tracing_engine()
    assert results(engine, store, **changes) == results(tracing_engine(), None, **changes)
    assert engine.batches == [3]
    assert engine.detections == 0


def test_results_of_other_weights_are_computed(store: MemoryStore) -> None:
    results(tracing_engine(), store)
    engine = tracing_engine("other weights")
    assert results(engine, store) == results(tracing_engine(), None)
    assert engine.batches == [3]


DAMAGED = [
    *(b"", b"{", b"\xff\xfe", b"null", b"3", b'"text"', b"[]", b"{}", b"[[]]", b"[" * 100_000),
    *(b"[[[1],-0.1,0.1],[]]", b"[[[1],-0.1],[[0.1],[0.2],[0.5]]]", b'{"en": "high"}'),
    *(b'{"en": null}', b'{"en": NaN}', b"[[[1],-0.1,0.1],[[0.1],[0.2],[0.5]],7]"),
]


def damaged_texts(value: bytes) -> list[bytes]:
    """Return a stored text with one part that has a wrong type, length or number."""
    (tokens, logprob, no_speech), times = json.loads(value)
    starts, ends, probabilities = times
    texts = [
        [[[*tokens[1:], -1], logprob, no_speech], times],
        [[[*tokens[1:], 2**40], logprob, no_speech], times],
        [[[*tokens[1:], "9"], logprob, no_speech], times],
        [[[*tokens[1:], True], logprob, no_speech], times],
        [[tokens[:-1], logprob, no_speech], times],
        [[tokens, str(logprob), no_speech], times],
        [[tokens, logprob, None], times],
        [[tokens, logprob, float("inf")], times],
        [[tokens, logprob, no_speech], [starts, ends]],
        [[tokens, logprob, no_speech], [starts, ends, probabilities, probabilities]],
        [[tokens, logprob, no_speech], [starts, ends, probabilities[1:]]],
        [[tokens, logprob, no_speech], [starts, [None, *ends[1:]], probabilities]],
        [[tokens, logprob, no_speech], [starts[1:], ends[1:], probabilities[1:]]],
    ]
    return [json.dumps(text).encode() for text in texts]


def test_damaged_values_count_as_absent_and_are_replaced(store: MemoryStore) -> None:
    expected = results(tracing_engine(), store, [0.2])
    values = dict(store.values)
    [text] = [value for value in values.values() if value.startswith(b"[")]
    for damaged in [*DAMAGED, *damaged_texts(text)]:
        store.values = dict.fromkeys(values, damaged)
        assert results(tracing_engine(), store, [0.2]) == expected
        assert store.values == values, damaged
