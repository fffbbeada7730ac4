"""Runs of the pipeline over one or many recordings.

recordings   0  [ s s s s End ]            each recording is read by its own threads; another
             1  [ s s End ]                recording begins while the engine could decode more
             2  [ s s s ...                audio
results      0s 0s 0s 0s 0End 1s 1s ...    a thread of the run; in this order with `ordered`
"""

from collections.abc import Generator, Iterable
from contextlib import closing
from itertools import takewhile
from typing import Final, TypeVar

from whisperbatch.apart import Apart
from whisperbatch.audio.sources import check_several
from whisperbatch.options import Options, checks, plain
from whisperbatch.pipeline import BATCHES_AHEAD, Opener, Pipeline, Result
from whisperbatch.prefetch import interleave
from whisperbatch.recording import RecordingState
from whisperbatch.rows import End
from whisperbatch.scheduling import Scheduler

SEGMENTS_AHEAD: Final = 256  # of each recording while an earlier recording is not complete
OPENING: Final = 1.0  # seconds; a pipe without data does not delay the recordings after it
MIN_RECORDINGS: Final = 4  # recordings read at a time

T = TypeVar("T")


class PipelineRun:
    """One pass of the pipeline over one or many recordings. Iterate it once.

    Args:
        scheduler: shares the engine with other runs.
        openers: functions that open the recordings; each is taken when its recording is to be read.
        options: as the user gave them.
        ahead: whether several recordings are read at a time.
        ordered: whether the results keep the order of the recordings.
        weight: share of the engine, relative to the weights of other runs.

    Raises:
        OptionError: the model cannot honour an option.

    Yields:
        (recording, Segment), in order within a recording, and an `End` after the last segment of
        each recording. If a recording fails, its `End` has the error; the other recordings
        continue. The state of the recording has the language, the counts and the omissions as of
        this segment.

    Attributes:
        given_language: the language if it is given; None if it is to be detected.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        openers: Iterable[Opener],
        options: Options,
        *,
        ahead: bool = False,
        ordered: bool = True,
        weight: float = 1.0,
    ) -> None:
        self._pipeline = Pipeline(scheduler, options, weight)
        self.given_language = self._pipeline.given_language
        self._openers = openers
        self._ahead, self._ordered = ahead, ordered
        self._at_once = max(MIN_RECORDINGS, BATCHES_AHEAD * self._pipeline.rows_at_a_time)
        self._recordings: dict[int, RecordingState] = {}  # that began and have not ended

    def __iter__(self) -> Apart[Result]:
        return Apart(self.results, self.stop)

    def results(self) -> Generator[Result, None, None]:
        """Iterate in this thread, which must be one of ours."""
        with closing(self._results()) as results, self._pipeline.running():
            try:
                for item in results:
                    if isinstance(item, End):
                        item.recording.published = item.recording.language.decision
                        del self._recordings[item.recording.number]
                    yield item
            finally:
                self.stop()

    def stop(self) -> None:
        """Stop reading and decoding, so that a thread that waits for this run returns soon.

        Thread-safe.
        """
        self._pipeline.stop()
        for recording in list(self._recordings.values()):
            if recording.reader:
                recording.reader.close()

    def _results(self) -> Generator[Result, None, None]:
        if not self._ahead:
            return in_sequence(self._begin())
        limit = self._pipeline.limit
        return interleave(
            self._begin(),
            at_once=self._at_once,
            depth=SEGMENTS_AHEAD,
            ordered=self._ordered,
            may_start=limit.may_begin,
            changed=limit.changed,
        )

    def _begin(self) -> Generator[Generator[Result, None, None], None, None]:
        """Yield the results of each recording.

        With `ordered`, a source is taken when the source before it is open, or takes longer than
        `OPENING`, so that the caller may then delete a file. File objects of the caller are read
        one after the other.
        """
        openers = takewhile(lambda _: not self._pipeline.stopped, self._openers)
        for number, opener in enumerate(openers):
            recording = RecordingState.beginning(number, self.given_language)
            self._recordings[number] = recording
            yield self._pipeline(recording, opener)
            if self._ordered:
                self._pipeline.limit.wait_while(recording.is_opening, OPENING)
                self._pipeline.limit.wait_while(recording.is_borrowed)


def in_sequence(sources: Iterable[Iterable[T]]) -> Generator[T, None, None]:
    """Yield the items of each source, and close the source before the next is taken."""
    for source in sources:
        yield from source


def check_many(sources: object, on_error: object, *, ordered: object) -> None:
    """Check the arguments of `transcribe_many` before any work.

    Raises:
        OptionError: `on_error` is unknown, `ordered` is not a bool, or `sources` is a single
            recording or no iterable.
    """
    checks.choice("on_error", plain(on_error), ("raise", "yield"))
    checks.boolean("ordered", plain(ordered))
    check_several(sources)
