"""Any source of sound -> blocks of mono samples at 16 kHz, as they are asked for.

Media are decoded in media.py; this is what a source may be, and the samples that are in memory
already.
"""

import io
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from os import PathLike, fspath
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self

import numpy as np
import numpy.typing as npt

from whisperbatch.audio.media import RATES, MediaDecoder
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
    """One recording, open. Read by one thread; `close()` at any time, from any.

    A context manager, too: closed where its block ends.

    Attributes:
        name: of the recording, for people.
        position: samples given so far; after the last block, the recording's length.
        closed: whether the reader is closed. Reading then ends early.
        options: the track, the channel and the sampling rate that it was opened with.
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
        """The recording from its start, once: blocks of at most 1 s, none empty.

        Raises:
            AudioError: it cannot be read further, or holds NaN or infinite samples.
        """
        while (block := self._next()) is not None:
            if not np.isfinite(block).all():
                at = to_seconds(self.position + int(np.argmin(np.isfinite(block))))
                raise AudioError(
                    f"has NaN or infinite samples at {at:.3f} s; replace them, by silence say",
                    source=self.name,
                )
            self.position += len(block)
            yield block

    @contextmanager
    def random_access(self) -> Iterator[RandomAccess | None]:
        """The same recording to be read out of order; None where it can only be read through.

        Before `blocks()` is asked for, by the same thread.
        """
        with self._reading:
            found = None if self.closed else self._open_random_access()
            try:
                yield found
            finally:
                if found:
                    found.close()
                if self.closed:
                    self._close()

    def close(self) -> None:
        """Free the file. Safe to call twice, and while another thread waits for a pipe.

        FFmpeg must not be closed while it reads: then the reading thread closes it on its return.
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
    """Open a recording, far enough to know that it can be read.

    Args:
        source: see `types.Source`. A file of the caller's stays open; an array is not modified.
            An `AudioReader` is returned as it is.
        options: which track, which channel, and the rate of an array; None for the defaults.

    Raises:
        AudioError: it is missing, empty, not audio, or has no such track; or the array's type or
            shape is wrong.
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
                f"sampling_rate={options.sampling_rate}, but the Audio says "
                f"{source.sampling_rate}; leave the option out"
            )
        return _open_array(source, options)
    name, file = _file(source)
    if options.sampling_rate is not None:
        raise OptionError(
            f"sampling_rate is for samples in an array; {name} states its own, leave it out"
        )
    begins_later = not isinstance(file, str) and _offset(file)
    decoder = MediaDecoder(name, file, options)
    return AudioReader(
        name,
        decoder.blocks(),
        decoder.close,
        lambda: None if begins_later else _media_random_access(name, file, options),
        options,
    )


def _opened(reader: AudioReader, options: AudioOptions) -> AudioReader:
    """An open reader, if the options do not ask for another track, channel or rate."""
    for name in ("track", "channel", "sampling_rate"):
        value, opened = getattr(options, name), getattr(reader.options, name)
        if value not in (checks.default(AudioOptions, name), opened):
            raise OptionError(
                f"{name}={value!r}: {reader.name} is open with {name}={opened!r}; "
                f"give {name} to open_audio"
            )
    return reader


def _offset(file: BinaryIO) -> int:
    """Where an open file stands: what FFmpeg is given begins there."""
    try:
        return file.tell() if file.seekable() else 0
    except (AttributeError, OSError, ValueError):
        return 0


def _media_random_access(
    name: str, file: str | BinaryIO, options: AudioOptions
) -> RandomAccess | None:
    """None where it is a pipe or stream, or nobody knows how long it is."""
    try:
        if isinstance(file, str):
            if not Path(file).is_file():  # a pipe, a device, a URL
                return None
            found = MediaRandomAccess(name, file, options)
        elif not file.seekable():
            return None
        else:
            found = SharedFileRandomAccess(name, file, options)
    except (AudioError, AttributeError, OSError, ValueError):
        return None
    if found.duration <= 0:
        found.close()
        return None
    return found


def _file(source: object) -> tuple[str, str | BinaryIO]:
    """A source's name, and what FFmpeg is to open."""
    if isinstance(source, str | PathLike):
        path = fspath(source)
        if path == "-":
            return "<stdin>", _binary("<stdin>", getattr(sys.stdin, "buffer", sys.stdin))
        if not isinstance(path, str):
            raise AudioError(f"the path {path!r} is bytes; give it as str or pathlib.Path")
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
        f"{type(source).__name__} is no kind of recording; give a path, bytes, an open binary "
        "file, an Audio, or a float32 or int16 array"
    )


def _binary(name: str, file: object) -> BinaryIO:
    """The same file, if it gives bytes."""
    try:
        nothing = file.read(0)  # type: ignore[attr-defined]
    except Exception as error:  # it may raise anything
        raise AudioError(f"cannot be read: {error}", source=name) from error
    if isinstance(nothing, str):
        raise AudioError("is open as text; open it with mode 'rb'", source=name)
    return file  # type: ignore[return-value]  # it reads bytes: that is enough


def _name(file: object) -> str:
    name = getattr(file, "name", None)
    return name if isinstance(name, str) else f"<{type(file).__name__}>"


def _check_path(path: Path) -> None:
    """What FFmpeg would say less clearly."""
    try:
        if path.is_dir():
            raise AudioError("is a directory; give its files", source=str(path))
        if path.is_file() and not path.stat().st_size:
            raise AudioError("is empty; is it still being written?", source=str(path))
        if not path.exists():
            raise AudioError("there is no such file; is the path right?", source=str(path))
    except (OSError, ValueError) as error:
        raise AudioError(f"cannot be opened: {error}", source=str(path)) from error


def _open_array(audio: Audio, options: AudioOptions) -> AudioReader:
    name, samples, rate = "<array>", audio.samples, audio.sampling_rate
    if isinstance(rate, bool) or not isinstance(rate, int | np.integer):
        raise OptionError(f"sampling_rate must be a whole number of Hz, not {rate!r}")
    if not RATES[0] <= rate <= RATES[1]:
        raise OptionError(f"sampling_rate={rate} is out of range: {RATES[0]} to {RATES[1]} Hz")
    if options.track:
        raise OptionError(f"track={options.track}: an array has one track, 0")
    if options.channel == "right":
        raise OptionError("channel='right': an array has one channel; give samples[:, 1]")
    if not isinstance(samples, np.ndarray) or samples.dtype not in (np.float32, np.int16):
        kind = samples.dtype if isinstance(samples, np.ndarray) else type(samples).__name__
        raise AudioError(
            f"samples must be a float32 or int16 array, not {kind}; convert with "
            "samples.astype(np.float32), scaled to lie within -1 and 1",
            source=name,
        )
    if samples.ndim != 1:
        raise AudioError(
            f"samples have shape {samples.shape}, not (n_samples,); choose a channel, such as "
            "samples[:, 0], or give their mean",
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
            at = (start + int(np.argmin(finite))) / rate
            raise AudioError(
                f"has NaN or infinite samples at {at:.3f} s; replace them, by silence say",
                source=name,
            )
