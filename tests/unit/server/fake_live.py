"""A live session that reports what a test says, and keeps what it was given."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from whisperbatch import BacklogError, OptionError, Segment, Transcriber, Word
from whisperbatch.live import Final, LiveEvent, Settled, TurnEnded, TurnStarted

LANGUAGES = {None, "en", "de", "ru", "zh"}


class FakeLive:
    """A session. Times are set by the test, not by the audio."""

    def __init__(self, **keywords: Any) -> None:
        check(keywords)
        self.keywords = keywords
        self._fed = bytearray()
        self.calls: list[str] = []
        self.duration = self.lag = 0.0
        self.open_turn: int | None = None
        self.feeding: BaseException | None = None  # raised by `feed`
        self._events: asyncio.Queue[LiveEvent | BaseException | None] = asyncio.Queue()

    @property
    def fed(self) -> bytes:
        """All samples, as 16-bit PCM."""
        return bytes(self._fed)

    def report(self, *events: LiveEvent | BaseException | None) -> None:
        """Report events; None ends the session, an exception is raised."""
        for event in events:
            if isinstance(event, TurnStarted):
                self.open_turn = event.turn
            if isinstance(event, TurnEnded):
                self.open_turn = None
            self._events.put_nowait(event)

    def feed(self, samples: Any) -> None:
        if self.feeding:
            raise self.feeding
        self._fed += samples if isinstance(samples, bytes) else samples.tobytes()
        rate = self.keywords["sampling_rate"]
        count = len(samples) // 2 if isinstance(samples, bytes) else len(samples)
        self.duration += count / rate

    async def feed_async(self, samples: Any, *, timeout: float = 0.0) -> None:
        end = time.monotonic() + timeout
        while isinstance(self.feeding, BacklogError) and time.monotonic() < end:  # noqa: ASYNC110 - a fake
            await asyncio.sleep(0.01)
        self.feed(samples)

    def flush(self) -> int | None:
        self.calls.append("flush")
        return self._end()

    def clear(self) -> int | None:
        self.calls.append("clear")
        return self._end()

    def update(self, **changes: Any) -> None:
        check(changes)
        self.keywords |= changes
        self.calls.append("update")

    def close(self) -> None:
        self.calls.append("close")
        self.report(*([final(self.open_turn, "Last.")] if self.open_turn is not None else []), None)

    def cancel(self) -> None:
        self.calls.append("cancel")

    async def __aiter__(self) -> AsyncIterator[LiveEvent]:
        while (event := await self._events.get()) is not None:
            if isinstance(event, BaseException):
                raise event
            yield event

    def _end(self) -> int | None:
        turn, self.open_turn = self.open_turn, None
        if turn is not None:
            self.report(TurnEnded(turn, 0.0, self.duration), final(turn, ""))
        return turn


def check(keywords: Any) -> None:
    """Refuse wrong options, as the real session does."""
    if keywords.get("language") not in LANGUAGES:
        raise OptionError(f"`language`={keywords['language']!r} is not a language of Whisper")
    if "vad" in keywords:
        raise OptionError("`vad` has no effect in a live session")
    if keywords.get("turn_silence", 0.5) < 0.1:
        raise OptionError("`turn_silence` must be at least 0.1")


def words(*texts: str, start: float = 0.0) -> tuple[Word, ...]:
    """Words of half a second each, with a probability of 1/2."""
    return tuple(
        Word(start + number / 2, start + number / 2 + 0.5, text, 0.5)
        for number, text in enumerate(texts)
    )


def settled(turn: int, *texts: str, start: float = 0.0) -> Settled:
    """Settled words."""
    made = words(*texts, start=start)
    return Settled(turn, "".join(texts), made, made[0].start, made[-1].end, "en")


def segment(number: int, *texts: str, language: str = "en", start: float = 0.0) -> Segment:
    """A segment with these words."""
    made = words(*texts, start=start)
    text = "".join(texts).strip()
    return Segment(
        id=number,
        start=start,
        end=start + len(texts) / 2,
        text=text,
        language=language,
        words=made,
        avg_logprob=-0.5,
        no_speech_prob=0.0,
        compression_ratio=1.0,
    )


def final(turn: int, text: str, *, complete: bool = True, duration: float = 1.5) -> Final:
    """A final text of one segment; none without a text."""
    segments = (segment(turn, text),) if text else ()
    return Final(turn, segments, complete, "en" if text else None, duration if text else 0.0)


@contextmanager
def fake_live(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[FakeLive]]:
    """Replace the live sessions; yields those that were opened."""
    opened: list[FakeLive] = []

    def live(_: Transcriber, **keywords: Any) -> FakeLive:
        session = FakeLive(**keywords)
        opened.append(session)
        return session

    with monkeypatch.context() as patch:
        patch.setattr(Transcriber, "live", live)
        yield opened


def pcm(seconds: float, rate: int = 24_000) -> bytes:
    """Samples of 16 bits."""
    return (np.arange(int(seconds * rate)) % 1000).astype("<i2").tobytes()
