"""The times of segments whose windows faster-whisper times, not their words.

Without word times, a segment of a clip has the clip's times, and text with a prefix starts with its
window. Here, segments have the times of their words.
"""

from collections.abc import Iterable, Iterator, Sequence

from whisperbatch.compat.faster_whisper._anomalies import with_next
from whisperbatch.compat.faster_whisper._results import Segment

Clip = tuple[float, float | None]


def with_clip_times(segments: Iterable[Segment], clips: Sequence[Clip]) -> Iterator[Segment]:
    """Yield the segments; the first of a clip starts with the clip, and the last ends with it.

    The iterator reads one segment ahead.

    Args:
        segments: one for each chunk, in order of time.
        clips: start and end in seconds; an end of None is the end of the recording.
    """
    last_clip: Clip | None = None
    for segment, following in with_next(segments):
        clip = _clip_of(segment, clips)
        if clip and clip is not last_clip:
            segment.start = clip[0]
        if clip and clip[1] is not None and not (following and _clip_of(following, [clip])):
            segment.end = clip[1]
        last_clip = clip
        yield segment


def _clip_of(segment: Segment, clips: Sequence[Clip]) -> Clip | None:
    """Return the clip with the segment's words."""
    middle = (segment.start + segment.end) / 2
    return next(
        (clip for clip in clips if clip[0] <= middle and (clip[1] is None or middle < clip[1])),
        None,
    )


def from_window_start(
    segments: Iterable[Segment], start: float, tolerance: float
) -> Iterator[Segment]:
    """Yield the segments; the first starts with the recording if it starts shortly after.

    Args:
        segments: in order of time.
        start: of the recording or its first clip, in seconds.
        tolerance: longest time between `start` and the first segment, in seconds.
    """
    iterator = iter(segments)
    for first in iterator:
        if first.start - start <= tolerance:
            first.start = start
        yield first
        yield from iterator
