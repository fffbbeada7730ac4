"""An engine whose rows are computed when they are needed, with the rows of other threads."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pytest

from tests.unit.fakes import Call, EncodedRow, FakeEncoded, multilingual_tokenizer
from tests.unit.scheduling.row_calls import Caller, CountedScheduler, GatedEngine, levels
from whisperbatch.errors import EngineError, OptionError
from whisperbatch.options import Options, SearchOptions
from whisperbatch.protocols import AlignRequest, DecodeRequest, Encoded, Engine, Sampling
from whisperbatch.scheduling import Flow, SharedEngine

pytestmark = pytest.mark.usefixtures("no_threads_left", "rare_checks")

T = TypeVar("T")

OPTIONS = Options(batch_size=8)
GREEDY = Options(batch_size=8, beam_size=1)
SAMPLING = Options(batch_size=8, temperature=(0.4, 0.6), best_of=4)
SEARCH = OPTIONS.search
START = (50, 51, 52)
PROMPT = (10, *START, 53, 20)
REQUEST = DecodeRequest(PROMPT, START, prefix=(20,), frames=4)
SAMPLED = replace(REQUEST, sampling=Sampling(0.4, best_of=2, seed=1))
ALIGN = AlignRequest(START, (1, 2, 3), 4)
NO_TIMESTAMPS = multilingual_tokenizer().token_to_id("<|notimestamps|>")


def features(*levels: float, window: int = 4) -> npt.NDArray[np.float32]:
    """Return the features of rows, each with one value everywhere."""
    values = np.array(levels, np.float32)
    return np.broadcast_to(values[:, None, None], (len(levels), 80, window)).copy()


def sampled(best_of: int) -> DecodeRequest:
    return replace(REQUEST, sampling=Sampling(0.4, best_of, seed=1))


def level_text(call: Call) -> str:
    return f" {call.row.level:g}."


@dataclass(frozen=True)
class Sharing:
    """A shared engine, and the parts below it."""

    engine: GatedEngine
    scheduler: CountedScheduler
    flow: Flow
    shared: SharedEngine

    def decode(
        self, rows: Encoded, request: DecodeRequest = REQUEST, search: SearchOptions = SEARCH
    ) -> list[str]:
        """Return the text of each row: its level."""
        decoded = self.shared.decode(rows, [request] * rows.rows, search)
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
    """Yield a shared engine. If `hold` is true, the rows of all calls wait for the gate."""
    engine = GatedEngine(decode=level_text, workers=workers)
    scheduler, flow = CountedScheduler(engine), Flow()
    with scheduler.running(flow):
        if hold:
            scheduler.hold(flow)
            engine.batch_sizes["encode"].clear()
        else:
            engine.gate.set()
        yield Sharing(engine, scheduler, flow, SharedEngine(scheduler, flow, options))


def test_encode_computes_nothing() -> None:
    with sharing() as run:
        encoded = run.shared.encode(features(1, 2, 3))
        assert encoded.rows == 3
        assert [part.rows for part in run.shared.split(encoded)] == [1, 1, 1]
        assert run.shared.join([encoded, encoded]).rows == 6
    assert not any(run.engine.batch_sizes.values())


def test_rows_that_were_split_are_encoded_once() -> None:
    with sharing() as run:
        parts = run.shared.split(run.shared.encode(features(1, 2, 3)))
        assert run.decode(run.shared.join(parts)) == ["1", "2", "3"]
        assert run.decode(run.shared.join([parts[2], parts[0]])) == ["3", "1"]
        assert len(run.shared.align(parts[1], [ALIGN])) == 1
        assert levels(run.shared.detect_language(parts[1])) == [2]
    assert run.engine.batch_sizes["encode"] == [3]


def test_rows_whose_language_was_detected_are_encoded_once() -> None:
    with sharing() as run:
        encoded = run.shared.encode(features(1, 2))
        assert levels(run.shared.detect_language(encoded)) == [1, 2]
        assert run.decode(encoded) == ["1", "2"]
    assert run.engine.batch_sizes["encode"] == [2]


def test_the_features_of_a_stored_row_are_freed() -> None:
    with sharing() as run:
        encoded = run.shared.encode(features(1, 2))
        run.shared.detect_language(encoded)
        assert [row.features for row in encoded.items] == [None, None]


def test_the_output_of_other_rows_is_not_stored() -> None:
    with sharing() as run:
        encoded = run.shared.encode(features(1))
        for _ in range(2):
            assert run.decode(encoded) == ["1"]
            assert encoded.items[0].encoded is None
    assert run.engine.batch_sizes["encode"] == [1, 1]


def test_only_rows_without_stored_output_are_encoded() -> None:
    with sharing() as run:
        stored = run.shared.encode(features(1, 2))
        run.shared.detect_language(stored)
        first, last = run.shared.encode(features(3)), run.shared.encode(features(4))
        assert run.decode(run.shared.join([first, stored, last])) == ["3", "1", "2", "4"]
    assert run.engine.batch_sizes["encode"] == [2, 2]


def test_a_call_stores_only_the_outputs_that_are_needed_again() -> None:
    with sharing(hold=True) as run:
        stored, other = run.shared.encode(features(1)), run.shared.encode(features(2))
        run.shared.split(stored)
        callers = [run.start(partial(run.decode, rows)) for rows in (stored, other)]
        run.engine.gate.set()
        assert [caller.result() for caller in callers] == [["1"], ["2"]]
        assert run.engine.batch_sizes["encode"] == [2]
        assert run.decode(stored) == ["1"]
        assert run.engine.batch_sizes["encode"] == [2]
        assert run.decode(other) == ["2"]
        assert run.engine.batch_sizes["encode"] == [2, 1]


def test_stored_rows_are_not_encoded_again_after_a_failure() -> None:
    def fail_once(rows: int) -> None:
        if rows == 2:
            raise EngineError("broken")

    with sharing(hold=True) as run:
        run.engine.fail = fail_once
        parts = run.shared.split(run.shared.encode(features(1, 2)))
        callers = [run.start(partial(run.decode, rows)) for rows in parts]
        run.engine.gate.set()
        assert [caller.result() for caller in callers] == [["1"], ["2"]]
    assert run.engine.batches == [1, 1]
    assert run.engine.batch_sizes["encode"] == [2]


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
            encoded = run.shared.encode(features(level, window=window))
            return run.decode(encoded, request, search)

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
        rows = run.shared.encode(features(1))
        callers: list[Caller[Any]] = [
            run.start(partial(run.shared.detect_language, rows)),
            run.start(partial(run.shared.align, rows, [ALIGN])),
            run.start(partial(run.decode, rows)),
        ]
        run.engine.gate.set()
        for caller in callers:
            caller.result()
    assert run.engine.batch_sizes["detect_language"] == [1, 1]  # one is the held call
    assert run.engine.batch_sizes["align"] == [1]
    assert run.engine.batches == [1]


@pytest.mark.parametrize("method", ["detect_language", "align"])
def test_rows_with_different_windows_never_share_a_call(method: str) -> None:
    arguments = [[ALIGN]] if method == "align" else []
    with sharing(hold=True) as run:
        callers = [
            run.start(partial(getattr(run.shared, method), rows, *arguments))
            for rows in (run.shared.encode(features(1, window=size)) for size in (4, 6, 4))
        ]
        run.engine.gate.set()
        for caller in callers:
            caller.result()
    assert run.engine.batch_sizes[method][-2:] == [2, 1]


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
        run.decode(run.shared.encode(features(*range(16))), request_, search)
    assert run.engine.batches == calls


def test_other_methods_have_calls_of_the_batch_size() -> None:
    with sharing() as run:
        rows = run.shared.encode(features(*range(12)))
        run.shared.detect_language(rows)
        run.shared.align(rows, [ALIGN] * 12)
    assert run.engine.batch_sizes["detect_language"] == [8, 4]
    assert run.engine.batch_sizes["align"] == [8, 4]


@pytest.mark.parametrize("workers", [1, 3])
def test_results_are_in_order_if_a_call_is_divided(workers: int) -> None:
    expected = [f"{level}" for level in range(11)]
    requests = [REQUEST, replace(REQUEST, prompt=(10, *PROMPT))]  # in turn
    with sharing(Options(batch_size=2), workers=workers) as run:
        rows = run.shared.encode(features(*range(11)))
        decoded = run.shared.decode(rows, [requests[row % 2] for row in range(11)], SEARCH)
        texts = [run.engine.tokenizer.decode(row.hypothesis.tokens) for row in decoded]
        assert [text.strip(" .") for text in texts] == expected
        assert levels(run.shared.detect_language(rows)) == list(range(11))
    assert sorted(run.engine.batches) == [1, 2, 2, 2, 2, 2]


def test_rows_are_computed_in_the_order_of_their_positions() -> None:
    with sharing(Options(batch_size=1), hold=True) as run:

        def decode(level: float, position: tuple[int, int] | None) -> list[str]:
            rows = run.shared.encode(features(level))
            if position is None:
                with run.shared.at((9, 9)):
                    pass  # the rows of this thread have no position any more
                return run.decode(rows)
            with run.shared.at(position):
                return run.decode(rows)

        positions = [(1, 0), (0, 500), None, (0, 0)]
        callers = [run.start(partial(decode, *item)) for item in enumerate(positions)]
        run.engine.gate.set()
        assert [caller.result() for caller in callers] == [["0"], ["1"], ["2"], ["3"]]
    assert [call.row.level for call in run.engine.calls] == [2, 3, 1, 0]


@pytest.mark.parametrize("method", ["split", "join", "detect_language", "decode", "align"])
def test_encoder_output_of_another_engine_is_refused(method: str) -> None:
    other = FakeEncoded((EncodedRow(1.0, 0.0, 1.0),))
    with sharing() as run:
        calls: dict[str, Callable[[], object]] = {
            "split": lambda: run.shared.split(other),
            "join": lambda: run.shared.join([run.shared.encode(features(1)), other]),
            "detect_language": lambda: run.shared.detect_language(other),
            "decode": lambda: run.shared.decode(other, [REQUEST], SEARCH),
            "align": lambda: run.shared.align(other, [ALIGN]),
        }
        with pytest.raises(EngineError, match="the encoder output comes from another engine"):
            calls[method]()
    assert run.engine.attempts == []


def test_a_shared_engine_has_the_attributes_of_its_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(options: SearchOptions) -> None:
        raise OptionError(f"beam_size={options.beam_size}")

    with sharing(workers=2) as run:
        assert isinstance(run.shared, Engine)
        names = ("name", "fingerprint", "is_multilingual", "can_translate", "n_mels", "workers")
        for name in (*names, "tokenizer"):
            assert getattr(run.shared, name) is getattr(run.engine, name)
        monkeypatch.setattr(run.engine, "check", refuse)
        with pytest.raises(OptionError, match="beam_size=5"):
            run.shared.check(SEARCH)
        run.shared.close()
        assert not run.engine.closed
