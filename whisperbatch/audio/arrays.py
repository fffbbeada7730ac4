"""Checks of samples in memory: their type, shape, sampling rate and scale."""

from typing import Final, cast

import numpy as np
import numpy.typing as npt

from whisperbatch.audio.channels import check_separate
from whisperbatch.audio.resampling import BLOCK, MAX_LOUD
from whisperbatch.errors import AudioError, OptionError
from whisperbatch.options import (
    MAX_SAMPLING_RATE,
    MIN_SAMPLING_RATE,
    Options,
    checks,
    plain,
)
from whisperbatch.types import Audio

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
            f"sampling_rate={options.sampling_rate} contradicts the Audio, which states {rate}; "
            "leave the option out"
        )
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
        _check_finite(samples, rate, name)
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


def not_finite(name: str, time: float) -> AudioError:
    """Return the error for samples that are NaN or infinite at a time, in seconds."""
    return AudioError(
        f"has NaN or infinite samples at {time:.3f} s; replace them, for example by silence",
        source=name,
    )


def _check_finite(samples: npt.NDArray[np.float32 | np.int16], rate: int, name: str) -> None:
    for start in range(0, len(samples), BLOCK):
        finite = np.isfinite(samples[start : start + BLOCK])
        if not finite.all():
            rows = finite.reshape(len(finite), -1).all(axis=1)
            raise not_finite(name, (start + int(np.argmin(rows))) / rate)


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
