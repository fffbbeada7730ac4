"""The limit of requests, and the time after which a refused request may come back."""

from contextlib import ExitStack
from types import SimpleNamespace

import pytest

from whisperbatch.server.admission import MAX_RETRY, NOBODY, Admission, Limits
from whisperbatch.server.clients import Client
from whisperbatch.server.errors import ApiError
from whisperbatch.submissions import Places, Submitted


def refused(admission: Admission, client: Client = NOBODY) -> ApiError:
    with pytest.raises(ApiError) as caught, admission.admitted(client):
        pass
    return caught.value


def test_requests_are_admitted_up_to_the_limit() -> None:
    admission = Admission(Limits(2, 2))
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
    admission = Admission(Limits(1), now=lambda: clock.now)
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
        assert last == MAX_RETRY


def test_a_server_that_shuts_down_finishes_its_work_and_refuses_more() -> None:
    admission = Admission(Limits(3, 3))
    with ExitStack() as stack:
        stack.enter_context(admission.admitted())
        admission.closed = True
        error = refused(admission)
        assert (error.status, admission.active) == (503, 1)
        assert "retry-after" in error.headers


def test_the_estimate_does_not_count_idle_time() -> None:
    clock = SimpleNamespace(now=100.0)
    admission = Admission(Limits(1), now=lambda: clock.now)
    for _ in range(20):
        with admission.admitted():
            clock.now += 0.3
    clock.now += 3600
    with admission.admitted():
        waits = [refused(admission).retry_after or 0 for _ in range(4)]
    assert max(waits) < 2


def test_before_any_end_the_estimate_follows_the_number_of_places() -> None:
    admission = Admission(Limits(4, 4), now=lambda: 100.0)
    with ExitStack() as stack:
        for _ in range(4):
            stack.enter_context(admission.admitted())
        waits = [refused(admission).retry_after or 0 for _ in range(20)]
    assert waits == sorted(waits)
    assert max(waits) <= 30


def test_one_client_leaves_places_to_others() -> None:
    admission = Admission(Limits(8))
    with ExitStack() as stack:
        for _ in range(4):
            stack.enter_context(admission.admitted(Client("a")))
        error = refused(admission, Client("a"))
        assert (error.status, error.code) == (429, "too_many_requests")
        assert "of your requests" in error.message
        stack.enter_context(admission.admitted(Client("b")))
    stack.enter_context(admission.admitted(Client("a")))
    stack.close()
    assert admission.active == 0


@pytest.mark.parametrize(("wait", "is_refused"), [(0.0, False), (59.0, False), (61.0, True)])
def test_a_long_recording_is_refused_when_it_would_wait_long(
    wait: float, *, is_refused: bool
) -> None:
    admission = Admission(Limits(8, wait=60))
    submitted = Submitted(4, 9, 4, 9, Places(8, 4), wait)
    if not is_refused:
        admission.check_wait(submitted)
        return
    with pytest.raises(ApiError) as caught:
        admission.check_wait(submitted)
    assert (caught.value.status, caught.value.headers["retry-after"]) == (429, "61")


def test_refusals_of_one_client_do_not_delay_the_others() -> None:
    clock = SimpleNamespace(now=100.0)
    admission = Admission(Limits(2), now=lambda: clock.now)
    with admission.admitted(Client("a")):
        for _ in range(400):
            refused(admission, Client("a"))
        with admission.admitted(Client("b")):
            assert (refused(admission, Client("z")).retry_after or 0) < 10
