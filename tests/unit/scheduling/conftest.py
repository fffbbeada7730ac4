"""A fixture of the tests of the scheduler."""

import pytest

from tests.unit.counting_source import TIMEOUT
from whisperbatch.scheduling import scheduler


@pytest.fixture
def rare_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the threads look for work only when they are notified: looking must not be necessary."""
    monkeypatch.setattr(scheduler, "CHECK_INTERVAL", 2 * TIMEOUT)
