"""Opening of recordings: every kind of source becomes an `AudioReader`.

path, URL, pipe, bytes, open file ── media.MediaDecoder ──┐
                                                          ├─ AudioReader.blocks()
array, Audio ──────────────────────── resampling.to_mono ─┘  mono samples at 16 kHz
"""

import io
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from os import PathLike, fspath
from pathlib import Path
from types import TracebackType
from typing import BinaryIO

import numpy as np
import numpy.typing as npt
from typing_extensions import Self

from whisperbatch.audio.media import MAX_RATE, MIN_RATE, MediaDecoder
from whisperbatch.audio.random_access import (
    ArrayRandomAccess,
    MediaRandomAccess,
    RandomAccess,
    SharedFileRandomAccess,
)
from whisperbatch.audio.resampling import BLOCK, to_mono
from whisperbatch.errors import AudioError, OptionError
from whisperbatch.options import AudioOptions, checks
from whisperbatch.types import SAMPLING_RATE, Audio, Samples, Source, to_seconds


class AudioReader:
    """An open recording. One thread reads it; any thread may call `close()` at any time.

    A reader is also a context manager, which closes the recording at the end of its block.

    Attributes:
        name: name of the recording, for messages.
        position: number of samples read so far; after the last block, the recording's length.
        closed: whether the reader is closed. Reading then ends early.
        options: the options (track, channel, sampling rate) with which the recording was opened.
    """

    def __init__(
        self,
        name: str,
        blocks: Iterator[Samples],
        close: Callable[[], None],
        open_random_access: Callable[[], RandomAccess | None] = lambda: None,
        options: AudioOptions | None = None,
    ) -> None:
        self.name = name
        self.position = 0
        self.closed = False
        self._blocks = blocks
        self._close = close
        self._open_random_access = open_random_access
        self.options = options or AudioOptions()
        self._reading = threading.Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def blocks(self) -> Iterator[Samples]:
        """Yield the recording from its start in blocks of at most 1 s; no block is empty.

        A recording can be read only once.

        Yields:
            Mono samples at 16 kHz, shape (n_samples,), float32.

        Raises:
            AudioError: reading fails, or the recording contains NaN or infinite samples.
        """
        while (block := self._next()) is not None:
            if not np.isfinite(block).all():
                time = to_seconds(self.position + int(np.argmin(np.isfinite(block))))
                raise _not_finite(self.name, time)
            self.position += len(block)
            yield block

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
                    self._close()

    def close(self) -> None:
        """Close the recording. Safe to call twice, and while another thread waits for a pipe.

        FFmpeg must not be closed while it reads. In this case the reading thread closes the
        recording when FFmpeg returns.
        """
        self.closed = True
        if self._reading.acquire(blocking=False):
            self._close()
            self._reading.release()

    def _next(self) -> Samples | None:
        with self._reading:
            block = None if self.closed else next(self._blocks, None)
            if self.closed:
                self._close()
                return None
            return block


def open_audio(source: Source | AudioReader, options: AudioOptions | None = None) -> AudioReader:
    """Open a recording, and refuse a source that cannot be read.

    Media are decoded up to their first frame.

    Args:
        source: a path, a URL, "-" for standard input, the bytes of a media file, an open binary
            file or pipe, or samples (a float32 or int16 array, or an `Audio`). An open file stays
            open; an array is not modified. An `AudioReader` is returned unchanged.
        options: the track, the channel and the sampling rate of an array; None for the defaults.

    Returns:
        The open recording; it must be closed.

    Raises:
        AudioError: the source is missing, empty or not audio, or lacks the track; or the type or
            shape of the array is wrong.
        OptionError: an option does not fit the source.
    """
    options = options or AudioOptions()
    if isinstance(source, AudioReader):
        return _opened(source, options)
    if isinstance(source, np.ndarray):
        rate = SAMPLING_RATE if options.sampling_rate is None else options.sampling_rate
        return _open_array(Audio(source, rate), options)
    if isinstance(source, Audio):
        if options.sampling_rate not in (None, source.sampling_rate):
            raise OptionError(
                f"sampling_rate={options.sampling_rate} contradicts the Audio, which states "
                f"{source.sampling_rate}; leave the option out"
            )
        return _open_array(source, options)
    name, file = _file(source)
    if options.sampling_rate is not None:
        raise OptionError(
            f"sampling_rate is only for arrays, and {name} states its own rate; leave it out"
        )
    # FFmpeg reads an open file from its position, so times would not be times of the file
    has_offset = not isinstance(file, str) and _offset(file)
    decoder = MediaDecoder(name, file, options)
    return AudioReader(
        name,
        decoder.blocks(),
        decoder.close,
        lambda: None if has_offset else _media_random_access(name, file, options),
        options,
    )


def _opened(reader: AudioReader, options: AudioOptions) -> AudioReader:
    """Return an open reader, unless the options ask for another track, channel or rate."""
    for name in ("track", "channel", "sampling_rate"):
        value, opened = getattr(options, name), getattr(reader.options, name)
        if value not in (checks.default(AudioOptions, name), opened):
            raise OptionError(
                f"{name}={value!r}: {reader.name} is open with {name}={opened!r}; "
                f"give {name} to open_audio"
            )
    return reader


def _offset(file: BinaryIO) -> int:
    """Return the position of an open file in bytes; 0 if the file cannot seek."""
    try:
        return file.tell() if file.seekable() else 0
    except (AttributeError, OSError, ValueError):
        return 0


def _media_random_access(
    name: str, file: str | BinaryIO, options: AudioOptions
) -> RandomAccess | None:
    """Open random access; None for pipes, streams and recordings of unknown duration."""
    try:
        if isinstance(file, str):
            if not Path(file).is_file():  # a pipe, a device, a URL
                return None
            access = MediaRandomAccess(name, file, options)
        elif not file.seekable():
            return None
        else:
            access = SharedFileRandomAccess(name, file, options)
    except (AudioError, AttributeError, OSError, ValueError):
        return None
    if access.duration <= 0:
        access.close()
        return None
    return access


def _file(source: object) -> tuple[str, str | BinaryIO]:
    """Return the name of a source for messages, and the path, URL or file for FFmpeg."""
    if isinstance(source, str | PathLike):
        path = fspath(source)
        if path == "-":
            return "<stdin>", _binary("<stdin>", getattr(sys.stdin, "buffer", sys.stdin))
        if not isinstance(path, str):
            raise AudioError(f"the path {path!r} is bytes; give a str or a pathlib.Path")
        if "://" not in path:
            _check_path(Path(path))
        return path, path
    if isinstance(source, bytes | bytearray | memoryview):
        if not len(source):
            raise AudioError("is empty; give the bytes of a media file", source="<bytes>")
        return "<bytes>", io.BytesIO(source)
    if callable(getattr(source, "read", None)):
        return _name(source), _binary(_name(source), source)
    raise AudioError(
        f"{type(source).__name__} is not a recording; give a path, bytes, an open binary file, "
        "an Audio, or a float32 or int16 array"
    )


def _binary(name: str, file: object) -> BinaryIO:
    """Return the file if it can be read and returns bytes."""
    try:
        empty = file.read(0)  # type: ignore[attr-defined]
    except Exception as error:  # a file object of the caller may raise anything
        raise AudioError(f"cannot be read: {error}", source=name) from error
    if isinstance(empty, str):
        raise AudioError("is open as text; open it with mode 'rb'", source=name)
    return file  # type: ignore[return-value]  # an object that reads bytes


def _name(file: object) -> str:
    name = getattr(file, "name", None)
    return name if isinstance(name, str) else f"<{type(file).__name__}>"


def _check_path(path: Path) -> None:
    """Refuse paths for which the error message of FFmpeg would be less clear."""
    try:
        if path.is_dir():
            raise AudioError("is a directory; give the files in it", source=str(path))
        if path.is_file() and not path.stat().st_size:
            raise AudioError("is empty; check whether it is still being written", source=str(path))
        if not path.exists():
            raise AudioError("there is no such file; check the path", source=str(path))
    except (OSError, ValueError) as error:
        raise AudioError(f"cannot be opened: {error}", source=str(path)) from error


def _open_array(audio: Audio, options: AudioOptions) -> AudioReader:
    name, samples, rate = "<array>", audio.samples, audio.sampling_rate
    if isinstance(rate, bool) or not isinstance(rate, int | np.integer):
        raise OptionError(f"sampling_rate must be a whole number of Hz, not {rate!r}")
    if not MIN_RATE <= rate <= MAX_RATE:
        raise OptionError(f"sampling_rate={rate} is out of range: {MIN_RATE} to {MAX_RATE} Hz")
    if options.track:
        raise OptionError(f"track={options.track}: an array has only track 0; leave track out")
    if options.channel == "right":
        raise OptionError(
            "channel='right': an array has one channel; give the right channel itself, such as "
            "samples[:, 1]"
        )
    if not isinstance(samples, np.ndarray) or samples.dtype not in (np.float32, np.int16):
        kind = samples.dtype if isinstance(samples, np.ndarray) else type(samples).__name__
        raise AudioError(
            f"samples must be a float32 or int16 array, not {kind}; convert with "
            "samples.astype(np.float32), scaled to the range from -1 to 1",
            source=name,
        )
    if samples.ndim != 1:
        raise AudioError(
            f"samples have shape {samples.shape}, not (n_samples,); choose a channel, such as "
            "samples[:, 0], or the mean of all channels",
            source=name,
        )
    if not len(samples):
        raise AudioError("has no samples; give at least one", source=name)
    _check_finite(name, samples, int(rate))
    return AudioReader(
        name,
        to_mono(samples, int(rate)),
        lambda: None,
        lambda: ArrayRandomAccess(samples, int(rate)),
        options,
    )


def _check_finite(name: str, samples: npt.NDArray[np.float32 | np.int16], rate: int) -> None:
    if samples.dtype == np.int16:
        return
    for start in range(0, len(samples), BLOCK):
        finite = np.isfinite(samples[start : start + BLOCK])
        if not finite.all():
            raise _not_finite(name, (start + int(np.argmin(finite))) / rate)


def _not_finite(name: str, time: float) -> AudioError:
    return AudioError(
        f"has NaN or infinite samples at {time:.3f} s; replace them, for example by silence",
        source=name,
    )
