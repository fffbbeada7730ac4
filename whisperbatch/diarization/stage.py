"""The speaker stage: the segments of a recording get their speakers.

The diarizer listens to the audio while the recording is read. Segments that are yielded before the
end of the recording have provisional speakers; the `End` of the recording has the final segments.
"""

from bisect import bisect_left
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Final

from whisperbatch.diarization.assignment import with_speakers
from whisperbatch.diarization.listener import Listener
from whisperbatch.diarization.protocol import Diarizer, limits_of
from whisperbatch.options import Options
from whisperbatch.recording import RecordingState
from whisperbatch.rows import End
from whisperbatch.types import Samples, Segment, Turn

NEAR: Final = 10.0  # seconds around a segment in which turns matter

Result = tuple[RecordingState, Segment] | End


class Speakers:
    """The speakers of one recording.

    Args:
        diarizer: finds the turns.
        options: of the run.
    """

    def __init__(self, diarizer: Diarizer, options: Options) -> None:
        self._listener = Listener(diarizer, limits_of(options))
        self._keep_words = options.word_timestamps
        self._segments: list[Segment] = []

    def listen(self, blocks: Iterable[Samples]) -> Iterator[Samples]:
        """Yield the audio of the recording again, while the diarizer listens."""
        return self._listener.through(blocks)

    def __call__(self, results: Iterable[Result]) -> Generator[Result, None, None]:
        """Yield each segment with provisional speakers, and the end with the final segments."""
        count = 0
        for result in results:
            if isinstance(result, End):
                yield self._final(result)
                continue
            recording, segment = result
            self._segments.append(segment)
            turns = self._listener.turns_until(segment.end)
            near = turns_around(turns, segment)
            parts = with_speakers(
                [segment], near, first_id=count, provisional=True, keep_words=self._keep_words
            )
            count += len(parts)
            yield from ((recording, part) for part in parts)

    def _final(self, end: End) -> End:
        diarization = replace(self._listener.result(), source=end.source, duration=end.duration)
        segments = with_speakers(self._segments, diarization.turns, keep_words=self._keep_words)
        return replace(end, diarization=diarization, segments=tuple(segments))

    @contextmanager
    def within(self, open_recordings: set["Speakers"]) -> Iterator["Speakers"]:
        """Be one of the open recordings of a run until the end of a `with` block."""
        open_recordings.add(self)
        try:
            yield self
        finally:
            open_recordings.discard(self)
            self._listener.close()

    def stop(self) -> None:
        """End all waits. Thread-safe."""
        self._listener.stop()


def turns_around(turns: Sequence[Turn], segment: Segment) -> list[Turn]:
    """Return the turns near a segment; the last turn if none is near."""
    first = bisect_left(turns, segment.start - NEAR, key=lambda turn: turn.start)
    last = bisect_left(turns, segment.end + NEAR, key=lambda turn: turn.start)
    return [*turns[max(first - 1, 0) : last]]
