"""A live session: audio is fed while people speak, and text comes back.

    feed ──> detector, turns (`ear`)       the thread of the caller: about 1 ms for 100 ms of audio
                 │ parts, newest audio
                 ▼
    partial and final texts (`decoding`)   a thread of the session; the engine is shared
                 │ settled words (`settling`)
                 ▼
    events ──> for event in session        threads and tasks of the caller

The thread of the session computes one row at a time, final texts first. A partial text that waits
for the engine is replaced by one of newer audio, so that a busy machine gives fewer partial
texts, not older ones.
"""

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Callable, Hashable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np
import numpy.typing as npt

from whisperbatch.audio.reader import AudioReader
from whisperbatch.audio.resampling import mixed
from whisperbatch.boundary import as_error
from whisperbatch.decoding.engine_options import options_for
from whisperbatch.errors import BacklogError, ClosedError, EngineError, WhisperBatchError
from whisperbatch.live.decoding import FinalText, LiveDecoder
from whisperbatch.live.ear import Began, Ear, Ended, Heard, Part, Spoken
from whisperbatch.live.events import (
    Failed,
    Lag,
    LiveEvent,
    Settled,
    Tail,
    TurnEnded,
    TurnStarted,
)
from whisperbatch.live.events import Final as FinalEvent
from whisperbatch.live.settings import LiveSettings, changed
from whisperbatch.live.settling import PartText
from whisperbatch.live.source import SampleInput
from whisperbatch.options import Options
from whisperbatch.scheduling import RunShare, Scheduler, SharedModel, WithdrawnError
from whisperbatch.segmentation.timed_text import AlignedWord
from whisperbatch.text import description
from whisperbatch.text.sentences import ends_sentence
from whisperbatch.threads import (
    Cancellable,
    Changes,
    Lock,
    in_background,
    reset_after_fork,
    stop_at_exit,
)
from whisperbatch.types import (
    SAMPLING_RATE,
    Chunk,
    Explained,
    Samples,
    SpeechSpan,
    Word,
    to_samples,
    to_seconds,
)
from whisperbatch.vad.levels import FRAME

log = logging.getLogger(__name__)

MIN_SPEECH: Final = to_samples(0.6)  # samples of speech before the first partial text of a part
MIN_NEW: Final = to_samples(0.3)  # samples of new audio before the next partial text
READ_AHEAD: Final = 5.0  # seconds of lag at which a recording is not read further
MAX_WINDOW: Final = to_samples(9.0)  # samples of a partial text; then the window moves on
KEPT_WINDOW: Final = to_samples(4.0)  # samples that stay in the window, with settled words
LIVE_SHARE: Final = 0.8  # of the engine, for all live sessions, beside one run over recordings
LIMIT: Final = to_samples(29.0)  # samples of a partial text of which nothing is settled
PATIENCE: Final = 0.5  # seconds in the queue, after which a partial row gets newer audio
REPORTED_LAG: Final = 3.0  # seconds from which a lag is reported
MAX_GROUPS: Final = 1000  # whose virtual times are known
CAUGHT_UP: Final = 1.0  # seconds below which the lag has ended


class LiveSession(Cancellable, Explained):
    """A live session. Thread-safe. `Transcriber.live` returns a LiveSession.

    Iterate with `for` or `async for`: the events come in order, and end after `close` and the last
    `Final`. Each event is given once, also to several threads. At the end of a `with` or
    `async with` block, the session is cancelled, if it has not ended.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        share: RunShare,
        settings: LiveSettings,
        options: Options,
        *,
        reader: AudioReader | None = None,
        at_end: Callable[["LiveSession"], None] = lambda _: None,
    ) -> None:
        self._scheduler, self._share, self._at_end = scheduler, share, at_end
        self._settings, self._options = settings, options
        self._completed = options_for(scheduler.engine, options)
        scheduler.engine.check(self._completed.search)
        self._changed = Changes()
        self._input = SampleInput(options.sampling_rate or SAMPLING_RATE)
        self._ear = Ear(self._completed, settings.rule)
        self._events: deque[LiveEvent] = deque()
        self._parts: deque[Part] = deque()
        self._closing = self._ended = self._stopped = self._is_idle = False
        self._error: WhisperBatchError | None = None
        # for the next turn: settings, options as given, and completed for the model
        self._pending: tuple[LiveSettings, Options, Options] | None = None
        # of the thread of the session
        self._decoder = LiveDecoder(SharedModel(scheduler, share, self._completed), self._completed)
        self._applied = self._completed
        self._text = PartText()
        self._turn = -1  # whose text was settled last
        self._language: str | None = None  # of the turn, once it is decided
        self._tail = ""
        self._start = self._covered = 0  # of the window; and the sample up to which text is known
        self._early: tuple[tuple[SpeechSpan, ...], FinalText | None] | None = None
        self._reported = 0.0  # the last lag
        reset_after_fork(self)
        self._thread = in_background(self._run, "whisperbatch-live", waits=False)
        if reader:
            in_background(partial(self._read, reader), "whisperbatch-live-reader")

    def _after_fork(self) -> None:
        """End the session: its thread is in the parent. See `threads.Inheritable`."""
        self._changed, self._ended, self._closing = Changes(), True, True
        self._error = EngineError(
            "the session was opened before a fork, and its thread is in the parent process; open "
            "a session in the process that needs the text"
        )

    def __repr__(self) -> str:
        state = "ended" if self._ended else "closing" if self._closing else "open"
        return description(self, state, f"{self.duration:.1f} s")

    @property
    def duration(self) -> float:
        """Seconds of audio that were fed."""
        return to_seconds(self._ear.end)

    @property
    def lag(self) -> float:
        """Seconds since the end of the oldest turn without its final text.

        If all final texts are known: seconds since the oldest speech without any text.
        """
        with self._changed.condition:
            return self._lag()

    @property
    def options(self) -> Options:
        """The options of the next turn, as they were given."""
        return (self._pending or (self._settings, self._options))[1]

    @property
    def settings(self) -> LiveSettings:
        """The settings of the next turn."""
        return (self._pending or (self._settings, self._options))[0]

    def feed(
        self,
        samples: bytes | npt.NDArray[np.float32] | npt.NDArray[np.int16],
        *,
        timeout: float | None = 0.0,
    ) -> None:
        """Add the next audio. Text is decoded by a thread of the session.

        Args:
            samples: mono, shape (n_samples,), at `sampling_rate`; bytes are 16-bit PCM, little
                endian. A sample that is divided between two calls is joined.
            timeout: seconds to wait while the session is more than `max_lag` behind; None: without
                a limit. The default does not wait, and returns soon: for a microphone.

        Raises:
            AudioError: the samples are not finite numbers, or have another shape or type. They are
                not added.
            BacklogError: more than `max_lag` seconds still wait for their final text. The audio was
                not added.
            EngineError: the voice activity detector failed.
            ClosedError: the session was closed or cancelled, perhaps while this call waited.
        """
        with self._changed.condition:
            takes_audio = self._changed.condition.wait_for(self._takes_audio, timeout)
            self._check_open()
            if not takes_audio:
                raise BacklogError(
                    f"{self._backlog:.0f} s of audio wait for their text, more than `max_lag`="
                    f"{self._settings.max_lag:g}; the machine is too slow for this model, or has "
                    "other work"
                )
            self._push(self._input.push(samples, self.duration))

    async def feed_async(
        self,
        samples: bytes | npt.NDArray[np.float32] | npt.NDArray[np.int16],
        *,
        timeout: float | None = 0.0,
    ) -> None:
        """As `feed`, for a task of an event loop. While it waits, it takes no thread.

        Args:
            samples: see `feed`.
            timeout: see `feed`.

        Raises:
            AudioError: see `feed`, also for the other exceptions.
            BacklogError: the session is too far behind.
            EngineError: the voice activity detector failed.
            ClosedError: the session was closed or cancelled.
        """
        with suppress(asyncio.TimeoutError):  # then `feed` raises
            await asyncio.wait_for(self._changed.until(self._takes_audio), timeout)
        await asyncio.to_thread(self.feed, samples)

    def _read(self, reader: AudioReader) -> None:
        """Feed an open recording or live address, and close at its end.

        Reading waits while the text is far behind, so that a file is not read faster than its text
        is decoded. An error of the recording ends the session after the text before. The channels
        are averaged.
        """
        error: WhisperBatchError | None = None
        try:
            for block in reader.channels():
                with self._changed.condition:
                    self._changed.condition.wait_for(
                        lambda: self._closing or self._lag() < READ_AHEAD
                    )
                    if self._closing:
                        break
                    self._push([mixed(block)])
        except Exception as failure:  # noqa: BLE001 - raised where the events are read
            error = as_error(failure, reader.name)
        finally:
            reader.close()
            with self._changed.condition:
                self._error = self._error or error
            self.close()

    def flush(self) -> int | None:
        """End the current turn now, without waiting for a pause. Does nothing between two turns.

        Returns:
            Number of the turn; None between two turns.

        Raises:
            ClosedError: the session was closed or cancelled.
        """
        with self._opened():
            return self._hear(self._ear.flush())

    def clear(self) -> int | None:
        """Forget the audio of the current turn: it ends without a final text.

        Returns:
            Number of the turn; None between two turns.

        Raises:
            ClosedError: the session was closed or cancelled.
        """
        with self._opened():
            return self._hear(self._ear.clear())

    def update(self, **changes: object) -> None:
        """Change settings and options. They hold from the next turn on.

        Args:
            **changes: as the keywords of `Transcriber.live`, except `sampling_rate`. What is not
                given stays.

        Raises:
            OptionError: as `Transcriber.live`; nothing is changed.
            ClosedError: the session was closed or cancelled.
        """
        settings, options = changed(self.settings, self.options, changes)
        completed = options_for(self._scheduler.engine, options)
        self._scheduler.engine.check(completed.search)
        with self._opened():
            self._pending = settings, options, completed
            if self._ear.turn is None:
                self._configure()

    def close(self) -> None:
        """End the audio. The text of the last turn still comes. Safe to call twice.

        Raises:
            EngineError: the voice activity detector failed.
        """
        with self._changed.condition:
            if self._closing:
                return
            self._push([*self._input.flush(), np.zeros(-self._ear.end % FRAME, np.float32)])
            self._hear(self._ear.flush())
            self._closing = True
            self._changed.notify()

    def cancel(self, error: WhisperBatchError | None = None) -> None:
        """End the session without further text; waiting work is dropped. Safe to call twice.

        Args:
            error: raised where the events are read; None: the events end.
        """
        with self._changed.condition:
            self._error = self._error or error
            self._closing = self._stopped = True
            self._parts.clear()
            self._changed.notify()
        self._scheduler.abandon(self._share)

    def __iter__(self) -> Iterator[LiveEvent]:
        while True:
            with self._changed.condition:
                self._changed.condition.wait_for(self._has_event)
                if (event := self._next_event()) is None:
                    return
            yield event

    async def __aiter__(self) -> AsyncIterator[LiveEvent]:
        while True:
            await self._changed.until(self._has_event)
            with self._changed.condition:
                if not self._has_event():
                    continue
                if (event := self._next_event()) is None:
                    return
            yield event

    def _has_event(self) -> bool:
        return bool(self._events) or self._ended

    def _next_event(self) -> LiveEvent | None:
        """Return the next event; None at the end. The lock is held."""
        if self._events:
            return self._events.popleft()
        if self._error:
            raise self._error.with_traceback(None)
        return None

    @property
    def _backlog(self) -> float:
        """Seconds of audio that wait for their final text. The lock is held."""
        return to_seconds(self._ear.end - self._parts[0].start) if self._parts else 0.0

    def _takes_audio(self) -> bool:
        """Return whether nothing is gained by a wait before audio is fed. The lock is held."""
        return self._closing or self._backlog <= self._settings.max_lag

    @contextmanager
    def _opened(self) -> Iterator[None]:
        """Hold the lock of a session that is open."""
        with self._changed.condition:
            self._check_open()
            yield

    def _check_open(self) -> None:
        if self._error:
            raise self._error.with_traceback(None)
        if self._closing:
            raise ClosedError("the session was closed; open another session")

    def _emit(self, event: LiveEvent) -> None:
        """Add an event. A tail that nobody has read is replaced. The lock is held."""
        last = self._events[-1] if self._events else None
        if isinstance(event, Tail) and isinstance(last, Tail) and last.turn == event.turn:
            self._events.pop()
        self._events.append(event)
        self._changed.notify()

    # ------------------------------------------------- the thread that feeds; the lock is held

    def _push(self, blocks: Iterable[Samples]) -> None:
        for samples in blocks:
            self._hear(self._ear.push(samples))
        self._report_lag()
        if self._ear.turn is not None:
            self._changed.notify()

    def _hear(self, items: Iterable[Heard]) -> int | None:
        """Report what the audio shows; return the number of the turn that has ended, if any."""
        ended = None
        for item in items:
            if isinstance(item, Began):
                self._emit(TurnStarted(item.turn, to_seconds(item.start)))
            elif isinstance(item, Ended):
                start, end = to_seconds(item.start), to_seconds(item.end)
                self._emit(TurnEnded(item.turn, start, end))
                ended = item.turn
            else:
                self._parts.append(item)
                self._changed.notify()
        if self._pending and self._ear.turn is None:
            self._configure()
        return ended

    def _configure(self) -> None:
        """Apply the settings of the next turn."""
        if self._pending:
            self._settings, self._options, self._completed = self._pending
            self._pending = None
            self._ear.configure(self._completed, self._settings.rule)

    def _lag(self) -> float:
        oldest = self._ear.end
        if self._parts:
            oldest = self._parts[0].end
        elif self._settings.policy and (speech := self._ear.window(self._covered)):
            oldest = speech[0].start
        return to_seconds(self._ear.end - oldest)

    def _report_lag(self) -> None:
        lag = self._lag()
        if lag >= max(REPORTED_LAG, self._reported + 1):
            self._reported = lag
            self._emit(Lag(lag))
        elif self._reported and lag < CAUGHT_UP:
            self._reported = 0.0
            self._emit(Lag(0.0))

    # ------------------------------------------------------------- the thread of the session

    def _run(self) -> None:
        error: WhisperBatchError | None = None
        try:
            with self._scheduler.running(self._share):
                while (task := self._next_task()) is not None:
                    self._attempt(task)
        except ClosedError as closed:
            error = None if self._stopped else closed
        except Exception as unexpected:  # noqa: BLE001 - raised where the events are read
            error = as_error(unexpected, None)
        finally:
            with self._changed.condition:
                self._ended = self._closing = True
                self._error = self._error or error
                self._parts.clear()
                self._input.close()
                self._changed.notify()
            self._at_end(self)

    def _attempt(self, task: Callable[[], None]) -> None:
        """Work on a text. If a partial text fails, the final text of its part is still decoded."""
        try:
            task()
        except ClosedError:
            raise
        except Exception as error:  # noqa: BLE001 - `_finish` reports errors of final texts
            log.warning("a partial text of a live session failed: %s", as_error(error, None))
            with self._changed.condition:
                self._covered = self._ear.examined

    def _next_task(self) -> Callable[[], None] | None:
        """Wait for work: a final text, or newer audio for a partial text; None at the end."""
        with self._changed.condition:
            while not (self._stopped or (self._closing and not self._parts)):
                if (task := self._work()) is not None:
                    return task
                self._is_idle = True
                self._changed.notify()
                self._changed.condition.wait()
                self._is_idle = False
        return None

    def _work(self) -> Callable[[], None] | None:
        """Return the next work; None if more audio is needed."""
        return partial(self._finish, self._parts[0]) if self._parts else self._newest()

    def _wait_for_text(self) -> None:
        """Wait until the text of all audio is decoded as far as it can be. For measurements."""
        with self._changed.condition:
            self._changed.condition.wait_for(
                lambda: self._ended or (self._is_idle and self._work() is None)
            )

    def _newest(self) -> Callable[[], None] | None:
        """Return the work on the newest audio, if there is enough of it."""
        if self._ear.turn is None:
            return None
        speech_so_far = self._early[0] if self._early else None
        if (
            self._ear.is_paused
            and self._ear.spans != speech_so_far
            and self._scheduler.has_free_worker
            and (spoken := self._ear.paused())
        ):
            return partial(self._decode_early, self._ear.turn, spoken, self._completed)
        if self._settings.policy is None or self._ear.examined - self._covered < MIN_NEW:
            return None
        speech = self._ear.window(self._start)
        if not speech or speech[-1].end <= self._covered:
            return None
        if sum(span.length for span in speech) < MIN_SPEECH:
            return None
        return partial(
            self._decode_newest, self._ear.turn, self._window_chunk(speech), self._completed
        )

    def _window_chunk(self, speech: tuple[SpeechSpan, ...]) -> Chunk:
        end = self._ear.examined
        start = max(speech[0].start, end - LIMIT)
        inside = tuple(s for span in speech if (s := span.within(start, end)).length)
        samples = self._ear.copy(start, end)
        return Chunk(0, 0, (SpeechSpan(start, end),), inside, samples)

    def _decode_early(self, turn: int, spoken: Spoken, options: Options) -> None:
        """Decode a part in a pause, because its turn may end there."""
        self._apply(options)
        chunk = spoken.chunk
        self._early = chunk.speech, None
        with self._decoder.at(chunk.start):
            text = self._decoder.final(spoken)
        self._early = chunk.speech, text
        if text.words and ends_sentence(text.words[-1].text):
            with self._changed.condition:
                self._ear.note_sentence(chunk.speech[-1].end)
        if self._settings.policy is not None:
            progress = self._text.offer_pause(text.words)
            self._settle(turn, progress.words, text.language, progress.tail)
            with self._changed.condition:
                self._covered = max(self._covered, chunk.end)
                self._move_window(chunk.end)

    def _decode_newest(self, turn: int, chunk: Chunk, options: Options) -> None:
        """Decode the newest audio, and settle words."""
        self._apply(options)
        if (policy := self._settings.policy) is None:
            return
        row = self._decoder.newest(chunk)
        prefix = self._text.text_from(chunk.start)
        try:
            with self._decoder.replaceable(PATIENCE):
                if self._language is None:
                    self._language = self._decoder.detect(row)
                language = self._language or self._decoder.language
                words = self._decoder.partial(row, language, prefix) if language else ()
        except WithdrawnError:
            return
        end = chunk.end
        if words:
            progress = self._text.offer(words, prefix, end, policy)
            self._settle(turn, progress.words, language or "", progress.tail)
        with self._changed.condition:
            self._covered = max(self._covered, end)
            self._move_window(end)

    def _move_window(self, end: int) -> None:
        """Start the window later, at a settled word, when it is long."""
        if end - self._start <= MAX_WINDOW:
            return
        starts = [word.start for word in self._text.words if word.start > self._start]
        kept = [start for start in starts if start <= end - KEPT_WINDOW]
        if kept:
            self._start = kept[-1]

    def _finish(self, part: Part) -> None:
        """Decode a part, and report its final text."""
        self._apply(part.options)
        event: FinalEvent | Failed
        rest: tuple[AlignedWord, ...] = ()
        language = None
        try:
            if part.spoken is None:
                event = FinalEvent(part.turn, (), part.complete, None, 0.0)
            else:
                text = self._final(part.spoken)
                language = text.language
                rest = self._text.finish(text.words)
                segments = self._decoder.add(text)
                duration = to_seconds(part.spoken.chunk.length)
                event = FinalEvent(part.turn, segments, part.complete, language, duration)
        except ClosedError:
            raise
        except Exception as error:  # noqa: BLE001 - fails this part only
            event = Failed(part.turn, as_error(error, None), part.complete)
        self._settle(part.turn, rest, language or "", "")
        with self._changed.condition:
            if self._parts and self._parts[0] is part:
                self._parts.popleft()
            self._emit(event)
            self._covered = max(self._covered, part.end)
            self._start = part.end
            self._text = PartText()
            self._early = None
            if part.complete:
                self._language = None
            self._report_lag()

    def _final(self, spoken: Spoken) -> FinalText:
        speech, text = self._early or ((), None)
        if text and speech == spoken.chunk.speech:
            return text
        with self._decoder.at(spoken.chunk.start):
            return self._decoder.final(spoken)

    def _settle(self, turn: int, words: tuple[AlignedWord, ...], language: str, tail: str) -> None:
        """Report settled words, and the text after them."""
        with self._changed.condition:
            if words:
                text = "".join(word.text for word in words)
                if turn != self._turn:
                    self._turn, text = turn, text.lstrip()
                shown = tuple(
                    Word(to_seconds(w.start), to_seconds(w.end), w.text, w.probability)
                    for w in words
                )
                self._emit(Settled(turn, text, shown, shown[0].start, shown[-1].end, language))
            if tail != self._tail or words:
                self._tail = tail
                self._emit(Tail(turn, tail))

    def _apply(self, options: Options) -> None:
        """Use the options of the turn that is worked on."""
        if options is not self._applied:
            self._decoder.configure(options)
            self._applied = options


class LiveSessions:
    """The open sessions of a Transcriber, and their shares of the engine. Thread-safe.

    All sessions together have `LIVE_SHARE` of a busy engine, beside one run over recordings. Groups
    divide it in the ratio of their largest weights, and the sessions of a group in the ratio of
    theirs: a client with many sessions takes nothing from another client. A new session continues
    where its group was: many short sessions do not each begin before the others.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._shares: dict[LiveSession, _Claim] = {}
        self._times: dict[Hashable, float] = {}  # virtual time of ended sessions, by group
        stop_at_exit(self)

    def open(
        self,
        scheduler: Scheduler,
        settings: LiveSettings,
        options: Options,
        reader: AudioReader | None,
        *,
        group: Hashable = None,
        weight: float = 1.0,
    ) -> LiveSession:
        """Return a new session.

        Args:
            scheduler: shares the engine.
            settings: of the session.
            options: of the final texts.
            reader: an open recording that the session reads; None if the caller feeds it.
            group: sessions of a group have one share together.
            weight: of the share.

        Raises:
            OptionError: the model cannot honour an option.
            ModelError: no installed package contains the weights of the voice activity detector.
        """
        with self._lock:  # the session may end at once
            claims = [claim for claim in self._shares.values() if claim.group == group]
            times = [self._times.get(group, 0.0), *(each.share.virtual_time for each in claims)]
            share = RunShare(virtual_time=max(times), interactive=True)
            session = LiveSession(
                scheduler, share, settings, options, reader=reader, at_end=self._end
            )
            self._shares[session] = _Claim(share, group, weight)
            self._weigh()
        return session

    def close(self) -> None:
        """End all sessions with a ClosedError."""
        for session in list(self._shares):
            session.cancel(ClosedError("the Transcriber was closed"))

    def stop_at_exit(self) -> None:
        """End all sessions. See `threads.Stoppable`."""
        for session in list(self._shares):
            session.cancel()

    def _end(self, session: LiveSession) -> None:
        with self._lock:
            if claim := self._shares.pop(session, None):
                ended = max(claim.share.virtual_time, self._times.pop(claim.group, 0.0))
                self._times[claim.group] = ended  # the last: this group ended last
                if len(self._times) > MAX_GROUPS:
                    del self._times[next(iter(self._times))]
            self._weigh()

    def _weigh(self) -> None:
        groups: dict[Hashable, list[float]] = {}
        for claim in self._shares.values():
            groups.setdefault(claim.group, []).append(claim.weight)
        all_weights = sum(max(weights) for weights in groups.values())
        for claim in self._shares.values():
            weights = groups[claim.group]
            of_group = max(weights) / all_weights * LIVE_SHARE / (1 - LIVE_SHARE)
            claim.share.weight = of_group * claim.weight / sum(weights)


@dataclass(frozen=True, slots=True)
class _Claim:
    """What a session may have of the engine; see `LiveSessions.open`."""

    share: RunShare
    group: Hashable
    weight: float
