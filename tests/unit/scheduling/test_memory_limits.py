"""The size of calls after memory ran out."""

import sys

import pytest

from tests.unit.scheduling.row_calls import row_call
from whisperbatch.options import SearchOptions
from whisperbatch.scheduling import RunShare
from whisperbatch.scheduling.call_queue import WaitingRow
from whisperbatch.scheduling.memory_limits import GOOD_CALLS, MemoryLimits, Method

RUN = RunShare()


def decoded(hypotheses: int = 1, frames: int = 3000) -> WaitingRow:
    call = row_call(RUN, frames=frames)
    call.search, call.hypotheses = SearchOptions(beam_size=hypotheses), hypotheses
    return call


def scored(frames: int = 3000) -> WaitingRow:
    return row_call(RUN, frames=frames)


def test_without_a_failure_there_is_no_limit() -> None:
    assert MemoryLimits().max_rows(decoded()) == MemoryLimits().max_rows(scored()) == sys.maxsize


def test_a_search_with_many_beams_does_not_limit_greedy_calls_to_its_rows() -> None:
    limits = MemoryLimits()
    limits.lower("decode", [decoded(5)] * 12)
    assert limits.max_rows(decoded(5)) == 6
    assert limits.max_rows(decoded(1)) == 30
    assert limits.max_rows(decoded(10)) == 3
    assert limits.max_rows(decoded(31)) == 1  # a row is computed in any case


def test_short_windows_leave_room_for_more_rows() -> None:
    limits = MemoryLimits()
    limits.lower("decode", [decoded(frames=3000)] * 8)
    assert limits.max_rows(decoded(frames=1000)) == 12


@pytest.mark.parametrize(
    ("method", "decoding", "detecting"),
    [
        ("encode", 4, 4),
        ("decode", 4, sys.maxsize),
        ("detect_language", sys.maxsize, 4),
    ],
)
def test_each_method_has_its_limit(method: Method, decoding: int, detecting: int) -> None:
    limits = MemoryLimits()
    limits.lower(method, [decoded() if method == "decode" else scored()] * 8)
    assert limits.max_rows(decoded()) == decoding
    assert limits.max_rows(scored()) == detecting


def test_the_limit_of_the_encoder_does_not_count_hypotheses() -> None:
    limits = MemoryLimits()
    limits.lower("encode", [decoded(1)] * 64)
    assert limits.max_rows(decoded(5)) == limits.max_rows(decoded(1)) == 32
    limits.lower("encode", [decoded(5)] * 32)
    assert limits.max_rows(decoded(1)) == 16


def test_a_limit_rises_after_full_calls_with_enough_memory() -> None:
    limits = MemoryLimits()
    limits.lower("decode", [decoded(5)] * 12)
    full = [decoded(5)] * 6
    assert not any(limits.raise_after(full) for _ in range(GOOD_CALLS - 1))
    assert limits.max_rows(decoded(5)) == 6
    assert limits.raise_after(full)
    assert limits.max_rows(decoded(5)) == 12


def test_calls_that_could_have_had_more_rows_do_not_count() -> None:
    limits = MemoryLimits()
    limits.lower("decode", [decoded(5)] * 12)
    for _ in range(2 * GOOD_CALLS):
        assert not limits.raise_after([decoded(5)] * 5)
        assert not limits.raise_after([scored()] * 64)
    assert limits.max_rows(decoded(5)) == 6


def test_a_trial_of_larger_calls_that_fails_makes_the_next_trial_rarer() -> None:
    limits = MemoryLimits()
    limits.lower("decode", [decoded()] * 16)
    limits.lower("decode", [decoded()] * 8)  # the half failed, too: no trial
    full = [decoded()] * 4
    calls = []
    for _ in range(3):
        count = 1
        while not limits.raise_after(full):
            count += 1
        calls.append(count)
        assert limits.max_rows(decoded()) == 8
        limits.lower("decode", [decoded()] * 8)
        assert limits.max_rows(decoded()) == 4
    assert calls == [GOOD_CALLS, 2 * GOOD_CALLS, 4 * GOOD_CALLS]
