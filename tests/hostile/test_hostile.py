"""Hostile requests to a running server."""

import pytest

from tests.hostile import driver
from tests.model.server import running


@pytest.mark.parametrize(
    ("count", "warm_up"), [(60, 20), pytest.param(2000, 500, marks=pytest.mark.slow)]
)
def test_hostile_requests_get_clear_errors_and_leave_nothing(count: int, warm_up: int) -> None:
    with running(*driver.FLAGS) as server:
        report = driver.run(server, seed=count, count=count, warm_up=warm_up)
    assert not report.failures, str(report)
    assert report.statuses[200] > count / 20
    assert report.statuses[400] > count / 5
