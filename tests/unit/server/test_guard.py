"""The limit of requests, and the time after which a refused request may come back."""

from contextlib import ExitStack
from types import SimpleNamespace

import pytest

from whisperbatch.server.errors import ApiError
from whisperbatch.server.guard import MAX_WAIT, Admission


def refused(admission: Admission) -> ApiError:
    with pytest.raises(ApiError) as caught, admission.admitted():
        pass
    return caught.value


def test_requests_are_admitted_up_to_the_limit() -> None:
    admission = Admission(2)
    with admission.admitted():
        with admission.admitted():
            assert admission.active == 2
            error = refused(admission)
            assert (error.status, error.type, error.code) == (429, "rate_limit_error", "queue_full")
            assert int(error.headers["retry-after"]) >= 1
        with admission.admitted():
            assert admission.active == 2
    assert admission.active == 0


def test_refused_requests_come_back_one_after_the_other() -> None:
    clock = SimpleNamespace(now=100.0)
    admission = Admission(1, now=lambda: clock.now)
    for _ in range(5):  # a request ends every 2 s
        with admission.admitted():
            clock.now += 2.0
    with admission.admitted():
        first, second, third = (refused(admission).retry_after for _ in range(3))
        assert first is not None
        assert second is not None
        assert third is not None
        assert 0.5 <= first <= 3
        assert second == pytest.approx(2 * first)
        assert third == pytest.approx(3 * first)
        clock.now += first  # the first has come back
        assert refused(admission).retry_after == pytest.approx(3 * first, rel=0.5)
        for _ in range(1000):
            last = refused(admission).retry_after
        assert last == MAX_WAIT


def test_a_server_that_shuts_down_finishes_its_work_and_refuses_more() -> None:
    admission = Admission(3)
    with ExitStack() as stack:
        stack.enter_context(admission.admitted())
        admission.closed = True
        error = refused(admission)
        assert (error.status, admission.active) == (503, 1)
        assert "retry-after" in error.headers
