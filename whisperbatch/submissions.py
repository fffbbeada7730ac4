"""Recordings that are added while others are transcribed: `Transcriber.submit`.

A submission is in one of three states:

    waiting    for a place, among the recordings of its group
    active     a thread collects the segments; threads and tasks wait for them
    ended      with a transcript or an error, or cancelled

The number of places follows the engine. Long recordings take only a few of the places, so that a
short recording does not wait for the end of a long recording, however many long recordings wait:

    places     [ long | long | long | short | short | ... ]
    waiting    long:  group A a1 a2 a3, group B b1        a1, b1, a2, a3
               short: group C c1

A recording is short if its length is given or stated by its header, and is at most SHORT seconds.
While long recordings wait, short ones leave them their places. A recording that turns out to be
longer than its header states counts as long from then on. If there is no place for a further long
recording, it waits again, and begins again from its start: the segments are the same.
"""

import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Generator, Hashable, Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import Any, Final

from whisperbatch.apart import call_apart
from whisperbatch.boundary import as_error
from whisperbatch.errors import ClosedError, EngineError, WhisperBatchError
from whisperbatch.pipeline_run import PipelineRun
from whisperbatch.runtimes.machine import available_cpus
from whisperbatch.streams import segments_and_transcripts
from whisperbatch.text import brief, description
from whisperbatch.threads import (
    JOIN_TIMEOUT,
    Cancellable,
    Changes,
    in_background,
    reset_after_fork,
    stop_at_exit,
)
from whisperbatch.types import Explained, Segment, Transcript, iterate

SHORT: Final = 120.0  # seconds; longer recordings take only the places for long recordings
UNKNOWN: Final = 600.0  # seconds: the guess of an unknown length
MEASURED: Final = 4  # recordings at a time; a disk or a file object may not answer
HALF_LIFE: Final = 60.0  # seconds of work
KNOWN_AFTER: Final = 5.0  # seconds of work
PER_CPU: Final = 8  # recordings; each has about six threads, which wait most of the time


@dataclass(frozen=True, slots=True)
class Places:
    """The number of recordings that are read and decoded at a time.

    Each has an open file and threads.

    Attributes:
        all: number of places.
        long: number of places that long recordings may take.
    """

    all: int
    long: int

    @classmethod
    def of(cls, workers: int, batch_size: int) -> "Places":
        """Return the places for an engine.

        Short recordings can fill the calls that are computed, and the next calls, but there are at
        most PER_CPU recordings for each CPU.

        Args:
            workers: number of calls that the engine computes at a time.
            batch_size: rows of a call.
        """
        long = workers + 1  # the next recording is open when one ends
        batches = min(2 * workers * batch_size, PER_CPU * available_cpus())
        return cls(all=max(batches, 2 * long), long=long)


@dataclass(frozen=True, slots=True)
class SubmittedSource:
    """What is known about the recording of a submission.

    Attributes:
        measure: returns the length of the recording in seconds; None if it is not known. Called
            only if the recording has to wait.
        begin_again: returns a new run that reads the recording from its start; None if the
            recording cannot be read again.
    """

    measure: Callable[[], float | None] = lambda: None
    begin_again: Callable[[], PipelineRun] | None = None


class _Place:
    """The place of a submission, or its wait for one."""

    def keep(self, position: float) -> bool:  # noqa: ARG002 - of the subclass
        """Note how many seconds are transcribed. Return whether the submission may go on."""
        return True

    def leave(self) -> None:
        """Note that the submission does not wait any more."""


_NOWHERE: Final = _Place()


class Submission(Cancellable, Explained):
    """A recording that is transcribed in the background. Thread-safe.

    Iterate with `for` or `async for`: the segments come in order, each as soon as it is decoded.
    Any number of threads and tasks may iterate, each from the first segment. `result()` and `await`
    wait for the transcript, and raise the error of the recording. At the end of a `with` or
    `async with` block, a recording that has not ended is cancelled.

    `Transcriber.submit` returns a Submission.
    """

    def __init__(self, run: PipelineRun, source: "SubmittedSource") -> None:
        # None after the end, because they hold the source
        self._run: PipelineRun | None = run
        self._source: SubmittedSource | None = source
        self._place: _Place = _NOWHERE
        self._submitted = time.monotonic()
        self._active_since: float | None = None  # or the end, if it was cancelled before
        self._changed = Changes()
        self._segments: list[Segment] = []
        self._result: Transcript | WhisperBatchError | None = None
        reset_after_fork(self)

    def _after_fork(self) -> None:
        """End without a result: the threads are in the parent. See `threads.Inheritable`."""
        self._changed = Changes()
        self._result = self._result or EngineError(
            "the recording was submitted before a fork, and its threads are in the parent process; "
            "submit the recording in the process that needs the result"
        )

    def __repr__(self) -> str:
        if isinstance(self._result, Transcript):
            return description(self, "done", repr(self._result))
        if self._result is not None:
            return description(self, "failed", brief(str(self._result)))
        state = "waiting" if self._active_since is None else f"at {self.position:.1f} s"
        return description(self, state)

    @property
    def done(self) -> bool:
        """Whether the recording has ended: with a transcript, with an error, or cancelled."""
        return self._result is not None

    @property
    def position(self) -> float:
        """End of the audio that is transcribed, in seconds from the start of the recording."""
        if isinstance(self._result, Transcript):
            return self._result.duration
        return self._segments[-1].end if self._segments else 0.0

    @property
    def waited(self) -> float:
        """Seconds that the recording waited for its place; until now, if it waits."""
        end = self._active_since
        return (time.monotonic() if end is None else end) - self._submitted

    def result(self, timeout: float | None = None) -> Transcript:
        """Wait for the end of the recording and return the transcript.

        Args:
            timeout: maximum time to wait, in seconds; None for no limit.

        Returns:
            The transcript; it has no segments if the recording has no speech.

        Raises:
            TimeoutError: the recording has not ended within `timeout`.
            ClosedError: the recording was cancelled, or the Transcriber was closed.
            AudioError: the recording cannot be read.
            EngineError: the engine failed on rows of this recording.
            MissingExtraError: the package that an option needs is not installed.
            OptionError: an option does not fit the recording.
            InternalError: an unexpected exception, which is a bug.
        """
        with self._changed.condition:
            self._changed.condition.wait_for(lambda: self._result is not None, timeout)
        if self._result is None:
            raise TimeoutError(f"the recording has not ended within {timeout:g} s")
        if isinstance(self._result, WhisperBatchError):
            raise self._result.with_traceback(None)  # of the call before
        return self._result

    def cancel(self) -> None:
        """Stop the work on the recording. `result` then raises ClosedError. Safe to call twice."""
        if not self.done:
            call_apart(self._cancel)

    def _cancel(self) -> None:
        self._end(ClosedError("the recording was cancelled"))
        run, self._run, self._source = self._run, None, None
        place, self._place = self._place, _NOWHERE
        if run:
            run.stop()
        place.leave()

    def __iter__(self) -> Iterator[Segment]:
        return iterate(self._all_segments(), "a Submission")

    def _all_segments(self) -> Iterator[Segment]:
        position = 0
        while (segment := self._segment(position)) is not None:
            yield segment
            position += 1

    async def __aiter__(self) -> AsyncIterator[Segment]:
        position = 0
        while True:
            await self._changed.until(lambda: self._has(position))  # noqa: B023 - called in this pass only
            if (segment := self._segment(position)) is None:
                return
            yield segment
            position += 1

    def __await__(self) -> Generator[Any, None, Transcript]:
        return self._await_result().__await__()

    async def _await_result(self) -> Transcript:
        await self._changed.until(lambda: self.done)
        return self.result()

    def _has(self, position: int) -> bool:
        return position < len(self._segments) or self.done

    def _segment(self, position: int) -> Segment | None:
        """Wait for a segment; return None after the last, or raise the error of the recording."""
        with self._changed.condition:
            self._changed.condition.wait_for(lambda: self._has(position))
            if position < len(self._segments):
                return self._segments[position]
        self.result()
        return None

    def _length(self) -> float | None:
        """Return the length of the recording in seconds; None if it is not known."""
        source = self._source
        try:
            return source.measure() if source else None
        except BaseException:  # noqa: BLE001 - raised again when the recording is opened
            return None

    def _collect(self) -> None:
        """Transcribe the recording, in the thread of this submission.

        If the recording must wait for another place, the result is not known at the end. The next
        call begins again, and skips the segments that are known.
        """
        if (run := self._run) is None:  # cancelled
            return
        self._active_since = self._active_since or time.monotonic()
        must_wait = False
        known = len(self._segments)
        try:
            with closing(segments_and_transcripts(run.results())) as items:
                for number, (_, item) in enumerate(items):
                    if not isinstance(item, Segment):
                        self._end(item)
                    elif number >= known:
                        self._add(item)
                        must_wait = not self._place.keep(item.end)
                    if must_wait:
                        break
            if must_wait and self._source and self._source.begin_again:
                self._run = self._source.begin_again()
        except Exception as error:  # noqa: BLE001 - raised by `result`
            self._end(as_error(error, None))
        except BaseException as error:  # noqa: BLE001 - SystemExit of a source, for example
            stopped = ClosedError(f"the recording was stopped by {type(error).__name__}")
            stopped.__cause__ = error
            self._end(stopped)
        finally:
            if self.done:
                self._run, self._source, self._place = None, None, _NOWHERE

    def _add(self, segment: Segment) -> None:
        with self._changed.condition:
            if not self.done:
                self._segments.append(segment)
                self._changed.notify()

    def _end(self, result: Transcript | WhisperBatchError) -> None:
        with self._changed.condition:
            if self._result is None:
                self._result = result
                self._active_since = self._active_since or time.monotonic()
                self._changed.notify()


@dataclass(frozen=True, slots=True)
class Submitted:
    """The recordings of a Transcriber that were submitted and have not ended.

    Attributes:
        active: number of recordings that are read and decoded.
        waiting: number of recordings that wait for a place.
        long_active: number of the active recordings that are not known to be short.
        long_waiting: number of the waiting recordings that are not known to be short.
        places: number of recordings that can be active.
        long_wait: seconds that a long recording would wait for a place, estimated from the lengths
            of the long recordings and the speed of the last minutes; 0 if one can start now, or the
            speed is not known.
    """

    active: int
    waiting: int
    long_active: int
    long_waiting: int
    places: Places
    long_wait: float

    @property
    def has_long_place(self) -> bool:
        """Whether another long recording can start now."""
        return has_long_place(self.places, self.long_active, self.long_waiting)


@dataclass(eq=False)
class _Entry(_Place):
    """A submission that waits or is active.

    Attributes:
        of: the submissions.
        submission: the submission.
        group: the groups take places in turn.
        weight: share of the places, relative to the weights of other groups.
        number: in the order of the calls of `submit`.
        can_begin_again: whether the recording can be read again.
        length: as measured, in seconds; None before, or if it is not known.
        position: end of the audio that is transcribed, in seconds.
        counted: seconds that were counted for the group when the recording took its place.
    """

    of: "Submissions"
    submission: Submission
    group: Hashable
    weight: float
    number: int
    can_begin_again: bool
    length: float | None = None
    position: float = 0.0
    counted: float = 0.0

    @property
    def is_short(self) -> bool:
        """Whether the recording is known to be short, and is not longer than its header states."""
        return is_short(self.length) and self.position <= SHORT

    @property
    def expected(self) -> float:
        """Length in seconds; a guess if the length is not known."""
        return max(self.length or UNKNOWN, self.position)

    def keep(self, position: float) -> bool:
        """See `_Place`."""
        return self.of.advance(self, position)

    def leave(self) -> None:
        """See `_Place`."""
        self.of.discard(self)


class _Speed:
    """Seconds of audio that are transcribed in a second, over the last minutes of work.

    Not thread-safe.
    """

    def __init__(self) -> None:
        self._audio = self._time = 0.0  # each second counts half of a second HALF_LIFE later
        self._since: float | None = None  # None while there is no work

    def update(self, *, working: bool, audio: float = 0.0) -> None:
        """Count audio, and the time since the last call.

        Args:
            working: whether there is work from now on.
            audio: seconds that have been transcribed.
        """
        now = time.monotonic()
        if self._since is not None:
            elapsed = now - self._since
            kept = 0.5 ** (elapsed / HALF_LIFE)
            self._audio, self._time = self._audio * kept, self._time * kept + elapsed
        self._audio += audio
        self._since = now if working else None

    def seconds_for(self, audio: float) -> float:
        """Return the seconds that audio takes; 0 if the speed is not known."""
        if self._time < KNOWN_AFTER or not self._audio:
            return 0.0
        return audio * self._time / self._audio


class _Line:
    """Entries that wait for a place. Not thread-safe.

    The next entry is that of the group that has had least audio, divided by its weight (start-time
    fair queueing, as in `scheduling.call_queue`).
    """

    def __init__(self) -> None:
        self._groups: dict[Hashable, deque[_Entry]] = {}
        self._had: dict[Hashable, float] = {}  # of groups that have had more than `_clock`
        self._clock = 0.0  # what the group had that was next last

    def __iter__(self) -> Iterator[_Entry]:
        return (entry for entries in self._groups.values() for entry in entries)

    def __len__(self) -> int:
        return sum(map(len, self._groups.values()))

    def add(self, entry: _Entry, *, first: bool = False) -> None:
        """Add an entry: as the last of its group, or as the first."""
        group = self._groups.setdefault(entry.group, deque())
        (group.appendleft if first else group.append)(entry)

    def discard(self, entry: _Entry) -> None:
        """Remove an entry, if it is in the line."""
        entries = self._groups.get(entry.group, deque())
        if entry in entries:
            entries.remove(entry)
        if not entries:
            self._groups.pop(entry.group, None)

    def take(self) -> _Entry | None:
        """Remove and return the entry that is next; None if there is none."""
        if not self._groups:
            return None
        heads = [entries[0] for entries in self._groups.values()]
        entry = min(heads, key=lambda head: (self._had_by(head.group), head.number))
        self._clock = had = self._had_by(entry.group)
        self._had = {group: seconds for group, seconds in self._had.items() if seconds > had}
        entry.counted = (entry.length or SHORT) / entry.weight
        self._had[entry.group] = had + entry.counted
        self.discard(entry)
        return entry

    def count_rest(self, entry: _Entry) -> None:
        """Count the audio of an ended entry that was longer or shorter than its known length."""
        if entry.counted and entry.group in self._had:
            self._had[entry.group] += entry.position / entry.weight - entry.counted

    def audio_before(self, group: Hashable) -> float:
        """Return the seconds of the entries that come before a new entry of a group."""
        seconds = {
            each: sum(entry.expected for entry in entries) for each, entries in self._groups.items()
        }
        own = seconds.get(group, 0.0)
        return sum(min(each, own) for each in seconds.values())

    def _had_by(self, group: Hashable) -> float:
        return self._had.get(group, self._clock)


class Submissions:
    """The submissions of a Transcriber: the active ones, and those that wait. Thread-safe.

    Args:
        places: number of active recordings.
    """

    def __init__(self, places: Places) -> None:
        self._places = places
        self._unmeasured: deque[_Entry] = deque()
        self._measured: dict[_Entry, threading.Thread | None] = {}  # now, each by its thread
        self._short, self._long = _Line(), _Line()
        self._active: dict[_Entry, threading.Thread] = {}
        self._numbers = count()
        self._speed = _Speed()
        self._changed = threading.Condition()
        self._closed = False
        stop_at_exit(self)

    def counts(self, group: Hashable = None) -> Submitted:
        """Return the numbers of the recordings that have not ended.

        Args:
            group: the wait is that of a new recording of this group.
        """
        with self._changed:
            waiting = len(self._unmeasured) + len(self._measured) + len(self._long)
            active = [entry for entry in self._active if not entry.is_short]
            self._speed.update(working=bool(self._active))
            audio = self._long.audio_before(group)
            audio += sum(entry.expected for entry in (*self._unmeasured, *self._measured))
            first = min((entry.expected - entry.position for entry in active), default=0.0)
            has_place = has_long_place(self._places, len(active), waiting)
            return Submitted(
                active=len(self._active),
                waiting=waiting + len(self._short),
                long_active=len(active),
                long_waiting=waiting,
                places=self._places,
                long_wait=0.0
                if has_place
                else self._speed.seconds_for(audio + first * len(active)),
            )

    def stop_at_exit(self) -> None:
        """Cancel all submissions. See `threads.Stoppable`."""
        for submission in self._take_all():
            submission._cancel()  # noqa: SLF001 - of the same module

    def add(
        self,
        run: PipelineRun,
        source: SubmittedSource | None = None,
        group: Hashable = None,
        weight: float = 1.0,
    ) -> Submission:
        """Start a run, or let it wait for a place.

        Args:
            run: of one recording.
            source: what is known about the recording.
            group: the groups take places in turn.
            weight: share of the places, relative to other groups.

        Raises:
            ClosedError: the submissions are closed.
        """
        source = source or SubmittedSource()
        submission = Submission(run, source)
        with self._changed:
            if self._closed:
                raise ClosedError("this Transcriber is closed; load the model again")
            entry = _Entry(
                self, submission, group, weight, next(self._numbers), source.begin_again is not None
            )
            submission._place = entry  # noqa: SLF001 - of the same module
            self._unmeasured.append(entry)
            self._start()
        return submission

    def advance(self, entry: _Entry, position: float) -> bool:
        """Note how much of a recording is transcribed. Return whether it keeps its place."""
        with self._changed:
            was_short = entry.is_short
            audio = max(position - entry.position, 0.0)
            entry.position += audio
            self._speed.update(working=True, audio=audio)
            if entry.is_short or not was_short or not entry.can_begin_again:
                return True
            long = sum(not each.is_short for each in self._active)
            return long <= self._places.long and not self._long

    def discard(self, entry: _Entry) -> None:
        """Forget an entry that waits."""
        with self._changed:
            for line in (self._short, self._long):
                line.discard(entry)
            if entry in self._unmeasured:
                self._unmeasured.remove(entry)

    def close(self) -> None:
        """Cancel all submissions, and wait until their threads have ended."""
        cancelled = self._take_all()
        with self._changed:
            threads = list(self._active.values())
            measuring = [thread for thread in self._measured.values() if thread]
        for submission in cancelled:
            submission.cancel()
        for thread in threads:
            if thread is not threading.current_thread():
                thread.join()
        for thread in measuring:  # a file object of the user may not answer
            if thread is not threading.current_thread():
                thread.join(JOIN_TIMEOUT)

    def _take_all(self) -> list[Submission]:
        """Accept no more submissions; return those that have not ended. None of them starts."""
        with self._changed:
            self._closed = True
            waiting = [*self._measured, *self._unmeasured, *self._short, *self._long]
            self._unmeasured.clear()
            self._short, self._long = _Line(), _Line()
            return [entry.submission for entry in (*waiting, *self._active)]

    def _start(self) -> None:
        """Start submissions while there are places, and measure those that have to wait."""
        while not self._closed and (entry := self._next()):
            try:
                thread = in_background(partial(self._transcribe, entry))
            except RuntimeError as error:  # the system gives no more threads
                if self._active:  # when one of them ends, there is a thread
                    self._line_of(entry).add(entry, first=True)
                    return
                entry.submission._end(as_error(error, None))  # noqa: SLF001 - of the same module
            else:
                self._active[entry] = thread
                self._speed.update(working=True)
        while self._unmeasured and len(self._measured) < MEASURED:
            self._start_measuring(self._unmeasured.popleft())

    def _next(self) -> _Entry | None:
        """Remove and return the entry that has a place and is next; None if there is none."""
        if len(self._active) >= self._places.all:
            return None
        short = sum(entry.is_short for entry in self._active)
        long = len(self._active) - short
        if long < self._places.long and (entry := self._long.take()):
            return entry
        kept = self._places.long if self._long else 0  # for long recordings that wait
        if short < self._places.all - kept and (entry := self._short.take()):
            return entry
        if long < self._places.long and self._unmeasured:
            return self._unmeasured.popleft()
        return None

    def _line_of(self, entry: _Entry) -> _Line:
        return self._short if entry.is_short else self._long

    def _start_measuring(self, entry: _Entry) -> None:
        """Measure an entry in another thread. It waits until its length, or its end, is known."""
        self._measured[entry] = None
        try:
            thread = in_background(partial(self._measure, entry), "whisperbatch-length")
        except RuntimeError:  # the system gives no more threads
            del self._measured[entry]
            self._long.add(entry)
        else:
            if entry in self._measured:
                self._measured[entry] = thread

    def _measure(self, entry: _Entry) -> None:
        length = entry.submission._length()  # noqa: SLF001 - of the same module
        with self._changed:
            entry.length = length
            del self._measured[entry]
            if not self._closed and not entry.submission.done:
                self._line_of(entry).add(entry)
            self._start()

    def _transcribe(self, entry: _Entry) -> None:
        submission = entry.submission
        try:
            if not submission.done:
                submission._collect()  # noqa: SLF001 - of the same module
        finally:
            with self._changed:
                del self._active[entry]
                self._speed.update(working=bool(self._active))
                if submission.done:
                    entry.position = max(entry.position, submission.position)
                    self._short.count_rest(entry)
                    self._long.count_rest(entry)
                elif not self._closed:  # it has no place any more
                    entry.length = None
                    self._long.add(entry)
                self._start()


def has_long_place(places: Places, active: int, waiting: int) -> bool:
    """Return whether another long recording can start, beside those that are active and wait."""
    return not waiting and active < places.long


def is_short(length: float | None) -> bool:
    """Return whether a recording of this length, in seconds, may take any place."""
    return length is not None and length <= SHORT
