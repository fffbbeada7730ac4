"""An engine for one run: rows are encoded when they are needed, once if they are needed again."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from tests.unit.fakes import FakeEncoded, FakeEngine
from tests.unit.scheduling.row_calls import levels
from tests.unit.scheduling.sharing import ALIGN, PROMPT, REQUEST, SEARCH, features, sharing
from whisperbatch.errors import EngineError, OptionError
from whisperbatch.options import Options, SearchOptions
from whisperbatch.protocols import Engine, FeatureType

pytestmark = pytest.mark.usefixtures("no_threads_left", "rare_checks")


def test_encode_computes_nothing() -> None:
    with sharing() as run:
        encoded = run.shared.encode(features(1, 2, 3))
        assert encoded.rows == 3
        assert [part.rows for part in run.shared.split(encoded)] == [1, 1, 1]
        assert run.shared.join([encoded, encoded]).rows == 6
    assert not any(run.engine.batch_sizes.values())


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_rows_wait_in_the_type_that_the_engine_computes_with(
    monkeypatch: pytest.MonkeyPatch, dtype: FeatureType
) -> None:
    monkeypatch.setattr(FakeEngine, "feature_type", dtype, raising=False)
    given = features(1, 2, 3)
    with sharing() as run:
        encoded = run.shared.encode(given)
        assert [row.features.dtype for row in encoded.items if row.features is not None] == [
            dtype
        ] * 3
        assert run.decode(encoded) == ["1", "2", "3"]
    assert run.engine.features.dtype == dtype
    assert given.dtype == np.float32


def test_without_a_type_features_are_in_float32_and_not_copied() -> None:
    given = features(1)
    with sharing() as run:
        [row] = run.shared.encode(given).items
    assert row.features is not None
    assert row.features.dtype == np.float32
    assert np.shares_memory(row.features, given)


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


def test_rows_that_are_joined_are_decoded_again_so_they_are_stored() -> None:
    with sharing() as run:
        encoded = run.shared.encode(features(1))
        assert run.decode(encoded) == ["1"]
        joined = run.shared.join([encoded])
        assert run.decode(joined) == run.decode(encoded) == ["1"]
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
    full, shared = [1, 2, 2, 2, 2, 2], [1, 1, 1, 2, 2, 2, 2]  # free workers may share two rows
    assert sorted(run.engine.batches) in ([full] if workers == 1 else [full, shared])


def test_several_calls_of_decode_are_computed_together() -> None:
    longer = replace(REQUEST, prompt=(10, *PROMPT))
    greedy = replace(SEARCH, beam_size=1)
    with sharing(hold=True) as run:
        rows = [run.shared.encode(features(*levels)) for levels in ((1, 2), (3,), (4,), (5, 6))]
        requests = [[REQUEST, longer], [REQUEST], [REQUEST], [longer, REQUEST]]
        calls = list(zip(rows, requests, (SEARCH, SEARCH, greedy, SEARCH), strict=True))
        caller = run.start(partial(run.shared.decode_all, calls), rows=6)
        run.engine.gate.set()
        tokenizer = run.engine.tokenizer
        texts = [
            [tokenizer.decode(row.hypothesis.tokens) for row in decoded]
            for decoded in caller.result()
        ]
    assert texts == [[" 1.", " 2."], [" 3."], [" 4."], [" 5.", " 6."]]
    assert sorted(run.engine.batches) == [1, 2, 3]
    assert run.shared.decode_all([]) == []


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
    other = FakeEncoded(())
    with sharing() as run:
        arguments: dict[str, tuple[object, ...]] = {
            "split": (other,),
            "join": ([run.shared.encode(features(1)), other],),
            "detect_language": (other,),
            "decode": (other, [REQUEST], SEARCH),
            "align": (other, [ALIGN]),
        }
        with pytest.raises(EngineError, match="the encoder output comes from another engine"):
            getattr(run.shared, method)(*arguments[method])
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
