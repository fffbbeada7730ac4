"""faster-whisper's options of voice activity detection, and its function."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from whisperbatch import chunk_audio
from whisperbatch.compat.faster_whisper._defaults import is_given, unless_given
from whisperbatch.errors import OptionError
from whisperbatch.options import OptionKeywords, Options, resolve
from whisperbatch.types import SAMPLING_RATE

__all__ = ["VadOptions", "get_speech_timestamps"]

LONGEST: Final = 30.0  # seconds: longer speech is cut in any case
FALL: Final = 0.15  # that the threshold for the end of speech lies under that for its start
LEAST: Final = 0.01  # that it is at least


@dataclass
class VadOptions:
    """Where speech starts and ends.

    What is left at its default is as whisperbatch has it: see `effective`.

    Attributes:
        threshold: speech starts where its probability reaches this.
        neg_threshold: speech ends where it falls below this; by default 0.15 under `threshold`.
        min_speech_duration_ms: shorter speech is passed over.
        max_speech_duration_s: longer speech is cut, and in any case what is longer than 30 s.
        min_silence_duration_ms: shorter silence does not end speech.
        speech_pad_ms: margin on either side of speech.
    """

    threshold: float = 0.5
    neg_threshold: float | None = None
    min_speech_duration_ms: int = unless_given(0)
    max_speech_duration_s: float = float("inf")
    min_silence_duration_ms: int = unless_given(2000)
    speech_pad_ms: int = unless_given(400)


def mapped(given: object) -> OptionKeywords:
    """Our options for `vad_parameters`: a dict, or an object with the fields of `VadOptions`.

    Raises:
        OptionError: it holds something else.
    """
    values = {name: value for name, value in _values(given).items() if is_given(value)}
    found: OptionKeywords = {}
    onset, offset = values.get("threshold"), values.get("neg_threshold")
    if onset is not None:
        found["vad_onset"] = onset
        found["vad_offset"] = min(max(onset - FALL, LEAST), onset)
    if offset is not None:
        found["vad_offset"] = offset
    if (longest := values.get("max_speech_duration_s")) is not None:
        found["max_speech_duration"] = min(longest, LONGEST)
    if (speech := values.get("min_speech_duration_ms")) is not None:
        found["min_speech_duration"] = speech / 1000
    if (silence := values.get("min_silence_duration_ms")) is not None:
        found["min_silence_duration"] = silence / 1000
    if (pad := values.get("speech_pad_ms")) is not None:
        found["speech_pad"] = pad / 1000
    return found


def _values(given: object) -> dict[str, Any]:
    names = [field.name for field in fields(VadOptions)]
    if isinstance(given, Mapping):
        if unknown := [name for name in given if name not in names]:
            raise OptionError(f"vad_parameters: {unknown[0]!r} is none of {', '.join(names)}")
        values = dict(given)
    elif given is None or all(hasattr(given, name) for name in names):
        values = {name: getattr(given, name) for name in names} if given is not None else {}
    else:
        raise OptionError(f"vad_parameters must be a dict or VadOptions, not {given!r}")
    for name, value in values.items():
        if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
            raise OptionError(f"vad_parameters: {name} must be a number, not {value!r}")
    return values


def effective(options: Options) -> VadOptions | None:
    """The values in effect; None where there is no detection."""
    if not options.vad:
        return None
    return VadOptions(
        threshold=options.vad_onset,
        neg_threshold=options.vad_offset,
        min_speech_duration_ms=round(1000 * options.min_speech_duration),
        max_speech_duration_s=min(options.max_speech_duration, options.chunk_length),
        min_silence_duration_ms=round(1000 * options.min_silence_duration),
        speech_pad_ms=round(1000 * options.speech_pad),
    )


def get_speech_timestamps(
    audio: npt.NDArray[np.float32],
    vad_options: VadOptions | None = None,
    sampling_rate: int = SAMPLING_RATE,
    **kwargs: float,
) -> list[dict[str, int]]:
    """Stretches of speech, in order, as {"start": sample, "end": sample}.

    Args:
        audio: samples at 16 kHz.
        vad_options: where speech starts and ends.
        sampling_rate: 16000.
        **kwargs: the fields of `VadOptions`, in place of `vad_options`.

    Raises:
        OptionError: an option cannot be honoured.
    """
    if sampling_rate != SAMPLING_RATE:
        raise OptionError(f"sampling_rate={sampling_rate}: speech is found at 16000 Hz; resample")
    options = resolve(None, **mapped(kwargs if vad_options is None else vad_options))
    return [{"start": start, "end": end} for start, end in _spans(audio, options)]


def _spans(audio: npt.NDArray[np.float32], options: Options) -> Iterator[tuple[int, int]]:
    samples = np.asarray(audio, np.float32)
    if not len(samples):
        return
    for chunk in chunk_audio(samples, options=options):
        yield from ((span.start, span.end) for span in chunk.speech)
