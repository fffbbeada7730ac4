"""Which entries of the journal are still needed, while several recordings are transcribed."""

import threading
from collections.abc import Iterable

from whisperbatch.jobs.ledger import Ledger


class JournalMarks:
    """Deletes journal entries as soon as no recording of the run needs them.

    A mark is the number of the journal's next entry. All entries that a recording adds lie between
    the mark at its begin and the mark at its end:

        entries        1 2 3 4 5 6 7 8 9
        recording 0    [---------]
        recording 1        [----------->     at the end of recording 0, entries 1 and 2 are deleted

    Entries of earlier runs that this run has read may belong to any recording. They are deleted
    when all recordings have ended. Entries of recordings that failed with a temporary error stay
    for the next run.
    """

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._first = ledger.mark()
        self._begins: dict[int, int] = {}
        self._protected: list[tuple[int, int]] = []  # spans of marks of recordings that failed
        self._lock = threading.Lock()  # another thread iterates over the sources

    def begin(self, number: int) -> None:
        """Note that a recording is about to be read."""
        with self._lock:
            self._begins[number] = self._ledger.mark()

    def end(self, number: int, *, keep: bool) -> None:
        """Note that a recording has finished or failed; `keep` protects its entries."""
        with self._lock:
            now = self._ledger.mark()
            begin = self._begins.pop(number)
            if keep:
                self._protected.append((begin, now))
            self._forget(self._first, min(self._begins.values(), default=now))

    def close(self) -> None:
        """Delete the remaining unprotected entries.

        Entries of earlier runs are deleted, too, unless a recording failed with a temporary error.
        """
        self._forget(self._first if self._protected else 0, self._ledger.mark())

    def _forget(self, start: int, end: int) -> None:
        """Delete the entries from one mark to another, without the protected spans."""
        for protected_start, protected_end in [*_merged(self._protected), (end, end)]:
            if start < min(protected_start, end):
                self._ledger.forget(start, min(protected_start, end))
            start = max(start, protected_end)


def _merged(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the spans in order; overlapping spans become one."""
    merged: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged
