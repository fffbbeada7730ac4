"""Calls in progress: an engine is closed only when none of its calls is running."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from whisperbatch.errors import ClosedError, EngineError, ModelError, WhisperBatchError


class Calls:
    """Counts the calls in progress of one engine. Thread-safe.

    Args:
        name: of the model, for messages.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._closed = False
        self._active = 0
        self._changed = threading.Condition()

    @contextmanager
    def __call__(self) -> Iterator[None]:
        """Count a call until the `with` block ends.

        Raises:
            ClosedError: the engine is closed.
            EngineError: the block raised a ModelError (weights that are loaded late), a
                RuntimeError or a ValueError.
        """
        with self._changed:
            if self._closed:
                raise ClosedError(f"model {self._name} is closed")
            self._active += 1
        try:
            yield
        except ModelError as error:
            raise EngineError(str(error)) from error
        except WhisperBatchError:
            raise
        except (RuntimeError, ValueError) as error:
            raise EngineError(f"model {self._name}: {error}") from error
        finally:
            with self._changed:
                self._active -= 1
                self._changed.notify_all()

    def close(self, free: Callable[[], None]) -> None:
        """Refuse new calls, wait for the calls in progress, and call `free`. Safe to call twice."""
        with self._changed:
            if not self._closed:
                self._closed = True
                self._changed.wait_for(lambda: not self._active)
                free()
