"""Fixtures of the unit tests: a Transcriber with a fake engine; checks of what a test leaves."""

import logging
import threading
from collections.abc import Iterator

import pytest

from tests.unit.fakes import FakeEngine, worker_threads
from whisperbatch import Transcriber


@pytest.fixture(autouse=True)
def _same_log() -> Iterator[None]:
    """The command line adds a handler to the log; its standard error ends with the test."""
    log = logging.getLogger("whisperbatch")
    handlers, level = [*log.handlers], log.level
    yield
    log.handlers = handlers
    log.setLevel(level)


@pytest.fixture
def no_threads_left() -> Iterator[None]:
    """Check that no thread of whisperbatch runs after the test."""
    yield
    assert worker_threads() == set()


@pytest.fixture
def no_threads_added() -> Iterator[None]:
    """Check that the test leaves no thread of any kind."""
    before = threading.active_count()
    yield
    assert threading.active_count() == before, threading.enumerate()


@pytest.fixture
def engine() -> FakeEngine:
    return FakeEngine()


@pytest.fixture
def asr(engine: FakeEngine) -> Iterator[Transcriber]:
    with Transcriber(engine) as transcriber:
        yield transcriber
    assert engine.closed
