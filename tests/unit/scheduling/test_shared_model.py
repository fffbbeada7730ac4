"""The model of one run: rows share calls, and are encoded once, when they are needed."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

import numpy as np
import pytest

from tests.unit.fakes import Call, FakeEngine, multilingual_tokenizer
from tests.unit.scheduling.row_calls import Caller, CountedScheduler, GatedEngine, levels
from whisperbatch.errors import EngineError
from whisperbatch.options import Options, SearchOptions
from whisperbatch.protocols import DecodeRequest, FeatureType, Sampling
from whisperbatch.recording import MIN_PADDING, WINDOW_STEP, RecordingState, Row
from whisperbatch.scheduling import RunShare, SharedModel
from whisperbatch.types import Chunk

pytestmark = pytest.mark.usefixtures("no_threads_left", "rare_checks")


T = TypeVar("T")

OPTIONS = Options(batch_size=8)
SEARCH = OPTIONS.search
START = (50, 51, 52)
PROMPT = (10, *START, 53, 20)
REQUEST = DecodeRequest(PROMPT, START, prefix=(20,), frames=4)


def rows_of(*levels: float, window: int = 4) -> list[Row]:
    """Return rows whose features have one value each, in an encoder window of this size."""
    rows = []
    for level in levels:
        features = np.full((80, window), level, np.float32)
        row = Row(Chunk(0, 0, (), (), np.zeros(0, np.float32)), features, 0.0, RecordingState(0))
        row.prepare(np.float32, window)
        rows.append(row)
    return rows


def level_text(call: Call) -> str:
    return f" {call.row.level:g}."


@dataclass(frozen=True)
class Sharing:
    """A shared model, and the parts below it."""

    engine: GatedEngine
    scheduler: CountedScheduler
    run: RunShare
    model: SharedModel

    def decode(
        self, rows: Sequence[Row], request: DecodeRequest = REQUEST, search: SearchOptions = SEARCH
    ) -> list[str]:
        """Return the text of each row: its level."""
        return self.texts([(row, request, search) for row in rows])

    def texts(self, requests: Sequence[tuple[Row, DecodeRequest, SearchOptions]]) -> list[str]:
        """Return the text of each request: the level of its row."""
        decoded = self.model.decode(requests)
        tokenizer = self.engine.tokenizer
        return [tokenizer.decode(row.hypothesis.tokens).strip(" .") for row in decoded]

    def start(self, function: Callable[[], T], rows: int = 1) -> Caller[T]:
        """Call a function in a thread, and wait until its rows are in the queue."""
        caller = Caller(function)
        self.scheduler.wait_for_rows(rows)
        return caller


@contextmanager
def sharing(
    options: Options = OPTIONS, *, hold: bool = False, workers: int = 1
) -> Iterator[Sharing]:
    """Yield a shared model. If `hold` is true, the rows of all calls wait for the gate."""
    engine = GatedEngine(decode=level_text, workers=workers)
    scheduler, run = CountedScheduler(engine), RunShare()
    with scheduler.running(run):
        if hold:
            scheduler.hold(run)
            engine.batch_sizes["encode"].clear()
        else:
            engine.gate.set()
        yield Sharing(engine, scheduler, run, SharedModel(scheduler, run, options))


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_rows_wait_in_the_type_that_the_engine_computes_with(
    monkeypatch: pytest.MonkeyPatch, dtype: FeatureType
) -> None:
    monkeypatch.setattr(FakeEngine, "feature_type", dtype, raising=False)
    [prepared] = rows_of(1)
    row = replace(prepared, encoding=type(prepared.encoding)())
    with sharing() as run:
        assert len(run.model.detect_languages([row])) == 1
        assert row.encoding.features is not None
        assert row.encoding.features.dtype == dtype
        assert row.encoding.frames == row.padded_window(MIN_PADDING, WINDOW_STEP)
    assert run.engine.features.dtype == dtype
    assert row.features.dtype == np.float32


def test_rows_that_are_needed_again_are_encoded_once() -> None:
    with sharing() as run:
        rows = rows_of(1, 2, 3)
        for row in rows:
            row.encoding.keep = True
        assert levels(run.model.detect_languages(rows)) == [1, 2, 3]
        assert run.decode(rows) == ["1", "2", "3"]
        assert run.decode([rows[2], rows[0]]) == ["3", "1"]
        assert [row.encoding.features for row in rows] == [None, None, None]
    assert run.engine.batch_sizes["encode"] == [3]


def test_the_output_of_a_row_is_kept_when_it_is_encoded_again() -> None:
    with sharing() as run:
        [row] = rows_of(1)
        kept = []
        for _ in range(4):
            assert run.decode([row]) == ["1"]
            kept.append(row.encoding.output is not None)
    assert kept == [False, True, True, True]
    assert run.engine.batch_sizes["encode"] == [1, 1]


def test_the_copies_of_a_row_are_encoded_once() -> None:
    with sharing() as run:
        [row] = rows_of(1)
        row.encoding.keep = True
        assert run.decode([row, replace(row, language="fr"), row]) == ["1", "1", "1"]
        assert run.decode([replace(row, language="de")]) == ["1"]
    assert run.engine.batch_sizes["encode"] == [1]


def test_only_rows_without_output_are_encoded() -> None:
    with sharing() as run:
        first, one, two, last = rows_of(3, 1, 2, 4)
        one.encoding.keep = two.encoding.keep = True
        run.model.detect_languages([one, two])
        assert run.decode([first, one, two, last]) == ["3", "1", "2", "4"]
    assert run.engine.batch_sizes["encode"] == [2, 2]


def test_a_call_keeps_only_the_outputs_that_are_needed_again() -> None:
    with sharing(hold=True) as run:
        kept, other = rows_of(1), rows_of(2)
        kept[0].encoding.keep = True
        callers = [run.start(partial(run.decode, rows)) for rows in (kept, other)]
        run.engine.gate.set()
        assert [caller.result() for caller in callers] == [["1"], ["2"]]
        assert run.engine.batch_sizes["encode"] == [2]
        assert run.decode(kept) == ["1"]
        assert run.engine.batch_sizes["encode"] == [2]
        assert run.decode(other) == ["2"]
        assert run.engine.batch_sizes["encode"] == [2, 1]


def test_an_engine_that_encodes_again_never_splits_or_joins(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("an encoder output is stored")

    monkeypatch.setattr(FakeEngine, "encodes_again", True, raising=False)
    for method in ("split", "join"):
        monkeypatch.setattr(FakeEngine, method, refuse)
    with sharing() as run:
        rows = rows_of(1, 2, 3)
        for row in rows:
            row.encoding.keep = True
        assert levels(run.model.detect_languages(rows[:2])) == [1, 2]
        assert run.decode(rows) == ["1", "2", "3"]  # scored and new rows
        assert run.decode([rows[2], rows[0], rows[2]]) == ["3", "1", "3"]
        assert all(row.encoding.output is None for row in rows)
    assert run.engine.batch_sizes["encode"] == [2, 3, 3]


def test_too_little_memory_for_many_beams_does_not_limit_greedy_calls() -> None:
    def fail_once(rows: int) -> None:
        run.engine.fail = lambda _: None
        raise EngineError("cuBLAS failed with status CUBLAS_STATUS_ALLOC_FAILED")

    rows, greedy = rows_of(*range(12)), replace(SEARCH, beam_size=1)
    with sharing(Options(batch_size=12)) as run:
        run.engine.fail = fail_once
        for search in (SEARCH, greedy, SEARCH):
            assert run.decode(rows, search=search) == [str(level) for level in range(12)]
        assert SEARCH.beam_size == 5
        assert run.engine.attempts == [12, 6, 6, 12, 6, 6]


def test_kept_rows_are_not_encoded_again_after_a_failure() -> None:
    def fail_once(rows: int) -> None:
        if rows == 2:
            raise EngineError("broken")

    with sharing(hold=True) as run:
        run.engine.fail = fail_once
        rows = rows_of(1, 2)
        rows[0].encoding.keep = rows[1].encoding.keep = True
        callers = [run.start(partial(run.decode, [row])) for row in rows]
        run.engine.gate.set()
        assert [caller.result() for caller in callers] == [["1"], ["2"]]
    assert run.engine.batches == [1, 1]
    assert run.engine.batch_sizes["encode"] == [2]


@pytest.mark.parametrize("workers", [1, 3])
def test_results_are_in_order_if_a_call_is_divided(workers: int) -> None:
    expected = [f"{level}" for level in range(11)]
    requests = [REQUEST, replace(REQUEST, prompt=(10, *PROMPT))]  # in turn
    with sharing(Options(batch_size=2), workers=workers) as run:
        rows = rows_of(*range(11))
        texts = run.texts([(row, requests[n % 2], SEARCH) for n, row in enumerate(rows)])
        assert texts == expected
        assert levels(run.model.detect_languages(rows)) == list(range(11))
    full, shared = [1, 2, 2, 2, 2, 2], [1, 1, 1, 2, 2, 2, 2]  # free workers may share two rows
    assert sorted(run.engine.batches) in ([full] if workers == 1 else [full, shared])


def test_rows_of_several_searches_are_computed_together() -> None:
    longer = replace(REQUEST, prompt=(10, *PROMPT))
    greedy = replace(SEARCH, beam_size=1)
    requests = [REQUEST, longer, REQUEST, REQUEST, longer, REQUEST]
    searches = [SEARCH, SEARCH, SEARCH, greedy, SEARCH, SEARCH]
    with sharing(hold=True) as run:
        calls = list(zip(rows_of(1, 2, 3, 4, 5, 6), requests, searches, strict=True))
        caller = run.start(partial(run.texts, calls), rows=6)
        run.engine.gate.set()
        assert caller.result() == ["1", "2", "3", "4", "5", "6"]
    assert sorted(run.engine.batches) == [1, 2, 3]
    assert run.model.decode([]) == []


def test_rows_are_computed_in_the_order_of_their_positions() -> None:
    with sharing(Options(batch_size=1), hold=True) as run:

        def decode(level: float, position: tuple[int, int] | None) -> list[str]:
            rows = rows_of(level)
            if position is None:
                with run.model.at((9, 9)):
                    pass  # the rows of this thread have no position any more
                return run.decode(rows)
            with run.model.at(position):
                return run.decode(rows)

        positions = [(1, 0), (0, 500), None, (0, 0)]
        callers = [run.start(partial(decode, *item)) for item in enumerate(positions)]
        run.engine.gate.set()
        assert [caller.result() for caller in callers] == [["0"], ["1"], ["2"], ["3"]]
    assert [call.row.level for call in run.engine.calls] == [2, 3, 1, 0]


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
