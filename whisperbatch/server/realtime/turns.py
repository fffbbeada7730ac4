"""The events of the server for what a live session reports.

    TurnStarted ──> speech_started                                not if the client ends the turns
    Settled ──────> delta                                         only text that stays
    Tail ─────────> tail                                          on request
    TurnEnded ────> speech_stopped, committed, item.added, item.done
    Final ────────> segment (on request), completed after the last part
    Failed ───────> failed after the last part

Each turn is an item. The item of a turn that was cleared is forgotten: no event names it any more.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import whisperbatch as wb
from whisperbatch.live import Failed, Lag, LiveEvent, Settled, Tail, TurnEnded, TurnStarted
from whisperbatch.live import Final as FinalText
from whisperbatch.server.errors import as_api_error
from whisperbatch.server.formats import joined, logprobs_of, segment_id
from whisperbatch.server.realtime import configuration
from whisperbatch.server.realtime.configuration import Configuration
from whisperbatch.server.realtime.protocol import CONTENT, Event, event, item_of, new_id

TurnEvent: TypeAlias = TurnStarted | Settled | Tail | TurnEnded | FinalText | Failed
TRANSCRIPTION: Final = "conversation.item.input_audio_transcription"


@dataclass(slots=True)
class _Item:
    """A turn.

    Attributes:
        id: of the item.
        segments: of the final text until now.
        seconds: of audio of the final text until now.
        language: of the last part with speech.
        error: of the first part that failed.
    """

    id: str = field(default_factory=lambda: new_id("item"))
    segments: list[wb.Segment] = field(default_factory=list)
    seconds: float = 0.0
    language: str | None = None
    error: wb.WhisperBatchError | None = None


class Turns:
    """Makes the events of a session.

    Attributes:
        configuration: of the session; may be replaced.
        ended: seconds of audio up to the end of the last turn.
    """

    def __init__(self) -> None:
        self.configuration = Configuration()
        self.ended = 0.0
        self._items: dict[int, _Item] = {}
        self._cleared = set[int]()
        self._previous: str | None = None

    def events_of(self, reported: LiveEvent, heard: float, padding: float) -> Iterator[Event]:
        """Yield the events for what a live session reports.

        Args:
            reported: by the session.
            heard: seconds of audio that the session has heard.
            padding: seconds that are added to speech at its end.
        """
        if isinstance(reported, Lag):
            if configuration.LAG in self.configuration.include:
                yield event(configuration.LAG, seconds=round(reported.seconds, 3))
            return
        yield from self._of_turn(reported, heard, padding)
        if isinstance(reported, FinalText | Failed) and reported.complete:
            self._cleared.discard(reported.turn)
            self._items.pop(reported.turn, None)

    def clear(self, turn: int) -> None:
        """Forget a turn that was cleared."""
        self._cleared.add(turn)

    def silence(self, seconds: float) -> Iterator[Event]:
        """Yield the events of audio without speech that the client has committed."""
        item = _Item(seconds=seconds)
        yield from self._committed(item)
        yield self._completed(item)

    def _of_turn(self, reported: TurnEvent, heard: float, padding: float) -> Iterator[Event]:
        if reported.turn in self._cleared:
            return
        item = self._items.setdefault(reported.turn, _Item())
        if isinstance(reported, TurnStarted):
            if self.configuration.turns is not None:
                yield event(
                    "input_audio_buffer.speech_started",
                    audio_start_ms=round(reported.start * 1000),
                    item_id=item.id,
                )
        elif isinstance(reported, Settled):
            details = self._details(reported.words)
            yield event(**_of(item, "delta"), delta=reported.text, **details)
        elif isinstance(reported, Tail):
            if configuration.TAIL in self.configuration.include:
                yield event(**_of(item, "tail"), text=reported.text)
        elif isinstance(reported, TurnEnded):
            yield from self._ended(item, reported, heard, padding)
        else:
            yield from self._final(item, reported)

    def _ended(
        self, item: _Item, reported: TurnEnded, heard: float, padding: float
    ) -> Iterator[Event]:
        self.ended = reported.end
        if (turns := self.configuration.turns) is not None:
            # OpenAI's time includes the silence that has ended the turn
            end = reported.end + max(turns.turn_silence - padding, 0.0)
            yield event(
                "input_audio_buffer.speech_stopped",
                audio_end_ms=round(max(min(end, heard), reported.end) * 1000),
                item_id=item.id,
            )
        yield from self._committed(item)

    def _committed(self, item: _Item) -> Iterator[Event]:
        before, self._previous = self._previous, item.id
        yield event("input_audio_buffer.committed", previous_item_id=before, item_id=item.id)
        for state in ("added", "done"):
            kind = f"conversation.item.{state}"
            yield event(kind, previous_item_id=before, item=item_of(item.id))

    def _final(self, item: _Item, reported: FinalText | Failed) -> Iterator[Event]:
        if isinstance(reported, Failed):
            item.error = item.error or reported.error
        else:
            item.segments += reported.segments
            item.seconds += reported.duration
            item.language = reported.language or item.language
            if configuration.SEGMENTS in self.configuration.include:
                for segment in reported.segments:
                    yield self._segment(item, segment)
        if not reported.complete:
            return
        if item.error is not None:
            yield event(**_of(item, "failed"), error=as_api_error(item.error).body["error"])
        else:
            yield self._completed(item)

    def _completed(self, item: _Item) -> Event:
        words = [word for segment in item.segments for word in segment.words or ()]
        return event(
            **_of(item, "completed"),
            transcript=joined(item.segments),
            usage={"type": "duration", "seconds": round(item.seconds, 3)},
            languages=[{"code": item.language}] if item.language else [],
            **self._details(words),
        )

    def _segment(self, item: _Item, segment: wb.Segment) -> Event:
        made = event(
            **_of(item, "segment"),
            id=segment_id(segment),
            start=segment.start,
            end=segment.end,
            text=segment.text,
            speaker=segment.speaker or "",
        )
        if configuration.WORDS in self.configuration.include:
            made["words"] = _words(segment.words or ())
        return made

    def _details(self, words: Iterable[wb.Word]) -> dict[str, Any]:
        """Return the fields about words that the client has asked for."""
        given, include = tuple(words), self.configuration.include
        details: dict[str, Any] = {}
        if configuration.LOGPROBS in include:
            details["logprobs"] = logprobs_of(given)
        if configuration.WORDS in include:
            details["words"] = _words(given)
        return details


def _of(item: _Item, kind: str) -> dict[str, Any]:
    """Return the first fields of an event about the transcription of an item."""
    return {"kind": f"{TRANSCRIPTION}.{kind}", "item_id": item.id, "content_index": CONTENT}


def _words(words: Sequence[wb.Word]) -> list[dict[str, Any]]:
    return [{"word": word.word, "start": word.start, "end": word.end} for word in words]
