"""What a run gives to its users: segments as they come, or transcripts."""

from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import ExitStack, closing
from typing import Literal, Self

from whisperbatch.errors import ClosedError, WhisperBatchError
from whisperbatch.pipeline import Run
from whisperbatch.rows import End
from whisperbatch.types import Omission, Segment, Transcript


class SegmentStream(Iterator[Segment]):
    """Segments of one recording, in order, each as soon as it is decoded.

    Breaking off half way is safe: `close()`, leaving a `with` block, or dropping the stream stops
    the work, joins its threads and closes the file.

    Attributes:
        source: the recording's name.
        language: given, or detected once the first segment has come; None before, or where there
            is no speech to detect it from. Of a recording that can only be read through, later
            chunks may revise it: segments that are out already keep theirs.
        language_probability: of the language detected; 1.0 where it was given.
        language_probabilities: of all languages, where one was detected; otherwise empty.
        duration: seconds of the recording read, once all segments have come; None before.
        omissions: what was decoded and left out so far, and speech that gave no text.
        chunks: how many chunks have been decoded so far.
        redecoded: how many of them more than once.
    """

    def __init__(self, run: Run, source: str, on_close: Callable[[], None]) -> None:
        self._run = run
        self.source = source
        self._on_close = on_close
        self._items = iter(run)
        self._closed = False
        self.language: str | None = None
        self.language_probability = 0.0
        self.language_probabilities: Mapping[str, float] = {}
        self.duration: float | None = None
        self._stats = run.stats(0)
        self._learn()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Segment:
        try:
            item = next(self._items)
        except ClosedError:
            ended = self._closed  # by another thread, while this one waited
            self.close()
            if ended:
                raise StopIteration from None
            raise
        except BaseException:
            self.close()
            raise
        if self._closed:  # by another thread, while this one waited
            self.close()
            raise StopIteration
        self._learn()
        if not isinstance(item, End):
            return item[1]
        self.duration = item.duration
        self._stats = item.stats
        self.close()
        if item.error:
            raise item.error
        raise StopIteration

    @property
    def omissions(self) -> tuple[Omission, ...]:
        """See the class."""
        return tuple(self._stats.omissions)

    @property
    def chunks(self) -> int:
        """See the class."""
        return self._stats.chunks

    @property
    def redecoded(self) -> int:
        """See the class."""
        return self._stats.redecoded

    def call_on_close(self, function: Callable[[], None]) -> None:
        """Call `function`, too, when the stream ends: after its work has stopped."""
        close_recording = self._on_close

        def close_both() -> None:
            try:
                close_recording()
            finally:
                function()

        self._on_close = close_both

    def close(self) -> None:
        """Stop, and free everything. Safe to call twice, and from another thread.

        A thread that is waiting for a segment then stops when it has come.
        """
        self._closed = True
        self._run.stop()
        try:
            self._items.close()
        except ValueError:  # another thread is in it, and will close it
            return
        finally:
            self._on_close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        if hasattr(self, "_items"):
            self.close()

    def _learn(self) -> None:
        self._stats = self._run.stats(0)
        if decision := self._run.language(0):
            self.language = decision.language
            self.language_probability = decision.probability
            self.language_probabilities = decision.probabilities


def transcripts(
    run: Run, on_error: Literal["raise", "yield"]
) -> Generator[Transcript | WhisperBatchError, None, None]:
    """The transcript of each recording as it ends, or its error."""
    with closing(items_of(run)) as items:
        for _, item in items:
            if isinstance(item, WhisperBatchError) and on_error == "raise":
                raise item
            if not isinstance(item, Segment):
                yield item


def items_of(
    run: Run,
) -> Generator[tuple[int, Segment | Transcript | WhisperBatchError], None, None]:
    """Each segment with its recording's number, and at its end its transcript or error."""
    segments: dict[int, list[Segment]] = {}
    with closing(iter(run)) as items, ExitStack() as stack:
        stack.callback(run.stop)
        for item in items:
            if isinstance(item, End):
                own = segments.pop(item.recording, [])
                yield item.recording, item.error or _transcript(run, item, own)
            else:
                segments.setdefault(item[0], []).append(item[1])
                yield item


def _transcript(run: Run, end: End, segments: list[Segment]) -> Transcript:
    decision = run.language(end.recording)
    return Transcript(
        segments=tuple(segments),
        language=decision.language if decision else None,
        language_probability=decision.probability if decision else 0.0,
        duration=end.duration,
        source=end.source,
        omissions=tuple(end.stats.omissions),
        chunks=end.stats.chunks,
        redecoded=end.stats.redecoded,
    )


def whole(segments: SegmentStream) -> Transcript:
    """All of a stream, as one value."""
    with segments:
        found = tuple(segments)
        return Transcript(
            segments=found,
            language=segments.language,
            language_probability=segments.language_probability,
            duration=segments.duration or 0.0,
            source=segments.source,
            omissions=segments.omissions,
            chunks=segments.chunks,
            redecoded=segments.redecoded,
        )
