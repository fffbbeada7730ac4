"""Calls in their own thread."""

import time
from queue import SimpleQueue
from typing import Any

import pytest

from whisperbatch import apart


class SlowQueue(SimpleQueue[Any]):
    """A queue whose reader goes on before its writer."""

    def put(self, item: Any, block: bool = True, timeout: float | None = None) -> None:
        super().put(item)
        time.sleep(0.02)


def test_a_call_that_has_returned_is_not_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the call gives back may still be in use: an open recording, for example."""
    monkeypatch.setattr(apart, "SimpleQueue", SlowQueue)
    stopped: list[bool] = []

    def work() -> int:
        apart.on_stop(lambda: stopped.append(True))
        return 5

    assert apart.call_apart(work) == 5
    time.sleep(0.1)
    assert stopped == []


@pytest.mark.parametrize(
    ("thrown", "text"),
    [((LookupError("why"),), "why"), ((LookupError, "why"), "why"), ((LookupError,), "")],
)
def test_a_thrown_exception_closes_the_generator(thrown: tuple[Any, ...], text: str) -> None:
    items = apart.Apart(lambda: iter((1, 2)))
    assert next(items) == 1
    with pytest.raises(LookupError) as caught:
        items.throw(*thrown)
    assert str(caught.value) == text
    assert list(items) == []
