"""The speaker stage: the segments of a recording get their speakers.

The diarizer listens to the audio while the recording is read. Segments that are yielded before the
end of the recording have provisional speakers; the state of the recording has the final segments.
"""

from bisect import bisect_left
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from typing import Final

from whisperbatch.apart import on_stop
from whisperbatch.audio.reader import AudioReader, open_audio
from whisperbatch.boundary import boundary
from whisperbatch.diarization import open_diarizer
from whisperbatch.diarization.assignment import with_speakers
from whisperbatch.diarization.channels.diarizer import ChannelDiarizer
from whisperbatch.diarization.channels.simultaneous import SimultaneousSpeech
from whisperbatch.diarization.channels.tape import ChannelTape
from whisperbatch.diarization.items import items_of
from whisperbatch.diarization.listener import Listener
from whisperbatch.diarization.naming.matching import Names, renamed, with_names
from whisperbatch.diarization.naming.references import check_references, read_references
from whisperbatch.diarization.protocol import TurnFinder, VoiceDiarizer, limits_of
from whisperbatch.errors import OptionError
from whisperbatch.options import Options
from whisperbatch.options.speakers import BUILTIN
from whisperbatch.recording import RecordingState
from whisperbatch.rows import End
from whisperbatch.types import Chunk, Diarization, Samples, Segment, Source, Turn, to_seconds

NEAR: Final = 10.0  # seconds around a segment in which turns matter

Result = tuple[RecordingState, Segment] | End


class SpeakerStage:
    """The speaker stage of a run: one for all of its recordings. Thread-safe.

    Args:
        options: of the run, with `diarize`. The recordings of known speakers are read here.

    Raises:
        OptionError: see `open_for`.
        AudioError: see `open_for`.
        MissingExtraError: see `open_for`.
        ModelError: see `open_for`.
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
            f"known_speakers needs a diarizer that compares voices; {diarizer.fingerprint} does "
            "not (see whisperbatch.diarization.VoiceDiarizer)"
        )
    return diarizer, Names(diarizer, read_references(options.known_speakers, diarizer))


def prepare(options: Options) -> None:
    """Check what the speaker stage needs, before a model is loaded or downloaded.

    Raises:
        OptionError: see `open_for`.
        AudioError: see `open_for`.
        MissingExtraError: see `open_for`.
        ModelError: see `open_for`.
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

    def __call__(self, results: Iterable[Result]) -> Generator[Result, None, None]:
        """Yield each segment with provisional speakers, and the end after the final segments."""
        count = 0
        for result in results:
            if isinstance(result, End):
                self._finish(result.recording)
                yield result
                continue
            recording, segment = result
            self._segments.append(segment)
            turns = self._listener.turns_until(segment.end)
            near = self._named(turns_around(turns, segment))
            parts = with_speakers(
                [segment], near, first_id=count, provisional=True, keep_words=self._keep_words
            )
            count += len(parts)
            yield from ((recording, part) for part in parts)

    def _finish(self, recording: RecordingState) -> None:
        """Give the recording its speakers and its final segments."""
        result = self._listener.result()
        named = with_names(result, self._names) if self._names else result
        source = recording.source or ""
        diarization = replace(named, source=source, duration=recording.duration)
        segments = with_speakers(
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
        return renamed(turns, self._names(embeddings, speakers))

    def stop(self) -> None:
        """End all waits. Thread-safe."""
        self._listener.stop()

    def close(self) -> None:
        """Stop the thread of the diarizer."""
        self._listener.close()


def diarization_of(source: Source | AudioReader, options: Options) -> Diarization:
    """Return the speakers of a recording and their turns, without a transcript.

    Raises:
        OptionError: the diarizer cannot honour the number of speakers; or see `open_for`.
        AudioError: the recording cannot be read; or see `open_for`.
        MissingExtraError: see `open_for`.
        ModelError: see `open_for`.
        EngineError: the diarizer failed.
    """
    reader = open_audio(source, options)
    on_stop(reader.close)
    with nullcontext() if reader is source else reader, boundary(reader.name):
        diarizer, names = open_for(options)
        blocks = reader.channels() if options.separates_channels else reader.blocks()
        result = Diarization(())
        for item in items_of(diarizer, blocks, limits_of(options), reader.name):
            if isinstance(item, Diarization):
                result = item
        named = with_names(result, names) if names else result
        return replace(named, source=reader.name, duration=to_seconds(reader.position))


def turns_around(turns: Sequence[Turn], segment: Segment) -> list[Turn]:
    """Return the turns near a segment; the last turn if none is near."""
    first = bisect_left(turns, segment.start - NEAR, key=lambda turn: turn.start)
    last = bisect_left(turns, segment.end + NEAR, key=lambda turn: turn.start)
    return [*turns[max(first - 1, 0) : last]]
