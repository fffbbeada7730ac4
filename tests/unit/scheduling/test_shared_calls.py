"""Which rows share a call of the engine, and how many rows a call has at most."""

from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from tests.unit.fakes import multilingual_tokenizer
from tests.unit.scheduling.sharing import (
    OPTIONS,
    PROMPT,
    REQUEST,
    SEARCH,
    START,
    rows_of,
    sharing,
)
from whisperbatch.options import Options, SearchOptions
from whisperbatch.protocols import DecodeRequest, Sampling

pytestmark = pytest.mark.usefixtures("no_threads_left", "rare_checks")

GREEDY = Options(batch_size=8, beam_size=1)
SAMPLING = Options(batch_size=8, temperature=(0.4, 0.6), best_of=4)
SAMPLED = replace(REQUEST, sampling=Sampling(0.4, best_of=2, seed=1))
NO_TIMESTAMPS = multilingual_tokenizer().token_to_id("<|notimestamps|>")


def sampled(best_of: int) -> DecodeRequest:
    return replace(REQUEST, sampling=Sampling(0.4, best_of, seed=1))


def with_prompt(**changes: Any) -> dict[str, DecodeRequest]:
    return {"request": replace(REQUEST, **changes)}


SHARED: dict[str, dict[str, Any]] = {
    "equal": {},
    "tokens": with_prompt(prompt=(11, *START, 54, 21), start=(50, 61, 62), prefix=(21,)),
    "feature frames": with_prompt(frames=2),
    "equal options": {"search": replace(SEARCH)},
}
APART: dict[str, dict[str, Any]] = {
    "window": {"window": 6},
    "length of the prompt": with_prompt(prompt=(10, *PROMPT)),
    "length of the start": with_prompt(start=START[:2]),
    "length of the prefix": with_prompt(prefix=(53, 20)),
    "timestamps": with_prompt(prompt=(*PROMPT[:-2], NO_TIMESTAMPS, 20)),
    "sampling": {"request": SAMPLED},
    "beams": {"search": replace(SEARCH, beam_size=4)},
    "patience": {"search": replace(SEARCH, patience=2.0)},
    "tokens that are suppressed": {"search": replace(SEARCH, suppress_tokens=(7,))},
    "number of new tokens": {"search": replace(SEARCH, max_new_tokens=9)},
}


def decode_together(one: dict[str, Any], other: dict[str, Any]) -> list[int]:
    """Return the number of rows of each call, for the rows of two threads."""
    with sharing(hold=True) as run:

        def decode(
            level: float,
            window: int = 4,
            request: DecodeRequest = REQUEST,
            search: SearchOptions = SEARCH,
        ) -> list[str]:
            return run.decode(rows_of(level, window=window), request, search)

        callers = [
            run.start(partial(decode, level, **changes))
            for level, changes in ((1.0, one), (2.0, other))
        ]
        run.engine.gate.set()
        assert [caller.result() for caller in callers] == [["1"], ["2"]]
        return run.engine.batches


@pytest.mark.parametrize("changes", SHARED.values(), ids=SHARED)
def test_rows_of_two_threads_share_a_call(changes: dict[str, Any]) -> None:
    assert decode_together({}, changes) == [2]


@pytest.mark.parametrize("changes", APART.values(), ids=APART)
def test_rows_that_the_engine_cannot_decode_together_never_share_a_call(
    changes: dict[str, Any],
) -> None:
    assert decode_together({}, changes) == [1, 1]


@pytest.mark.parametrize(
    ("sampling", "calls"),
    [
        (Sampling(0.4, best_of=2, seed=2), [2]),
        (Sampling(0.6, best_of=2, seed=1), [1, 1]),
        (Sampling(0.4, best_of=3, seed=1), [1, 1]),
    ],
)
def test_sampled_rows_share_a_call_if_only_their_seeds_differ(
    sampling: Sampling, calls: list[int]
) -> None:
    request = replace(REQUEST, sampling=sampling)
    assert decode_together({"request": SAMPLED}, {"request": request}) == calls


def test_rows_of_different_methods_never_share_a_call() -> None:
    with sharing(hold=True) as run:
        rows = rows_of(1)
        languages = run.start(partial(run.model.detect_languages, rows))
        texts = run.start(partial(run.decode, rows))
        run.engine.gate.set()
        assert len(languages.result()) == len(texts.result()) == 1
    assert run.engine.batch_sizes["detect_language"] == [1, 1]  # one is the held call
    assert run.engine.batches == [1]


def test_rows_with_different_windows_never_share_a_call() -> None:
    with sharing(hold=True) as run:
        callers = [
            run.start(partial(run.model.detect_languages, rows_of(1, window=size)))
            for size in (4, 6, 4)
        ]
        run.engine.gate.set()
        for caller in callers:
            caller.result()
    assert run.engine.batch_sizes["detect_language"][-2:] == [2, 1]


@pytest.mark.parametrize(
    ("options", "request_", "beams", "calls"),
    [
        (OPTIONS, REQUEST, 5, [8, 8]),
        (OPTIONS, REQUEST, 10, [4, 4, 4, 4]),
        (OPTIONS, REQUEST, 1, [8, 8]),
        (OPTIONS, sampled(10), 5, [4, 4, 4, 4]),
        (OPTIONS, sampled(2), 5, [8, 8]),
        (GREEDY, REQUEST, 1, [8, 8]),
        (GREEDY, REQUEST, 3, [2] * 8),
        (GREEDY, REQUEST, 5, [1] * 16),
        (GREEDY, REQUEST, 32, [1] * 16),
        (GREEDY, sampled(4), 1, [2] * 8),
        (SAMPLING, sampled(4), 5, [8, 8]),
        (SAMPLING, REQUEST, 8, [4, 4, 4, 4]),
    ],
)
def test_a_call_with_more_hypotheses_than_the_first_decoding_has_fewer_rows(
    options: Options, request_: DecodeRequest, beams: int, calls: list[int]
) -> None:
    search = replace(options.search, beam_size=beams)
    with sharing(options) as run:
        run.decode(rows_of(*range(16)), request_, search)
    assert run.engine.batches == calls


def test_languages_are_detected_in_calls_of_the_batch_size() -> None:
    with sharing() as run:
        run.model.detect_languages(rows_of(*range(12)))
    assert run.engine.batch_sizes["detect_language"] == [8, 4]
