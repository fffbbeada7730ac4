"""What random runs transcribe, and what each recording gives when it is transcribed alone."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import whisperbatch as wb
from whisperbatch.protocols import Engine
from whisperbatch.types import Source

Result = wb.Transcript | wb.WhisperBatchError


@dataclass(frozen=True)
class Job:
    """The actions of one thread.

    Attributes:
        kind: a key of `JOBS`.
        recordings: numbers of the recordings.
        options: number of the set of options.
        weight: of submitted recordings.
        order: the order in which results are awaited: a permutation of 0, 1, 2.
        taken: segments or results that are taken before the job stops early.
        start: when the job begins, from 0 to 1.
        stop: how long the job waits before it stops early, from 0 to 1.
    """

    kind: str
    recordings: tuple[int, ...]
    options: int
    weight: float = 1.0
    order: tuple[int, ...] = (0, 1, 2)
    taken: int = 0
    start: float = 0.0
    stop: float = 0.0


@dataclass(frozen=True)
class Outcome:
    """What a recording gives: its segments, and then its transcript or its error."""

    segments: tuple[wb.Segment, ...]
    result: Result


@dataclass(frozen=True, repr=False)
class Material:
    """What the jobs transcribe.

    Attributes:
        sources: return a new source of each recording.
        options: the sets of options.
        engine: returns the engine of a Transcriber, for a number of workers.
        delay: seconds; the times of a job are fractions of this time.
        timeout: seconds; only a deadlock takes so long.
        outcomes: of the recordings that were transcribed alone, by recording and options.
    """

    sources: Sequence[Callable[[], Source]]
    options: Sequence[Mapping[str, Any]]
    engine: Callable[[int], Engine]
    delay: float
    timeout: float
    outcomes: dict[tuple[int, int], Outcome] = field(default_factory=dict)

    def alone(self, recording: int, options: int) -> Outcome:
        """Return the outcome of a recording that is transcribed alone."""
        key = recording, options
        if key not in self.outcomes:
            source, keywords = self.sources[recording], self.options[options]
            with wb.Transcriber(self.engine(1)) as asr:
                try:
                    transcript = asr.transcribe(source(), **keywords)
                except (wb.AudioError, wb.EngineError) as error:
                    segments, _ = read(lambda: asr.stream(source(), **keywords))
                    # the traceback and the causes of the error keep its rows
                    self.outcomes[key] = Outcome(segments, type(error)(str(error)))
                else:
                    self.outcomes[key] = Outcome(transcript.segments, transcript)
        return self.outcomes[key]


def shown(value: object) -> str:
    """Return the text of a result. Results with equal texts are equal to the last digit."""
    return f"{type(value).__name__}: {value}" if isinstance(value, Exception) else repr(value)


def read(
    open_segments: Callable[[], Iterable[wb.Segment]],
) -> tuple[tuple[wb.Segment, ...], wb.WhisperBatchError | None]:
    """Return all segments, and the error that the opening or the reading raises."""
    segments = []
    try:
        for segment in open_segments():
            segments.append(segment)  # noqa: PERF402 - the segments before an error are kept
    except wb.WhisperBatchError as error:
        return tuple(segments), error
    return tuple(segments), None
