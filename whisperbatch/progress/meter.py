"""The progress of one work, as values that a program or a bar shows."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

from whisperbatch.errors import OptionError
from whisperbatch.text.messages import short_repr, shown
from whisperbatch.types import Record

Stage = Literal["download", "transcribe", "diarize"]


@dataclass(frozen=True, slots=True, repr=False)
class Progress(Record):
    """How far a work is.

    Attributes:
        stage: "transcribe", "diarize" or "download".
        source: name of the recording, or of the repository.
        position: seconds of the recording that are done; of a download, bytes.
        total: length of the recording in seconds, as its file states it, or size of the download in
            bytes; None if it is unknown.
        elapsed: seconds since the work began.
        done: whether the work has ended.
    """

    stage: Stage
    source: str
    position: float
    total: float | None
    elapsed: float
    done: bool = False

    def __repr__(self) -> str:
        return short_repr(self, "stage", "source", "position", "total", "speed", "done")

    @property
    def speed(self) -> float | None:
        """Seconds of the recording for each second of work; of a download, bytes per second.

        None at the start.
        """
        return self.position / self.elapsed if self.position and self.elapsed else None

    @property
    def remaining(self) -> float | None:
        """Seconds of work that are left at this speed; None if they are unknown."""
        if self.total is None or self.speed is None:
            return None
        return max(self.total - self.position, 0.0) / self.speed


ShowProgress: TypeAlias = Callable[[Progress], object]
ProgressOption: TypeAlias = bool | ShowProgress
"""The keyword `progress`: True shows bars; a function is called with each `Progress`."""


def shown_by(progress: ProgressOption) -> ShowProgress | None:
    """Return the function that shows the progress; None for False.

    Raises:
        OptionError: `progress` is neither a bool nor a function.
    """
    if type(progress) is bool:
        from whisperbatch.progress.bars import Bars  # noqa: PLC0415 - only True needs it

        return Bars() if progress else None
    if not callable(progress):
        raise OptionError(f"progress must be a bool or a function, not {shown(progress)}")
    return progress


class Meter:
    """Measures one work, and gives its progress to a function. Thread-safe.

    Args:
        stage: of the work.
        source: name of the recording or repository.
        total: see `Progress`.
        show: is called with each progress, by the thread that advances; None for none.
        begun: when the work began, of `time.monotonic`; None for now.
    """

    def __init__(
        self,
        stage: Stage,
        source: str,
        total: float | None,
        show: ShowProgress | None,
        begun: float | None = None,
    ) -> None:
        self._stage, self._source, self._total, self._show = stage, source, total, show
        self._position = 0.0
        self._begun = time.monotonic() if begun is None else begun
        self._ended = False
        self._lock = threading.Lock()

    def advance(self, position: float, total: float | None = None) -> None:
        """Note a position. It never goes back, and the total is never smaller.

        Args:
            position: seconds or bytes that are done.
            total: if it is known only now.
        """
        self._report(position, total, done=False)

    def end(self, position: float | None = None) -> None:
        """Note the end of the work, at its last position; later calls have no effect."""
        last = self._position if position is None else position
        self._report(last, None if position is None else position, done=True)

    def _report(self, position: float, total: float | None, *, done: bool) -> None:
        if self._show is None or self._ended:
            return
        with self._lock:
            self._ended = done
            self._position = position if done else max(position, self._position)
            self._total = total or self._total
            if self._total is not None:
                self._total = max(self._total, self._position)
            elapsed = time.monotonic() - self._begun
            values = (self._position, self._total, elapsed, done)
        self._show(Progress(self._stage, self._source, *values))
