"""Scheduling: the rows of all recordings share the calls of the engine.

a thread of a row, or of a recording
  -> SharedModel     score or decode a few rows; the thread waits
  -> CallQueue       the rows that wait, of all threads
  -> Scheduler       calls of the engine, each with as many rows as fit

`ReadingLimit` limits the audio that is read, but not decoded.
"""

from whisperbatch.scheduling.call_queue import READING, ResultStore, RunShare, WaitingRow
from whisperbatch.scheduling.reading_limit import ReadingLimit
from whisperbatch.scheduling.scheduler import Activity, Scheduler, SharedModel, WithdrawnError

__all__ = [
    "READING",
    "Activity",
    "ReadingLimit",
    "ResultStore",
    "RunShare",
    "Scheduler",
    "SharedModel",
    "WaitingRow",
    "WithdrawnError",
]
