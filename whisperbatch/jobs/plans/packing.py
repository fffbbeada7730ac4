"""Division of recordings into spans, and of spans into tasks.

recordings   a [==] b [=] c [===================================] d [===]
spans        a [==] b [=] c [===========][===========][=========] d [===]
tasks        0: c's first    1: c's second    2: c's third    3: d, a, b
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from whisperbatch.jobs.plans.format import PlannedSpan
from whisperbatch.types import SEARCH, SECTION, to_seconds

POINT: Final = to_seconds(SECTION)
"""Seconds from one nominal point to the next; the first is at 0."""

MAX_SPANS: Final = 500  # of a task: more would take long to list, and to repeat after a death


def divided(duration: float, longest: float) -> tuple[tuple[int, int | None], ...]:
    """Divide a recording at points into spans of about equal length.

    Args:
        duration: of the recording, in seconds; it may be a little wrong.
        longest: of a span, in seconds, at least `POINT`.

    Returns:
        The first point of each span, and the point after the span. The last span has None: it
        continues to the end of the recording, whatever its true duration is.
    """
    # the last point is found in the audio after its nominal position, or there is none
    points = max(-int(-(duration - to_seconds(SEARCH)) // POINT), 1)
    count = -(-points // max(int(longest // POINT), 1))
    bounds = [points * number // count for number in range(count + 1)]
    ends: list[int | None] = [*bounds[1:-1], None]
    return tuple(zip(bounds[:-1], ends, strict=True))


def span_duration(first: int, last: int | None, duration: float) -> float:
    """Return the seconds of a span of a recording with this duration."""
    end = duration if last is None else min(last * POINT, duration)
    return max(end - first * POINT, 0.0)


def packed(spans: Iterable[PlannedSpan], duration: float) -> Iterator[Sequence[PlannedSpan]]:
    """Yield the spans of each task, the longest first.

    Args:
        spans: of all recordings.
        duration: of a task, in seconds. A longer span is a separate task.
    """
    task: list[PlannedSpan] = []
    total = 0.0
    for span in sorted(spans, key=lambda span: (-span.duration, span.id)):
        if task and (total + span.duration > duration or len(task) == MAX_SPANS):
            yield task
            task, total = [], 0.0
        task.append(span)
        total += span.duration
    if task:
        yield task
