"""faster-whisper's options for voice activity detection (VAD), and its function."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any, Final, cast

import numpy as np
import numpy.typing as npt

from whisperbatch import chunk_audio
from whisperbatch.compat.faster_whisper._values import (
    faster_whisper_names,
    implicit,
    is_explicit,
    originals,
)
from whisperbatch.errors import OptionError
from whisperbatch.limits import MAX_DURATION
from whisperbatch.options import OptionKeywords, Options, checks, is_number, plain, resolve
from whisperbatch.text import shown
from whisperbatch.types import SAMPLING_RATE

__all__ = ["VadOptions", "get_speech_timestamps"]

MAX_SPEECH: Final = 30.0  # seconds; longer speech is always split
OFFSET_BELOW_ONSET: Final = 0.15  # default difference of the thresholds for start and end of speech
MIN_OFFSET: Final = 0.01  # smallest default threshold for the end of speech


__getattr__ = originals(
    __name__,
    *("SileroVADModel", "SpeechTimestampsMap", "collect_chunks", "get_assets_path"),
    "get_vad_model",
)


@dataclass
class VadOptions:
    """Options that decide where speech starts and ends.

    Options left at their defaults take whisperbatch's values; see `effective_vad_options`.

    Attributes:
        threshold: speech starts where its probability reaches this value.
        neg_threshold: speech ends where its probability falls below this value; by default 0.15
            below `threshold`.
        min_speech_duration_ms: shorter speech is ignored.
        max_speech_duration_s: longer speech is split; speech longer than 30 s is always split.
        min_silence_duration_ms: shorter silence does not end speech.
        speech_pad_ms: margin on each side of speech.
    """

    threshold: float = 0.5
    neg_threshold: float | None = None
    min_speech_duration_ms: int = implicit(0)
    max_speech_duration_s: float = float("inf")
    min_silence_duration_ms: int = implicit(2000)
    speech_pad_ms: int = implicit(400)


def vad_keywords(parameters: object) -> OptionKeywords:
    """Return our options for faster-whisper's `vad_parameters`.

    Args:
        parameters: a dict, or an object with the fields of `VadOptions`; None sets nothing.

    Raises:
        OptionError: the parameters are of another kind, or a value is not a number.
    """
    values = {name: value for name, value in _values(parameters).items() if is_explicit(value)}
    keywords: OptionKeywords = {}
    onset, offset = values.get("threshold"), values.get("neg_threshold")
    if onset is not None:
        keywords["vad_onset"] = onset
        keywords["vad_offset"] = min(max(onset - OFFSET_BELOW_ONSET, MIN_OFFSET), onset)
    if offset is not None:
        keywords["vad_offset"] = offset
    if (max_speech := values.get("max_speech_duration_s")) is not None:
        keywords["max_speech_duration"] = min(max_speech, MAX_SPEECH)
    if (min_speech := values.get("min_speech_duration_ms")) is not None:
        keywords["min_speech_duration"] = min_speech / 1000
    if (min_silence := values.get("min_silence_duration_ms")) is not None:
        keywords["min_silence_duration"] = min_silence / 1000
    if (pad := values.get("speech_pad_ms")) is not None:
        keywords["speech_pad"] = pad / 1000
    return keywords


def _values(parameters: object) -> dict[str, Any]:
    names = [field.name for field in fields(VadOptions)]
    if parameters is None:
        return {}
    try:
        if issubclass(type(parameters), Mapping):
            values = dict(cast("Mapping[Any, Any]", parameters))
        else:
            values = {name: getattr(parameters, name) for name in names}
    except Exception as error:  # a foreign object may raise anything
        raise OptionError(
            f"vad_parameters must be a dict or VadOptions, not {shown(parameters)}"
        ) from error
    if unknown := [name for name in values if name not in names]:
        raise OptionError(f"vad_parameters: {shown(unknown[0])} is none of {', '.join(names)}")
    return {name: _check(name, value) for name, value in values.items()}


def _check(name: str, value: object) -> object:
    """Return a number in Python's own type, None, or a default; infinite speech is a default."""
    if value is None or not is_explicit(value):
        return value
    number = plain(value)
    if type(number) is not float or number != VadOptions.max_speech_duration_s:
        limit = MAX_DURATION
        checks.number(f"vad_parameters: {name}", number, minimum=-limit, maximum=limit)
    return number


def effective_vad_options(options: Options) -> VadOptions | None:
    """Return the VAD options in effect; None if the VAD is off."""
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
    """Return the speech spans, in order, as {"start": sample, "end": sample}.

    Args:
        audio: samples at 16 kHz, of shape (n_samples,).
        vad_options: decide where speech starts and ends.
        sampling_rate: must be 16000.
        **kwargs: fields of `VadOptions`, instead of `vad_options`.

    Raises:
        OptionError: an option cannot be honoured.
    """
    if not is_number(sampling_rate, SAMPLING_RATE):
        raise OptionError(
            f"sampling_rate={shown(sampling_rate)}: the VAD needs 16000 Hz; resample the audio"
        )
    with faster_whisper_names():
        options = resolve(None, **vad_keywords(kwargs if vad_options is None else vad_options))
    return [{"start": start, "end": end} for start, end in _spans(audio, options)]


def _spans(audio: npt.NDArray[np.float32], options: Options) -> Iterator[tuple[int, int]]:
    samples = np.asarray(audio, np.float32)
    if not len(samples):
        return
    for chunk in chunk_audio(samples, options=options):
        yield from ((span.start, span.end) for span in chunk.speech)
