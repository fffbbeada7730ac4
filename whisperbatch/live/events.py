"""What a live session reports, in order.

    speech      ----[ hello ann how are you ]-----------[ fine ]---
    events        TurnStarted  Settled  Tail ... TurnEnded Settled Final

Times are seconds from the first sample that was fed. Every event names its turn, from 0.
"""

from dataclasses import dataclass, field
from typing import TypeAlias

from whisperbatch.errors import WhisperBatchError
from whisperbatch.types import Segment, Word


@dataclass(frozen=True, slots=True)
class TurnStarted:
    """Speech has begun.

    Attributes:
        turn: number of the turn.
        start: start of the speech, with its margin.
    """

    turn: int
    start: float


@dataclass(frozen=True, slots=True)
class TurnEnded:
    """Speech has ended: a pause followed, or `flush` was called. Its final text comes later.

    Attributes:
        turn: number of the turn.
        start: as in `TurnStarted`.
        end: end of the speech, with its margin.
    """

    turn: int
    start: float
    end: float


@dataclass(frozen=True, slots=True)
class Settled:
    """Text that is never taken back. The texts of a turn, joined, are the text of the turn.

    Attributes:
        turn: number of the turn.
        text: with the space before it, if any.
        words: the words of the text, with their times.
        start: start of the first word.
        end: end of the last word.
        language: code of the language.
    """

    turn: int
    text: str
    words: tuple[Word, ...] = field(repr=False)
    start: float
    end: float
    language: str


@dataclass(frozen=True, slots=True)
class Tail:
    """The text after the settled text, which may still change. It replaces the tail before it.

    Attributes:
        turn: number of the turn.
        text: with the space before it, if any; empty if no text follows the settled text.
    """

    turn: int
    text: str


@dataclass(frozen=True, slots=True)
class Final:
    """The final text of a turn, or of a part of a long turn.

    The text was decoded again with all options, and checked as in a recording. The text may
    differ from the settled text.

    Attributes:
        turn: number of the turn.
        segments: as in a transcript; the numbers continue through the session.
        complete: whether the turn has no further parts.
        language: code of the language; None without speech.
        duration: seconds of audio of the part.
    """

    turn: int
    segments: tuple[Segment, ...]
    complete: bool
    language: str | None
    duration: float

    @property
    def text(self) -> str:
        """The text of the segments, joined by spaces."""
        return " ".join(segment.text for segment in self.segments)


@dataclass(frozen=True, slots=True)
class Failed:
    """The final text of a part could not be decoded. The session goes on.

    Attributes:
        turn: number of the turn.
        error: the reason.
        complete: whether the turn has no further parts.
    """

    turn: int
    error: WhisperBatchError
    complete: bool


@dataclass(frozen=True, slots=True)
class Lag:
    """The session is behind the audio, or has caught up.

    Attributes:
        seconds: as `LiveSession.lag`; 0 after the session has caught up.
    """

    seconds: float


LiveEvent: TypeAlias = TurnStarted | TurnEnded | Settled | Tail | Final | Failed | Lag
