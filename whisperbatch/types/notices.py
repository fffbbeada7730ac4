"""Notices: facts about a recording that its user must know. Time is in seconds."""

import logging
import threading
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final, Literal

NoticeKind = Literal["channels", "track", "time", "damaged", "incomplete", "no speech", "language"]

MERGED_GAP: Final = 1.0  # seconds between two ranges of the same notice that become one range

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Notice:
    """A fact about a range of a recording that its user must know.

    Kinds:
        "channels": the channels were not averaged, or speech on them may be lost.
        "track": another audio track was chosen, or may have the speech.
        "time": time stamps of the file contradict each other; times may be wrong.
        "damaged": audio that could not be decoded; silence replaces it.
        "incomplete": audio that the file states and that is missing.
        "no speech": sound without text.
        "language": the language is doubtful.

    Attributes:
        kind: see above.
        start: start of the range in seconds of the recording.
        end: end of the range; at least `start`.
        text: one line without times: the fact, and a remedy if there is one.
    """

    kind: NoticeKind
    start: float
    end: float
    text: str


class Notices:
    """The notices of one recording. Thread-safe.

    Args:
        source: name of the recording, for the log.
    """

    def __init__(self, source: str) -> None:
        self._source = source
        self._notices: tuple[Notice, ...] = ()
        self._lock = threading.Lock()

    def add(self, kind: NoticeKind, start: float, end: float, text: str) -> None:
        """Add a notice. The log has one warning for each kind and text.

        Args:
            kind: see `Notice`.
            start: in seconds of the recording.
            end: in seconds.
            text: one line without times, so that equal facts have equal texts.
        """
        with self._lock:
            is_new = not any((n.kind, n.text) == (kind, text) for n in self._notices)
            self._notices = merged((*self._notices, Notice(kind, start, end, text)))
        if is_new:
            place = f"from {start:.2f} to {end:.2f} s" if end > start else f"at {start:.2f} s"
            log.warning("%s: %s%s", self._source, text, f" ({place})" if end else "")

    def all(self) -> tuple[Notice, ...]:
        """Return the notices so far, in order of their starts."""
        return self._notices


def merged(notices: Iterable[Notice]) -> tuple[Notice, ...]:
    """Return notices in order of their starts; those that repeat each other become one.

    Two notices of the same kind and text are one notice if at most `MERGED_GAP` seconds lie between
    them. The result does not depend on the order of the notices.
    """
    found: list[Notice] = []
    latest: dict[tuple[str, str], int] = {}  # kind and text: index of the latest notice
    for notice in sorted(notices, key=lambda each: (each.start, each.end, each.kind, each.text)):
        index = latest.get((notice.kind, notice.text))
        if index is not None and notice.start <= found[index].end + MERGED_GAP:
            found[index] = replace(found[index], end=max(found[index].end, notice.end))
        else:
            latest[notice.kind, notice.text] = len(found)
            found.append(notice)
    return tuple(found)
