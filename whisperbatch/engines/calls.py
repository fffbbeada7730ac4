"""The calls of an engine: it is closed only when none of them is running."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from whisperbatch.errors import ClosedError, EngineError, ModelError, WhisperBatchError
from whisperbatch.protocols import Encoded
from whisperbatch.threads import reset_after_fork

T = TypeVar("T")


def check_encoded(encoded: Encoded, kind: type[T]) -> T:
    """Return encoder output, checked to be of an engine's own class.

    Raises:
        EngineError: another engine made the encoder output.
    """
    if not isinstance(encoded, kind):
        raise EngineError(
            "the encoder output comes from another engine; encode the features with this engine"
        )
    return encoded


class Calls:
    """Counts the calls in progress of one engine. Thread-safe.

    Args:
        name: of the model, for messages.
        renew: called before the first call in a child of a fork, which has none of the threads of
            the engine; again before the next call, if it raises an error. The argument is whether
            calls were in progress when the process forked.
    """

    def __init__(self, name: str, renew: Callable[[bool], None] = lambda _: None) -> None:
        self._name, self._renew = name, renew
        self._closed = self._is_inherited = self._was_busy = False
        self._active = 0
        self._changed = threading.Condition()
        reset_after_fork(self)

    def _after_fork(self) -> None:
        """Forget the calls of the parent process. See `threads.Inheritable`."""
        self._was_busy = self._active > 0 or self._was_busy
        self._changed, self._active = threading.Condition(), 0
        self._is_inherited = True

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
            if self._is_inherited:
                self._go_on()
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

    def _go_on(self) -> None:
        try:
            self._renew(self._was_busy)
        except ModelError as error:
            raise EngineError(str(error)) from error
        self._is_inherited = self._was_busy = False

    def close(self, free: Callable[[], None]) -> None:
        """Refuse new calls, wait for the calls in progress, and call `free`. Safe to call twice."""
        with self._changed:
            if not self._closed:
                self._closed = True
                self._changed.wait_for(lambda: not self._active)
                free()
