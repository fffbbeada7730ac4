"""When each cue is shown: as long as its text is read, if there is time.

    speech   [== one ==]   [= two =]    [======= three =======]
    shown    [=== one ===]·[== two ==]·[======= three ==========]
                          `- two frames

A cue lasts at least the reading time of its rules, and lingers after its speech. It ends before the
next cue begins: after a gap of two frames, or after a pause that is long enough to be seen. A cue
that is still too short may start a few frames before its speech, and the next cue may start a few
frames late. Cues stay in order and, but for speakers who talk at the same time, never overlap.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from whisperbatch.writers.rules import Rules

MILLISECONDS: Final = 1000


@dataclass(frozen=True, slots=True)
class Speech:
    """What a cue says. Times are in milliseconds.

    Attributes:
        start: of its speech, in order.
        end: of its speech, after `start`.
        width: columns of its text.
        words: number of its words.
        speaker: its speaker; empty if cues of all speakers follow each other.
        rules: for its language.
        least: the time that it is shown at least, also before a cue that follows at once.
    """

    start: int
    end: int
    width: int
    words: int
    speaker: str
    rules: Rules
    least: int = 0


def shown_times(spoken: Sequence[Speech], step: int, last: int) -> list[tuple[int, int]]:
    """Return when each cue is shown, as (start, end) in milliseconds.

    Args:
        spoken: the cues; those of a speaker do not overlap.
        step: all times are multiples of this many milliseconds.
        last: end of the recording in milliseconds; no cue lingers longer. 0 if it is not known.
    """
    cues = [_Cue(speech, step) for speech in spoken]
    for number, cue in enumerate(cues):
        cue.extend(_next_start(cues, number), last)
    if all(not speech.speaker for speech in spoken):
        for before, cue, after in zip((None, *cues), cues, (*cues[1:], None), strict=False):
            cue.borrow(before, after)
    return [(cue.start, cue.end) for cue in cues]


def _next_start(cues: "Sequence[_Cue]", number: int) -> int | None:
    """Return the start of the cue that must not begin before this cue ends; None for the last.

    A cue of another speaker may begin while this speaker talks, but not while the cue lingers.
    """
    speech = cues[number].speech
    later = map(cues.__getitem__, range(number + 1, len(cues)))
    following = (
        cue.start
        for cue in later
        if cue.speech.speaker == speech.speaker or cue.start >= speech.end
    )
    return next(following, None)


class _Cue:
    """A cue whose times are changed, within its rules."""

    def __init__(self, speech: Speech, step: int) -> None:
        self.speech = speech
        self.start, self.end = speech.start, speech.end
        self._step = step
        rules = speech.rules
        self._least = max(speech.least, step)
        self._gap = self._up(rules.gap)
        self.pause = self._up(rules.min_pause)
        self.sync = self._up(rules.sync)
        longest = rules.max_duration
        self.longest = math.inf if longest is None else self._up(longest)
        self.needed = self._up(rules.reading_time(speech.width, speech.words))

    def _up(self, seconds: float) -> int:
        """Return seconds in milliseconds, rounded up to a multiple of the step."""
        return math.ceil(round(seconds * MILLISECONDS / self._step, 6)) * self._step

    @property
    def _is_short(self) -> bool:
        return self.end - self.start < self.needed

    def extend(self, following: int | None, last: int) -> None:
        """Move the end, to at most the start of the following cue; `last` limits lingering."""
        rules = self.speech.rules
        if not rules.timed:
            return
        spoken = self.speech.end
        end = max(spoken + self._up(rules.linger), self.start + self.needed)
        if last:
            end = max(spoken, min(end, last // self._step * self._step))
        longest = self.start + self.longest
        end = int(min(end, longest))
        if following is not None:
            latest = max(following - self._gap, self.start + self._least)
            if following - end < self.pause:
                end = latest if latest <= longest else int(min(longest, following - self.pause))
        self.end = max(end, self.start + self._least)

    def borrow(self, before: "_Cue | None", after: "_Cue | None") -> None:
        """Lengthen a cue that is too short: start it before its speech, and the next cue later."""
        if not self._is_short:
            return
        room = self.start
        if before:
            room = self.start - self._gap - max(before.speech.end, before.start + before.needed)
        missing = self.needed - (self.end - self.start)
        early = max(min(self.sync, room, missing), 0)
        if before and before.end < self.start - early < before.end + before.pause:
            closed = self.start - early - self._gap
            early = early if closed - before.start <= before.longest else 0
        self.start -= early
        if before and early and self.start - before.end < before.pause:
            before.end = self.start - self._gap
        if after and self._is_short:
            spare = after.end - after.start - after.needed
            late = max(min(after.sync, spare, missing - early), 0)
            if late and after.start - self.end <= self._gap:
                after.start += late
                self.end += late
