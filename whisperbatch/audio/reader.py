"""Opening of recordings: every kind of source becomes an `AudioReader`.

path, URL, pipe, bytes, open file ── media.MediaDecoder ──┐
                                                          ├─ AudioReader.blocks()
array, Audio ────────────────────── resampling.to_blocks ─┘  mono samples at 16 kHz
"""

import threading
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from os import PathLike
from typing import cast

import numpy as np
from typing_extensions import Self

from whisperbatch.apart import items_apart, runs_apart
from whisperbatch.audio.file_objects import FileObject, reads_out_of_order, regular_file, start_of
from whisperbatch.audio.in_subprocess import FileDecoding
from whisperbatch.audio.media import MediaDecoder, whole_second
from whisperbatch.audio.mixing import mix
from whisperbatch.audio.random_access import (
    ArrayRandomAccess,
    RandomAccess,
    open_random_access,
    track_chooser,
)
from whisperbatch.audio.resampling import to_blocks
from whisperbatch.audio.sources import (
    ARRAY_NAME,
    BYTES,
    check_array,
    check_finite,
    file_of,
    name_of,
    plain_source,
)
from whisperbatch.audio.track import stated_duration
from whisperbatch.boundary import boundary
from whisperbatch.errors import AudioError, OptionError
from whisperbatch.options import Options, checks
from whisperbatch.subprocesses import Subprocesses
from whisperbatch.text.messages import brief_name, description
from whisperbatch.threads import keep_in_children, reset_after_fork
from whisperbatch.types import (
    SAMPLING_RATE,
    WHOLE,
    Audio,
    DeferredSource,
    Notices,
    Samples,
    Source,
    Span,
    SpanSource,
    to_samples,
)


class AudioReader:
    """An open recording. One thread reads it; any thread may call `close()` at any time.

    A reader is also a context manager, which closes the recording at the end of its block.

    Attributes:
        name: name of the recording, for messages.
        position: the next sample that will be read; after the last block, the recording's length.
        closed: whether the reader is closed. Reading then ends early.
        options: the options (track, channel, sampling rate, longest duration) with which the
            recording was opened.
        is_borrowed: whether the recording is read from a file object that belongs to the caller.
        span: the sections that are to be transcribed. `blocks` and `channels` begin at `start`.
        start: the first sample of `blocks` and `channels`, counted in the recording.
        notices: facts about the recording that its user must know.
        track: number of the audio track that is read.
        duration: seconds that the container states, from which the end of the recording may differ;
            None if it states none.
    """

    def __init__(
        self,
        name: str,
        blocks: Iterator[Samples],
        close: Callable[[], None],
        open_random_access: Callable[[], RandomAccess | None] = lambda: None,
        options: Options | None = None,
        *,
        is_borrowed: bool = False,
        span: Span = WHOLE,
        position: int = 0,
        notices: Notices | None = None,
        track: int = 0,
        duration: float | None = None,
        decode_in: FileDecoding | None = None,
    ) -> None:
        """Create a reader.

        `position` is the first sample of `blocks`, counted in the recording; at most `span.start`.
        `notices` is None if `blocks` adds none. `decode_in` yields `blocks` again, decoded in
        another process; None if it cannot.
        """
        self.name = name
        self.is_borrowed = is_borrowed
        self.span = span
        self.start = span.start
        self.position = position
        self.closed = False
        self._blocks = blocks
        self._close = close
        self._open_random_access = open_random_access
        self._decode_in = decode_in
        self.options = options or Options()
        self.notices = Notices(name) if notices is None else notices
        self.track = track
        self.duration = duration
        self._reading = threading.Lock()
        self._is_inherited = False
        reset_after_fork(self)
        keep_in_children(self)

    def _after_fork(self) -> None:
        """Refuse to read: the position in the file is shared with the parent process."""
        self._is_inherited, self._reading = True, threading.Lock()

    def __repr__(self) -> str:
        total = "" if self.duration is None else f" of {self.duration:.1f}"
        position = f"at {self.position / SAMPLING_RATE:.1f}{total} s"
        return description(
            self, brief_name(self.name), position, "closed" if self.closed else "open"
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def blocks(self) -> Iterator[Samples]:
        """Yield the recording from `start` on in blocks of at most 1 s; no block is empty.

        A recording can be read only once, by this method or by `channels`.

        Yields:
            Mono samples at 16 kHz, shape (n_samples,), float32.

        Raises:
            AudioError: reading fails, the recording contains NaN or infinite samples, or the
                recording is longer than the option `max_duration`.
        """
        return items_apart(lambda: self.mix(self._check_blocks()), self.close)

    def mix(self, blocks: Iterable[Samples]) -> Iterator[Samples]:
        """Yield the mix of blocks that `channels` yielded, from `start` on; see `blocks`.

        Args:
            blocks: shape (n_samples, n_channels), float32, at 16 kHz; in order, without gaps.

        Yields:
            Mono samples, shape (n_samples,), float32.

        Raises:
            EngineError: the voice activity detection failed, which compares the channels.
        """
        return mix(blocks, self.notices, self.start)

    def channels(self) -> Iterator[Samples]:
        """Yield the recording as `blocks` does, but with each of its channels.

        Yields:
            Samples, shape (n_samples, n_channels), float32. There is one channel unless the
            recording was opened with `speaker="channel"`.

        Raises:
            AudioError: reading fails, the recording contains NaN or infinite samples, or the
                recording is longer than the option `max_duration`.
        """
        blocks = self._check_blocks()
        return items_apart(lambda: (block.reshape(len(block), -1) for block in blocks), self.close)

    def _check_blocks(self) -> Iterator[Samples]:
        limit = self.options.max_duration
        while (block := self._next()) is not None:
            skipped = min(max(self.start - self.position, 0), len(block))
            self.position += skipped
            if skipped == len(block):
                continue
            block = block[skipped:]
            check_finite(block, self.name, self.position)
            if limit is not None and self.position + len(block) > to_samples(limit):
                raise AudioError(f"is longer than `max_duration={limit:g}` s", source=self.name)
            self.position += len(block)
            yield block

    def decode_in(self, processes: Subprocesses, most: int) -> None:
        """Decode the recording in another process, if it is a file and was not read yet.

        If all processes are in use, it is decoded in this process. The samples are the same.

        Args:
            processes: shared with other users.
            most: number of processes that decode at a time.
        """
        with self._reading:
            if self._decode_in and not self.closed:
                self._blocks = self._decode_in(processes, most, self._blocks)
                self._decode_in = None

    @contextmanager
    def random_access(self) -> Iterator[RandomAccess | None]:
        """Open random access to the recording, for the time of a `with` block.

        Call this before `blocks()`, in the same thread.

        Yields:
            The access; None if the recording does not support random access.
        """
        with self._reading:
            access = None if self.closed else self._open_random_access()
            try:
                yield access
            finally:
                if access:
                    access.close()
                if self.closed:
                    self._release()

    def close(self) -> None:
        """Close the recording. Safe to call twice, and while another thread waits for a pipe.

        FFmpeg must not be closed while it reads. In this case the reading thread closes the
        recording when FFmpeg returns.
        """
        self.closed = True
        if not self._is_inherited and self._reading.acquire(blocking=False):
            self._release()
            self._reading.release()

    def _release(self) -> None:
        if isinstance(self._blocks, Generator):
            self._blocks.close()
        self._close()

    def _next(self) -> Samples | None:
        if self._is_inherited:
            reason = "was opened before a fork; open it in the process that reads it"
            raise AudioError(reason, source=self.name)
        with self._reading, boundary(self.name):
            self._decode_in = None
            block = None if self.closed else next(self._blocks, None)
            if self.closed:
                self._release()
                return None
            return block


@runs_apart
def open_audio(source: Source | AudioReader, options: Options | None = None) -> AudioReader:
    """Open a recording, and refuse a source that cannot be read.

    Media are decoded up to their first frame.

    Args:
        source: a path, a URL, "-" for standard input, the bytes of a media file, an open binary
            file or pipe, or samples: a float32 or int16 array, an object with `__array__` such as a
            tensor of PyTorch on the CPU, or an `Audio`. An open file stays open; an array is not
            modified. An `AudioReader` is returned unchanged. A `SpanSource` is opened at the first
            sample that its span needs. A `DeferredSource` chooses its recording first.
        options: the track, the channel, the sampling rate of an array, and the longest duration;
            None for the defaults.

    Returns:
        The open recording; it must be closed.

    Raises:
        AudioError: the source is missing, empty or not audio, or lacks the track; or the type or
            shape of the array is wrong.
        OptionError: an option does not fit the source.
    """
    options = options or Options()
    if isinstance(source, AudioReader):
        return _opened(source, options)
    if isinstance(source, DeferredSource):
        with boundary(None):
            source = source.choose()
    span = WHOLE
    if isinstance(source, SpanSource):
        span, source = source.span, source.source
    source = cast("Source", plain_source(source))
    name = name_of(source)
    with boundary(name):
        if isinstance(source, np.ndarray):
            rate = SAMPLING_RATE if options.sampling_rate is None else options.sampling_rate
            return _open_array(Audio(source, rate), options, span)
        if isinstance(source, Audio):
            return _open_array(source, options, span)
        return _open_media(name, source, options, span)


def known_duration(source: Source, options: Options) -> float | None:
    """Return the duration of a recording that is not read for it, in seconds.

    Headers of files may be wrong. The position of an open file stays.

    Args:
        source: as in `open_audio`.
        options: the sampling rate of an array.

    Returns:
        The duration; None for pipes, addresses, and files that do not state their duration.
    """
    if isinstance(source, DeferredSource | SpanSource):
        return None
    duration = None
    try:
        source = cast("Source", plain_source(source))
        if isinstance(source, np.ndarray):
            return len(source) / (options.sampling_rate or SAMPLING_RATE)
        if isinstance(source, Audio):
            return len(source.samples) / source.sampling_rate
        file = file_of(name_of(source), source)
        if isinstance(file, str):
            return stated_duration(file) if regular_file(file) else None
        if file.seekable():
            try:
                duration = stated_duration(file)
            finally:
                file.rewind()
    except (AudioError, OSError, ValueError):  # raised when the recording is opened
        pass
    return duration


def rewinding(source: Source) -> Callable[[], object] | None:
    """Return a function after which a recording can be opened again from its start.

    Returns:
        The function; None if the recording cannot be read again, as a pipe.
    """
    if callable(getattr(source, "read", None)):
        start = start_of(source)
        return None if start is None else partial(source.seek, start)  # type: ignore[union-attr]  # a file object
    if isinstance(source, str | PathLike):
        path = str(source)
        return (lambda: None) if "://" in path or regular_file(path) else None
    return None if isinstance(source, SpanSource) else lambda: None


def _open_media(name: str, source: object, options: Options, span: Span) -> AudioReader:
    file = file_of(name, source)
    if options.sampling_rate is not None:
        raise OptionError(
            f"`sampling_rate` is only for arrays, and {name} states its own rate; leave it out"
        )
    notices = Notices(name)
    choose = track_chooser(name, file, options, notices)
    decoder = MediaDecoder(name, file, options, notices, span.start, choose=choose)
    chosen = replace(options, track=decoder.track)
    decoding = None
    if isinstance(file, str) and regular_file(file) and not decoder.is_pcm:
        place = (span.start, decoder.position)
        decoding = FileDecoding(name, file, chosen, *place, notices, decoder.close)
    return AudioReader(
        name,
        decoder.blocks(),
        decoder.close,
        lambda: _media_random_access(name, file, chosen),
        options,
        is_borrowed=isinstance(file, FileObject) and not isinstance(source, BYTES),
        span=span,
        position=decoder.position,
        notices=notices,
        track=decoder.track,
        duration=decoder.duration,
        decode_in=decoding,
    )


def _opened(reader: AudioReader, options: Options) -> AudioReader:
    """Return an open reader, unless an option that belongs to `open_audio` has another value."""
    for name in ("track", "channel", "sampling_rate", "max_duration"):
        value, opened = getattr(options, name), getattr(reader.options, name)
        if value not in (checks.default(Options, name), opened):
            raise OptionError(
                f"`{name}={value!r}`: {reader.name} is open with `{name}={opened!r}`; "
                f"give `{name}` to open_audio"
            )
    if options.separates_channels and not reader.options.separates_channels:
        raise OptionError(
            f"`speaker='channel'`: {reader.name} is open with mixed channels; give it to open_audio"
        )
    return reader


def _media_random_access(
    name: str, file: str | FileObject, options: Options
) -> RandomAccess | None:
    """Open random access; None for pipes, streams and recordings of unknown duration."""
    if not reads_out_of_order(file):
        return None
    try:
        access = open_random_access(name, file, options)
    except (AudioError, OSError, ValueError):
        return None
    if access.duration <= 0:
        access.close()
        return None
    return access


def _open_array(audio: Audio, options: Options, span: Span) -> AudioReader:
    check_array(audio, options, ARRAY_NAME)
    samples, rate = audio.samples, int(audio.sampling_rate)
    second = min(whole_second(span.start), len(samples) // rate)
    return AudioReader(
        ARRAY_NAME,
        to_blocks(samples[second * rate :], rate),
        lambda: None,
        lambda: ArrayRandomAccess(samples, rate),
        options,
        span=span,
        position=second * SAMPLING_RATE,
        duration=len(samples) / rate,
    )
