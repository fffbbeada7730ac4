"""Where a segment is divided because another person speaks.

Turns and words have errors of a tenth of a second or more, so single words often get the wrong
speaker. In AMI, CallHome and VoxConverse, segments divided at every change of speaker had 1,482
words with a better speaker, but 310 with a worse one
(https://github.com/kaixxx/noScribe/pull/341). A segment is therefore divided only at clear changes:

    words     So you went there  and  it was closed?   [pause]  Yes.
    speaker   A  A   A    A      B    A  A   A                  B
    parts     [A                                   ]            [B ]
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from whisperbatch.types import to_samples

MIN_PAUSE: Final = to_samples(0.3)  # longer than the closure of a consonant, up to 0.2 s
MIN_UNITS: Final = 2  # a single word is often a word at the edge of a turn
MIN_DURATION: Final = to_samples(0.7)  # shorter parts are mostly errors: the measurement above


@dataclass(frozen=True, slots=True)
class Run:
    """Consecutive words with one speaker.

    Attributes:
        first: number of the first word.
        stop: number after the last word.
        start: start of the first word, in samples.
        end: end of the last word, in samples.
        times: samples during which each speaker speaks, by the number of the speaker, weighted by
            how probable it is that the words are theirs; the speaker of the first word comes first.
        spoken: samples that the words take.
        units: number of words; words that are written together count once.
    """

    first: int
    stop: int
    start: int
    end: int
    times: dict[int, float]
    spoken: int
    units: int = 1

    @property
    def speaker(self) -> int:
        """Who says most of the run; if two say as much, the first to speak."""
        return max(self.times, key=self.times.__getitem__)

    @property
    def is_long(self) -> bool:
        """Whether the run is long enough to be trusted."""
        return self.units >= MIN_UNITS and self.end - self.start >= MIN_DURATION

    def __add__(self, following: "Run") -> "Run":
        times = dict(self.times)
        for speaker, time in following.times.items():
            times[speaker] = times.get(speaker, 0) + time
        end = max(self.end, following.end)
        spoken, units = self.spoken + following.spoken, self.units + following.units
        return Run(self.first, following.stop, self.start, end, times, spoken, units)


def divide(units: Sequence[Run]) -> list[Run]:
    """Return the parts of a segment: neighbours have different speakers, and a clear change.

    A change is clear at a pause, or if both sides are long. At an unclear change, the shortest run
    is joined with its longer neighbour, until all changes are clear.

    Args:
        units: the words of the segment, in order; words that are written together are one unit.
    """
    runs = _joined(units)
    while unclear := _unclear(runs):
        beside = {number for change in unclear for number in (change - 1, change)}
        weak = min(
            (number for number in beside if not runs[number].is_long),
            key=lambda number: (runs[number].spoken, number),
        )
        changes = unclear & {weak, weak + 1}  # a change has the number of the run after it
        joined = max(changes, key=lambda change: (_other(runs, change, weak).spoken, -change))
        runs[joined - 1 : joined + 1] = [runs[joined - 1] + runs[joined]]
        runs = _joined(runs)
    return runs


def _unclear(runs: Sequence[Run]) -> set[int]:
    """Return the number of each run after an unclear change."""
    return {
        number
        for number, (before, after) in enumerate(pairwise(runs), 1)
        if after.start - before.end < MIN_PAUSE and not (before.is_long and after.is_long)
    }


def _other(runs: Sequence[Run], change: int, run: int) -> Run:
    """Return the neighbour of a run at a change."""
    return runs[change - 1] if change == run else runs[change]


def _joined(runs: Sequence[Run]) -> list[Run]:
    """Return runs in which neighbours have different speakers."""
    joined: list[Run] = []
    for run in runs:
        if joined and joined[-1].speaker == run.speaker:
            joined[-1] += run
        else:
            joined.append(run)
    return joined
