"""One call of `transcribe`: the info at once, and a generator that decodes the segments.

    open the recording -> detect its language -> info, and a generator that has not started yet

The language is detected by random access. Recordings without random access, such as pipes, cannot
be sampled: their first segment is decoded before the info is returned.
"""

import functools
import io
import logging
import os
from collections.abc import Callable, Generator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any, Final, cast

import numpy as np

from whisperbatch import Transcriber, chunk_audio, types
from whisperbatch.apart import runs_apart
from whisperbatch.audio import AudioReader, open_audio
from whisperbatch.compat.faster_whisper._arguments import (
    TranscribeArguments,
    detection_keywords,
    effective_options,
    to_detection_options,
    to_options,
)
from whisperbatch.compat.faster_whisper._results import Segment, TranscriptionInfo
from whisperbatch.compat.faster_whisper._segments import to_segments
from whisperbatch.compat.faster_whisper.vad import effective_vad_options
from whisperbatch.errors import WhisperBatchError
from whisperbatch.options import Options
from whisperbatch.types import Audio, DeferredSource, Source, SpanSource, to_seconds

SILENCE: Final = np.zeros(1, np.float32)
"""The source for an array without samples: faster-whisper accepts it, and whisperbatch does not."""

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class _Language:
    """A recording's language with its probability; with all probabilities if it was detected."""

    code: str
    probability: float
    probabilities: Mapping[str, float] = field(default_factory=dict)

    def ranked(self) -> list[tuple[str, float]] | None:
        """Return all languages, the most probable first; None if the language was given."""
        return sorted(self.probabilities.items(), key=lambda item: -item[1]) or None


@runs_apart
def transcribe(
    asr: Transcriber, audio: object, arguments: TranscribeArguments
) -> tuple[Generator[Segment, None, None], TranscriptionInfo]:
    """Return a generator of segments, and the info of the recording.

    Raises:
        OptionError: a parameter cannot be honoured.
        AudioError: the recording cannot be read.
    """
    arguments = _for_model(arguments, asr)
    source = as_source(audio)
    if source is SILENCE:
        arguments = arguments.replace(vad_filter=True)  # there is nothing to decode
    options = to_options(arguments, arguments.language, multilingual=arguments.multilingual)
    detection = to_detection_options(arguments)
    vad_source = second_source(source)
    with ExitStack() as stack:
        reader = stack.enter_context(open_audio(source, options))
        duration = 0.0 if source is SILENCE else _duration(reader)
        language = _language(asr, reader, arguments, detection)
        options = to_options(
            arguments,
            language.code if language else None,
            multilingual=arguments.multilingual,
            one_window=not callable(duration) and duration <= to_seconds(types.WINDOW),
        )
        segments = asr.stream(reader, options=options)
        stack.pop_all()
    first = None if language else next(segments, None)
    if language is None:
        code, probability = segments.language or "en", segments.language_probability
        language = _Language(code, probability, segments.language_probabilities)
    info = TranscriptionInfo(
        language=language.code,
        language_probability=language.probability,
        duration=cast("float", duration),  # or a function; see TranscriptionInfo
        duration_after_vad=cast("float", _duration_after_vad(vad_source, options, duration)),
        all_language_probs=language.ranked(),
        transcription_options=effective_options(options, arguments),
        vad_options=effective_vad_options(options),
    )
    all_segments = chain((first,) if first else (), segments)
    tokenizer = asr.engine.tokenizer
    return to_segments(segments, all_segments, tokenizer, arguments, info.duration), info


def _for_model(arguments: TranscribeArguments, asr: Transcriber) -> TranscribeArguments:
    """Return the arguments without languages for an English-only model, as faster-whisper does."""
    if asr.engine.is_multilingual:
        return arguments
    if arguments.multilingual:
        log.warning("the model is English-only: multilingual=True has no effect")
    if arguments.language not in (None, "en"):
        log.warning("the model is English-only: language=%r has no effect", arguments.language)
    return arguments.replace(multilingual=False, language="en" if arguments.language else None)


def _language(
    asr: Transcriber, reader: AudioReader, arguments: TranscribeArguments, options: Options
) -> _Language | None:
    """Return the language; None if it cannot be detected without reading the whole recording."""
    if arguments.language:
        return _Language(arguments.language, 1.0)
    detection = asr.detect_language(reader, read_through=False, **detection_keywords(options))
    if detection.language is None:
        return None
    probabilities = detection.probabilities if asr.engine.is_multilingual else {}
    return _Language(detection.language, detection.probability, probabilities)


def _duration(reader: AudioReader) -> float | Callable[[], float]:
    """Return the duration in seconds, or a function that returns the seconds read so far."""
    with reader.random_access() as recording:
        if recording:
            return recording.duration
    return lambda: to_seconds(reader.position)


def _duration_after_vad(
    source: Source | None, options: Options, duration: float | Callable[[], float]
) -> float | Callable[[], float]:
    """Return a function that measures the seconds of speech at its first call; or `duration`."""
    if source is None or not (options.vad or options.clip_timestamps):
        return duration

    @functools.cache
    def measured() -> float:
        try:
            return seconds_of_speech(source, options)[0]
        except WhisperBatchError as error:  # the file may have been removed
            log.warning("duration_after_vad is not known: %s", error)
            return duration() if callable(duration) else duration

    return measured


def seconds_of_speech(source: Source, options: Options) -> tuple[float, float]:
    """Return the seconds of speech in a recording, margins included, and the seconds read."""
    with open_audio(source, options) as reader:
        speech = sum(chunk.speech_duration for chunk in chunk_audio(reader, options=options))
        return speech, to_seconds(reader.position)


def as_source(audio: object) -> Source:
    """Return the audio as a source; floating-point samples become float32.

    Any object with `__array__` holds samples, for example a tensor. No samples become `SILENCE`.
    """
    if isinstance(audio, np.ndarray) or hasattr(audio, "__array__"):
        samples = np.asarray(cast("Any", audio))
        if not samples.size:
            return SILENCE
        return samples.astype(np.float32, copy=False) if samples.dtype.kind == "f" else samples
    return cast("Source", audio)  # `open_audio` refuses unsupported types


def second_source(source: Source) -> Source | None:
    """Return the same recording for a second, independent reader; None if there can be only one."""
    if isinstance(source, np.ndarray | Audio | bytes | bytearray | memoryview):
        return source
    if isinstance(source, SpanSource | DeferredSource):
        return None
    if isinstance(source, str | Path):
        return source if Path(source).is_file() else None
    if isinstance(source, io.BytesIO):
        return io.BytesIO(source.getvalue()[source.tell() :])
    name = getattr(source, "name", None)
    try:
        if isinstance(name, str) and source.tell() == 0 and _is_file(source.fileno(), name):
            return name
    except (AttributeError, OSError, ValueError):
        pass
    return None


def _is_file(descriptor: int, name: str) -> bool:
    """Return whether an open file is the regular file of that name."""
    return Path(name).is_file() and os.path.samestat(os.fstat(descriptor), Path(name).stat())
