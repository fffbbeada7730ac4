"""The speaker stage: the segments of a recording get their speakers.

The diarizer listens to the audio while the recording is read. Segments that are yielded before the
end of the recording have provisional speakers; the state of the recording has the final segments.
"""

import logging
import threading
from bisect import bisect_left
from collections import deque
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from typing import Final

from whisperbatch.apart import on_stop
from whisperbatch.audio.reader import AudioReader, open_audio
from whisperbatch.boundary import boundary
from whisperbatch.diarization import open_diarizer
from whisperbatch.diarization.assignment import assign_speakers
from whisperbatch.diarization.channels import ChannelDiarizer, ChannelTape, SimultaneousSpeech
from whisperbatch.diarization.naming import (
    Names,
    check_references,
    name_speakers,
    read_references,
    rename,
)
from whisperbatch.diarization.protocol import (
    MAX_LAG,
    Embedding,
    Progress,
    SpeakerLimits,
    TurnFinder,
    VoiceDiarizer,
    items_of,
    limits_of,
)
from whisperbatch.errors import ClosedError, EngineError, OptionError
from whisperbatch.options import Options
from whisperbatch.options.values import BUILTIN
from whisperbatch.progress import Meter, ShowProgress, shows_downloads
from whisperbatch.recording import End, RecordingState
from whisperbatch.threads import JOIN_TIMEOUT, in_background
from whisperbatch.types import (
    SAMPLING_RATE,
    Chunk,
    Diarization,
    Samples,
    Segment,
    Source,
    Turn,
    to_seconds,
)

log = logging.getLogger(__name__)

NEAR: Final = 10.0  # seconds around a segment in which turns matter

# Samples of all channels that wait for the diarizer: 8 MB. While the reader waits for the diarizer,
# the model gets its rows late, and computes calls with fewer rows.
AHEAD: Final = 120 * SAMPLING_RATE


class SpeakerStage:
    """The speaker stage of a run: one for all of its recordings. Thread-safe.

    Args:
        options: of the run, with `diarize`. The recordings of known speakers are read here.

    Raises:
        OptionError, AudioError, MissingExtraError, ModelError: see `open_for`.
    """

    def __init__(self, options: Options) -> None:
        self._diarizer, self._names = open_for(options)
        self._options = options
        self._open: set[Speakers] = set()

    @contextmanager
    def recording(self, source: str) -> Iterator["Speakers"]:
        """Return the speakers of a recording that begins; they end with the `with` block.

        Args:
            source: name of the recording.
        """
        speakers = Speakers(self._diarizer, self._options, source, self._names)
        self._open.add(speakers)
        try:
            yield speakers
        finally:
            self._open.discard(speakers)
            speakers.close()

    def stop(self) -> None:
        """End all waits."""
        for speakers in list(self._open):
            speakers.stop()


def open_for(options: Options) -> tuple[TurnFinder, Names | None]:
    """Return the diarizer for these options, and the names of known speakers.

    Raises:
        OptionError: there are known speakers, but the diarizer cannot compare voices.
        AudioError: the recording of a known speaker cannot be used.
        MissingExtraError: the weights or the package of the diarizer are not installed.
        ModelError: the weights of the diarizer are damaged.
    """
    if not compares_voices(options):
        return ChannelDiarizer(options), None
    diarizer = open_diarizer(options.diarizer)
    if not options.known_speakers:
        return diarizer, None
    if not isinstance(diarizer, VoiceDiarizer):
        raise OptionError(
            f"`known_speakers` needs a diarizer that compares voices; {diarizer.fingerprint} does "
            "not (see whisperbatch.diarization.VoiceDiarizer)"
        )
    return diarizer, Names(diarizer, read_references(options.known_speakers, diarizer))


def prepare(options: Options) -> None:
    """Check what the speaker stage needs, before a model is loaded or downloaded.

    Raises:
        OptionError, AudioError, MissingExtraError, ModelError: see `open_for`.
    """
    if not options.diarize:
        return
    check_references(options)
    if compares_voices(options):
        open_diarizer(options.diarizer)


def compares_voices(options: Options) -> bool:
    """Return whether these options need a diarizer that tells voices from each other.

    The VAD alone finds the turns of each channel, and of the only speaker of a recording.
    """
    limits = limits_of(options)
    is_single = limits.maximum == 1 and not limits.needs_voices
    return options.speaker != "channel" and not (is_single and options.diarizer == BUILTIN)


class Speakers:
    """The speakers of one recording.

    Args:
        diarizer: finds the turns.
        options: of the run.
        source: name of the recording.
        names: of known speakers; None if there are none.
    """

    def __init__(
        self, diarizer: TurnFinder, options: Options, source: str, names: Names | None
    ) -> None:
        self._listener = Listener(diarizer, limits_of(options), source)
        self._tape = ChannelTape() if options.separates_channels else None
        self._options = options
        self._keep_words = options.word_timestamps
        self._names = names
        self._segments: list[Segment] = []

    def listen(self, reader: AudioReader) -> Iterator[Samples]:
        """Yield the audio of the recording, while the diarizer listens."""
        if self._tape:
            channels = self._listener.through(reader.channels())
            return reader.mix(self._tape.through(channels))
        return self._listener.through(reader.blocks())

    def by_channel(self, chunks: Iterable[Chunk]) -> Iterator[Chunk]:
        """Yield the chunks; where several channels speak at a time, a chunk of each of them."""
        return SimultaneousSpeech(self._options, self._tape)(chunks) if self._tape else iter(chunks)

    def end(self) -> None:
        """Do not wait for more audio: the recording has ended or failed."""
        self._listener.end()

    def __call__(self, results: Iterable[Segment | End]) -> Generator[Segment | End, None, None]:
        """Yield each segment with provisional speakers, and the end after the final segments."""
        count = 0
        for result in results:
            if isinstance(result, End):
                self._finish(result.recording)
                yield result
                continue
            self._segments.append(result)
            turns = self._listener.turns_until(result.end)
            near = self._named(select_turns(turns, result))
            parts = assign_speakers(
                [result], near, first_id=count, provisional=True, keep_words=self._keep_words
            )
            count += len(parts)
            yield from parts

    def _finish(self, recording: RecordingState) -> None:
        result = self._listener.result()
        named = name_speakers(result, self._names) if self._names else result
        source = recording.source or ""
        diarization = replace(named, source=source, duration=recording.duration)
        segments = assign_speakers(
            self._segments,
            diarization.turns,
            exclusive=diarization.exclusive,
            keep_words=self._keep_words,
        )
        recording.diarization, recording.final_segments = diarization, tuple(segments)

    def _named(self, turns: Sequence[Turn]) -> list[Turn]:
        """Return provisional turns in which the known speakers have their names."""
        if not self._names:
            return [*turns]
        embeddings = self._listener.embeddings
        speakers = dict.fromkeys((*embeddings, *(turn.speaker for turn in turns)))
        return rename(turns, self._names(embeddings, speakers))

    def stop(self) -> None:
        """End all waits. Thread-safe."""
        self._listener.stop()

    def close(self) -> None:
        """Stop the thread of the diarizer."""
        self._listener.close()


def diarization_of(
    source: Source | AudioReader, options: Options, show: ShowProgress | None = None
) -> Diarization:
    """Return the speakers of a recording and their turns, without a transcript.

    Args:
        source: the recording.
        options: with `diarize`.
        show: is called with the progress of downloads and of the diarization.

    Raises:
        OptionError: the diarizer cannot honour the number of speakers; or see `open_for`.
        AudioError: the recording cannot be read; or see `open_for`.
        MissingExtraError, ModelError: see `open_for`.
        EngineError: the diarizer failed.
    """
    reader = open_audio(source, options)
    on_stop(reader.close)
    with nullcontext() if reader is source else reader, boundary(reader.name):
        with shows_downloads(show):
            diarizer, names = open_for(options)
        meter = Meter("diarize", reader.name, reader.duration, show)
        blocks = reader.channels() if options.separates_channels else reader.blocks()
        result = Diarization(())
        for item in items_of(diarizer, blocks, limits_of(options), reader.name):
            if isinstance(item, Diarization):
                result = item
            else:
                meter.advance(item.end)
        meter.end(to_seconds(reader.position))
        named = name_speakers(result, names) if names else result
        return replace(named, source=reader.name, duration=to_seconds(reader.position))


def select_turns(turns: Sequence[Turn], segment: Segment) -> list[Turn]:
    """Return the turns near a segment; the last turn if none is near."""
    first = bisect_left(turns, segment.start - NEAR, key=lambda turn: turn.start)
    last = bisect_left(turns, segment.end + NEAR, key=lambda turn: turn.start)
    return [*turns[max(first - 1, 0) : last]]


class Listener:
    """Gives the audio of a recording to a diarizer, and collects the turns.

    Three threads use a Listener: the reader of the recording calls `through`, the diarizer's thread
    takes the audio, and the consumer of the segments calls `turns_until` and `result`. The
    diarizer's thread never waits for the consumer: a recording may have no segments for hours.

    Args:
        diarizer: finds the turns. It may have an attribute `reads_ahead`: seconds of audio that it
            takes although its next Progress does not need them.
        limits: of the number of speakers.
        source: name of the recording, for errors.

    Attributes:
        embeddings: of the speakers so far, as in `Progress`.

    Raises:
        OptionError: the diarizer cannot honour the limits.
    """

    def __init__(self, diarizer: TurnFinder, limits: SpeakerLimits, source: str) -> None:
        self._blocks: deque[Samples] = deque()
        self._waiting = 0  # samples in `_blocks`
        self._given = 0.0  # seconds that the diarizer has taken
        self._told = 0.0  # seconds up to which the diarizer has given turns
        self._ended = self._stopped = False
        self._changed = threading.Condition()
        self._items: deque[Progress | Diarization | BaseException] = deque()
        self._has_finished = False  # no more items will come
        self._turns: list[Turn] = []
        self._known = 0.0  # seconds
        self.embeddings: Mapping[str, Embedding] = {}
        self._result: Diarization | None = None
        self._max_lag = MAX_LAG + float(getattr(diarizer, "reads_ahead", 0.0))
        self._found = items_of(diarizer, self._audio(), limits, source)
        self._thread = in_background(self._run, name="whisperbatch-diarizer")

    def through(self, blocks: Iterable[Samples]) -> Iterator[Samples]:
        """Yield blocks, and give them to the diarizer. Waits if the diarizer is too slow."""
        try:
            for block in blocks:
                self._put(block)
                yield block
        finally:
            self.end()

    def end(self) -> None:
        """Tell the diarizer that no more audio follows, even if `through` was never iterated."""
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def turns_until(self, end: float) -> list[Turn]:
        """Return the turns so far; wait until they are known up to `end`, in seconds.

        Raises:
            EngineError: the diarizer failed.
            ClosedError: `stop` was called.
        """
        while self._known < end and self._result is None:
            self._advance()
        return self._turns

    def result(self) -> Diarization:
        """Wait for the end of the recording, and return all turns.

        Raises:
            EngineError: the diarizer failed.
            ClosedError: `stop` was called.
        """
        while self._result is None:
            self._advance()
        return self._result

    def stop(self) -> None:
        """End all waits. Thread-safe."""
        with self._changed:
            self._stopped = True
            self._blocks.clear()
            self._changed.notify_all()

    def close(self) -> None:
        """Stop the thread of the diarizer."""
        self.stop()
        if self._thread is threading.current_thread():  # called by the garbage collector
            return
        self._thread.join(JOIN_TIMEOUT)
        if self._thread.is_alive():
            log.warning(
                "a diarizer did not stop within %g s; its thread ends with its work", JOIN_TIMEOUT
            )

    def _advance(self) -> None:
        """Take the next item of the diarizer. The items are taken one by one when they are needed.

        So the provisional speakers do not depend on how far ahead the diarizer is.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._items or self._has_finished or self._stopped)
            if not self._items:
                raise ClosedError("the recording was closed")
            item = self._items.popleft()
        if isinstance(item, BaseException):
            self._items.appendleft(item)  # for the next call
            raise item
        if isinstance(item, Progress):
            self._turns += item.turns
            self.embeddings = item.embeddings
            self._known = item.end
        else:
            self._result = item

    def _put(self, block: Samples) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._is_deaf() or self._waiting < AHEAD)
            if not self._is_deaf():
                self._blocks.append(block)
                self._waiting += block.size
                self._changed.notify_all()

    def _is_deaf(self) -> bool:
        return self._stopped or self._has_finished

    def _audio(self) -> Iterator[Samples]:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._ended or self._stopped or self._blocks)
                if self._stopped:
                    raise ClosedError("the recording was closed")
                if not self._blocks:
                    return
                block = self._blocks.popleft()
                self._waiting -= block.size
                self._changed.notify_all()
            if self._given - self._told > self._max_lag:
                raise EngineError(
                    f"the diarizer has heard {self._given:.0f} s of audio, but its last Progress "
                    f"ends at {self._told:.0f} s; it must yield a Progress at least every "
                    f"{MAX_LAG:g} s, also without turns"
                )
            self._given += len(block) / SAMPLING_RATE
            yield block

    def _run(self) -> None:
        """Collect the items of the diarizer, in its thread."""
        try:
            for item in self._found:
                if isinstance(item, Progress):
                    self._told = item.end
                with self._changed:
                    self._items.append(item)
                    self._changed.notify_all()
        except BaseException as error:  # noqa: BLE001 - the consumer must see every error
            with self._changed:
                self._items.append(error)
        finally:
            with self._changed:
                self._has_finished = True
                self._blocks.clear()
                self._changed.notify_all()
