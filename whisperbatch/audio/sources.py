"""Sources of recordings: their names, what FFmpeg reads of them, and checks of arrays."""

import io
import sys
from collections.abc import Iterable, Mapping
from dataclasses import replace
from os import PathLike, fspath
from pathlib import Path
from typing import Final, cast

import numpy as np
import numpy.typing as npt

from whisperbatch.addresses import without_secrets
from whisperbatch.audio.clips import check_separate
from whisperbatch.audio.file_objects import FileObject, given_name
from whisperbatch.audio.resampling import BLOCK, MAX_LOUD
from whisperbatch.boundary import describe
from whisperbatch.errors import AudioError, OptionError
from whisperbatch.options import (
    MAX_SAMPLING_RATE,
    MIN_SAMPLING_RATE,
    Options,
    checks,
    plain,
)
from whisperbatch.text.messages import shown
from whisperbatch.types import SAMPLING_RATE, Audio

ARRAY_NAME: Final = "<array>"
BYTES: Final = (bytes, bytearray, memoryview)
MAX_PATH: Final = 4096  # characters: Linux's limit; other systems have lower limits


def file_of(name: str, source: object) -> str | FileObject:
    """Return the path, URL or file object that FFmpeg reads."""
    if isinstance(source, str | PathLike):
        path = _path(source)
        if path == "-":
            return FileObject(name, _standard_input(name))
        if not isinstance(path, str):
            raise AudioError(f"the path {shown(path)} is bytes; give a str or a pathlib.Path")
        if "://" not in path:
            check_path(Path(path))
        return path
    if isinstance(source, BYTES):
        try:
            data = source.tobytes() if isinstance(source, memoryview) else source
        except ValueError as error:
            raise AudioError(f"cannot be read: {describe(error)}", source=name) from error
        if not data:
            raise AudioError("is empty; give the bytes of a media file", source=name)
        return FileObject(name, io.BytesIO(data))
    if callable(getattr(source, "read", None)):
        return FileObject(name, source)
    raise AudioError(f"{type(source).__name__} is not a recording; {_instead_of(source)}")


def _instead_of(source: object) -> str:
    """Return what to give instead of a value that is no recording."""
    if isinstance(source, list | tuple):
        return "for several recordings call transcribe_many"
    if isinstance(source, Mapping) and "sampling_rate" in source:
        samples = "array" if "array" in source else "raw"
        return (
            f"give whisperbatch.Audio(item[{samples!r}].astype(numpy.float32), "
            "item['sampling_rate'])"
        )
    if hasattr(type(source), "transcribe"):
        return 'call its method: model.transcribe("talk.mp3")'
    return "give a path, bytes, an open binary file, an Audio, or a float32 or int16 array"


def plain_source(source: object) -> object:
    """Return the samples of an object with `__array__`, such as a tensor; other sources unchanged.

    Raises:
        AudioError: the object cannot be converted, for example because it is on a GPU.
    """
    if isinstance(source, Audio):
        samples = cast("npt.NDArray[np.float32]", plain_source(source.samples))
        return source if samples is source.samples else replace(source, samples=samples)
    if isinstance(source, np.ndarray) or not hasattr(type(source), "__array__"):
        return source
    try:
        return np.asarray(source)
    except Exception as error:  # an object of the caller may raise anything
        kind = f"{type(source).__module__.partition('.')[0]}.{type(source).__name__}"
        raise AudioError(
            f"{kind} cannot be converted to an array of NumPy: {describe(error)}"
        ) from error


def _path(source: str | PathLike[str]) -> object:
    try:
        return fspath(source)
    except Exception as error:  # an object of the caller may raise anything
        raise AudioError(f"{shown(source)} is not a path") from error


def _standard_input(name: str) -> object:
    if sys.stdin is None or sys.stdin.closed:
        raise AudioError("standard input is closed; give a file, or connect a pipe", source=name)
    return getattr(sys.stdin, "buffer", sys.stdin)


def name_of(source: object) -> str:
    """Return the name of a source for messages and results, without the secrets of a URL."""
    if isinstance(source, str | PathLike):
        path = _path(source)
        return "<stdin>" if path == "-" else without_secrets(str(path), whole=True)
    if isinstance(source, np.ndarray | Audio):
        return ARRAY_NAME
    if isinstance(source, BYTES):
        return "<bytes>"
    name = given_name(source)
    if isinstance(name, str):
        return without_secrets(name, whole=True)
    return f"<{type(source).__name__}>"


def check_path(path: Path) -> None:
    """Refuse paths for which the error message of FFmpeg would be less clear.

    Raises:
        AudioError: there is no file, the file is empty, or the path is too long or a directory.
    """
    name = str(path)
    if len(name) > MAX_PATH:
        too_long = AudioError(f"{shown(name)}: cannot be opened: it has {len(name)} characters")
        too_long.source = name
        raise too_long
    try:
        if path.is_dir():
            raise AudioError("is a directory; give the files in it", source=name)
        if path.is_file() and not path.stat().st_size:
            raise AudioError("is empty; check whether it is still being written", source=name)
        if not path.exists():
            raise AudioError("there is no such file; check the path", source=name)
    except (OSError, ValueError) as error:
        raise AudioError(f"cannot be opened: {describe(error)}", source=name) from error


def check_several(sources: object) -> None:
    """Check that sources are several recordings, and not a single recording.

    Raises:
        OptionError: `sources` is a single recording, or no iterable.
    """
    single_source = (str, *BYTES, PathLike, np.ndarray, Audio)
    if isinstance(sources, single_source) or hasattr(sources, "read") or _has_numbers(sources):
        raise OptionError(
            "sources must be several recordings; for a single recording call transcribe()"
        )
    if not isinstance(sources, Iterable):
        raise OptionError(
            f"sources must be an iterable of recordings, not {type(sources).__name__}"
        )


def _has_numbers(sources: object) -> bool:
    """Return whether an object is samples, and not a column of paths, such as one of pandas."""
    kind = getattr(getattr(sources, "dtype", None), "kind", "f")
    return hasattr(type(sources), "__array__") and kind in "fiu"


MAX_LOUD_SHARE: Final = 0.001  # of the samples beyond MAX_LOUD: more are no clicks


def check_array(audio: Audio, options: Options, name: str) -> None:
    """Check samples before they are read.

    Args:
        audio: the samples and their sampling rate.
        options: the track and the channel.
        name: name of the recording, for messages.

    Raises:
        AudioError: the samples have the wrong type, shape or scale, or are not finite.
        OptionError: the sampling rate is impossible, or an option does not fit an array.
    """
    samples, rate = audio.samples, cast("int", plain(audio.sampling_rate))
    checks.integer("sampling_rate", rate, minimum=MIN_SAMPLING_RATE, maximum=MAX_SAMPLING_RATE)
    if options.sampling_rate not in (None, rate):
        raise OptionError(
            f"`sampling_rate={options.sampling_rate}` contradicts the Audio, which states {rate}; "
            "leave the option out"
        )
    if options.track:
        raise OptionError(f"`track={options.track}`: an array has only track 0; leave `track` out")
    if options.channel == "right":
        raise OptionError(
            "`channel='right'`: an array has one channel; give the right channel itself, such as "
            "samples[:, 1]"
        )
    if not isinstance(samples, np.ndarray) or samples.dtype not in (np.float32, np.int16):
        kind = samples.dtype if isinstance(samples, np.ndarray) else type(samples).__name__
        raise AudioError(
            f"samples must be a float32 or int16 array, not {kind}; convert with "
            "samples.astype(np.float32), scaled to the range from -1 to 1",
            source=name,
        )
    if options.separates_channels:
        _check_channels(samples, name)
    elif samples.ndim != 1:
        raise AudioError(
            f"samples have shape {samples.shape}, not (n_samples,); choose a channel, such as "
            "samples[:, 0], or the mean of all channels",
            source=name,
        )
    if not len(samples):
        raise AudioError("has no samples; give at least one", source=name)
    if samples.dtype == np.float32:
        for start in range(0, len(samples), BLOCK):
            check_finite(samples[start : start + BLOCK], name, start, rate)
        _check_scale(samples, name)


def _check_channels(samples: npt.NDArray[np.float32 | np.int16], name: str) -> None:
    """Check for samples of shape (n_samples, n_channels)."""
    if samples.ndim == 1:
        check_separate(name, 1)
    if samples.ndim != 2 or (len(samples) < samples.shape[1] and len(samples)):  # noqa: PLR2004 - two dimensions
        hint = "; give samples.T" if samples.ndim == 2 else ""  # noqa: PLR2004 - two dimensions
        raise AudioError(
            f"samples have shape {samples.shape}, not (n_samples, n_channels){hint}", source=name
        )
    check_separate(name, samples.shape[1])


def check_finite(
    block: npt.NDArray[np.float32 | np.int16], name: str, position: int, rate: int = SAMPLING_RATE
) -> None:
    """Check a block of a recording.

    Args:
        block: shape (n_samples,) or (n_samples, n_channels).
        name: name of the recording, for the message.
        position: first sample of the block, counted in the recording.
        rate: sampling rate of the block, in Hz.

    Raises:
        AudioError: a sample is NaN or infinite.
    """
    finite = np.isfinite(block)
    if not finite.all():
        first = position + int(np.argmin(finite.reshape(len(finite), -1).all(axis=1)))
        raise AudioError(
            f"has NaN or infinite samples at {first / rate:.3f} s; replace them, for example by "
            "silence",
            source=name,
        )


def _check_scale(samples: npt.NDArray[np.float32 | np.int16], name: str) -> None:
    """Refuse samples in the range of int16, whose text would be nonsense.

    A few clicks, and recordings that are far too loud, are accepted.
    """
    blocks = [samples[start : start + BLOCK] for start in range(0, len(samples), BLOCK)]
    loud = sum(int(np.count_nonzero(np.abs(block) > MAX_LOUD)) for block in blocks)
    if not loud:
        return
    whole = all(bool((block == np.rint(block)).all()) for block in blocks)
    if whole or loud > MAX_LOUD_SHARE * samples.size:
        peak = max(float(np.abs(block).max()) for block in blocks)
        raise AudioError(
            f"has float32 samples up to {peak:.0f}, which must be from -1 to 1; divide samples in "
            "the range of int16 by 32768, or give them as int16",
            source=name,
        )
