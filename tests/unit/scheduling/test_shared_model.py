"""The model of one run: rows are encoded when they are needed, and not again if they are kept."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from tests.unit.fakes import FakeEngine
from tests.unit.scheduling.row_calls import levels
from tests.unit.scheduling.sharing import PROMPT, REQUEST, SEARCH, rows_of, sharing
from whisperbatch.errors import EngineError
from whisperbatch.options import Options
from whisperbatch.protocols import FeatureType

pytestmark = pytest.mark.usefixtures("no_threads_left", "rare_checks")


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
        assert row.encoding.frames == row.window
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
