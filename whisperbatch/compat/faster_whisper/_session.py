"""One call of `transcribe`, and its segments in faster-whisper's form.

    our segments -> ids, tokens -> without anomalies, or with the times of windows -> progress bar

Without word times, a segment of a clip has the clip's times in faster-whisper, and text with a
prefix starts with its window. Here, segments have the times of their words.

`hallucination_silence_threshold` drops improbable segments between silences. The word score and the
segment test are openai/whisper's heuristic (whisper/transcribe.py). There, the decoder starts again
after the silence. Here, silence is not decoded in the first place, so the segment is only dropped.

A call returns the info at once, and a generator that decodes the segments.

    open the recording -> detect its language -> info, and a generator that has not started yet

The language is detected by random access. Recordings without random access, such as pipes, cannot
be sampled: their first segment is decoded before the info is returned.
"""

import functools
import io
import logging
import os
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final, cast

import numpy as np

from whisperbatch import SegmentStream, Transcriber, chunk_audio, types
from whisperbatch.apart import runs_apart
from whisperbatch.audio import AudioReader, open_audio
from whisperbatch.compat.faster_whisper._arguments import (
    TranscribeArguments,
    detection_keywords,
    effective_options,
    parse_clips,
    to_detection_options,
    to_options,
)
from whisperbatch.compat.faster_whisper._results import Segment, TranscriptionInfo, Word
from whisperbatch.compat.faster_whisper.vad import effective_vad_options
from whisperbatch.errors import WhisperBatchError
from whisperbatch.options import Options
from whisperbatch.progress import Bars, Meter
from whisperbatch.text import UNSPACED
from whisperbatch.types import Audio, DeferredSource, Source, SpanSource, to_seconds

if TYPE_CHECKING:
    from tokenizers import Tokenizer

FRAMES_PER_SECOND: Final = 100  # of `Segment.seek`
MIN_PROBABILITY: Final = 0.15  # of a word; a less probable word adds 1 to the score
MIN_WORD: Final = 0.133  # seconds; spoken words are not shorter
MAX_WORD: Final = 2.0  # seconds; spoken words are not longer; each further second adds 1
SHORTNESS_WEIGHT: Final = 15.0  # added to the score for each second below MIN_WORD
MAX_WORDS: Final = 8  # the words at a segment's start that are scored
MAX_SCORE: Final = 3.0  # a segment with this score or more is anomalous
ROUNDING: Final = 0.01  # tolerance of the comparison with the number of words

Clip = tuple[float, float | None]

log = logging.getLogger(__name__)


def to_segments(
    stream: SegmentStream,
    stream_segments: Iterable[types.Segment],
    tokenizer: "Tokenizer",
    arguments: TranscribeArguments,
    duration: float,
) -> Generator[Segment, None, None]:
    """Yield faster-whisper's segments; the stream is closed at their end, or with the generator."""
    segments: Iterator[Segment] = (_segment(segment, tokenizer) for segment in stream_segments)
    silence = arguments.hallucination_silence_threshold
    if silence is not None and arguments.word_timestamps:
        segments = without_anomalies(segments, silence)
    if not arguments.word_timestamps:
        segments = _with_window_times(segments, arguments)
    with stream:
        yield from with_progress(segments, duration) if arguments.log_progress else segments


def _segment(segment: types.Segment, tokenizer: "Tokenizer") -> Segment:
    text = segment.text if segment.language in UNSPACED else f" {segment.text}"
    words = segment.words
    return Segment(
        id=segment.id + 1,
        seek=round(segment.start * FRAMES_PER_SECOND),
        start=segment.start,
        end=segment.end,
        text=text,
        tokens=list(tokenizer.encode(text, add_special_tokens=False).ids),
        avg_logprob=segment.avg_logprob,
        compression_ratio=segment.compression_ratio,
        no_speech_prob=segment.no_speech_prob,
        words=None
        if words is None
        else [Word(w.start, w.end, w.word, w.probability) for w in words],
        temperature=segment.temperature,
    )


def _with_window_times(
    segments: Iterator[Segment], arguments: TranscribeArguments
) -> Iterator[Segment]:
    """Return the segments with the times that faster-whisper gives segments without words."""
    clips = parse_clips(arguments.clip_timestamps)
    if arguments.without_timestamps:
        return with_clip_times(segments, clips) if clips else segments
    if arguments.prefix:
        start = clips[0][0] if clips else 0.0
        return from_window_start(segments, start, arguments.max_initial_timestamp)
    return segments


def with_clip_times(segments: Iterable[Segment], clips: Sequence[Clip]) -> Iterator[Segment]:
    """Yield the segments; the first of a clip starts with the clip, and the last ends with it.

    The iterator reads one segment ahead.

    Args:
        segments: one for each chunk, in order of time.
        clips: start and end in seconds; an end of None is the end of the recording.
    """
    last_clip: Clip | None = None
    for segment, following in with_next(segments):
        clip = _clip_of(segment, clips)
        if clip and clip is not last_clip:
            segment.start = clip[0]
        if clip and clip[1] is not None and not (following and _clip_of(following, [clip])):
            segment.end = clip[1]
        last_clip = clip
        yield segment


def _clip_of(segment: Segment, clips: Sequence[Clip]) -> Clip | None:
    middle = (segment.start + segment.end) / 2
    return next(
        (clip for clip in clips if clip[0] <= middle and (clip[1] is None or middle < clip[1])),
        None,
    )


def from_window_start(
    segments: Iterable[Segment], start: float, tolerance: float
) -> Iterator[Segment]:
    """Yield the segments; the first starts with the recording if it starts shortly after.

    Args:
        segments: in order of time.
        start: of the recording or its first clip, in seconds.
        tolerance: longest time between `start` and the first segment, in seconds.
    """
    iterator = iter(segments)
    for first in iterator:
        if first.start - start <= tolerance:
            first.start = start
        yield first
        yield from iterator


def without_anomalies(segments: Iterable[Segment], silence: float) -> Iterator[Segment]:
    """Yield the segments, except anomalous ones with silence on both sides.

    On the right side, another anomalous segment counts as silence. The ends of the recording are
    silent. The remaining segments are numbered again from 1. The iterator reads one segment ahead.

    Args:
        segments: in order of time, with their words.
        silence: minimum length of a silence, in seconds (exclusive).
    """
    number, last_end = 0, float("-inf")
    for segment, following in with_next(segments):
        isolated = segment.start - last_end > silence and (
            following is None
            or following.start - segment.end > silence
            or is_anomalous(following.words or ())
        )
        if isolated and is_anomalous(segment.words or ()):
            log.info("%.2f s: dropped, improbable text in silence: %s", segment.start, segment.text)
            continue
        number, last_end = number + 1, segment.end
        segment.id = number
        yield segment


def with_next(segments: Iterable[Segment]) -> Iterator[tuple[Segment, Segment | None]]:
    """Yield each segment with the next segment; None after the last."""
    previous: Segment | None = None
    for segment in segments:
        if previous:
            yield previous, segment
        previous = segment
    if previous:
        yield previous, None


def is_anomalous(words: Iterable[Word]) -> bool:
    """Return whether the first words are, by probability and duration, unlikely to be spoken."""
    spoken = [word for word in words if any(letter.isalnum() for letter in word.word)][:MAX_WORDS]
    score = sum(_anomaly_score(word) for word in spoken)
    return bool(spoken) and (score >= MAX_SCORE or score + ROUNDING >= len(spoken))


def _anomaly_score(word: Word) -> float:
    duration = word.end - word.start
    return (
        (word.probability < MIN_PROBABILITY)
        + SHORTNESS_WEIGHT * max(MIN_WORD - duration, 0.0)
        + max(duration - MAX_WORD, 0.0)
    )


def with_progress(segments: Iterable[Segment], duration: float) -> Iterator[Segment]:
    """Yield the segments and show a progress bar on standard error, in seconds of the recording."""
    meter = Meter("transcribe", "", duration or None, Bars("seconds", named=False))
    meter.advance(0.0)
    try:
        for segment in segments:
            meter.advance(min(segment.end, duration or segment.end))
            yield segment
        meter.advance(duration)
    finally:
        meter.end()


SILENCE: Final = np.zeros(1, np.float32)
"""The source for an array without samples: faster-whisper accepts it, and whisperbatch does not."""


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
    file = cast("BinaryIO", source)
    name = getattr(file, "name", None)
    try:
        if isinstance(name, str) and file.tell() == 0 and _is_file(file.fileno(), name):
            return name
    except (AttributeError, OSError, ValueError):
        pass
    return None


def _is_file(descriptor: int, name: str) -> bool:
    """Return whether an open file is the regular file of that name."""
    return Path(name).is_file() and os.path.samestat(os.fstat(descriptor), Path(name).stat())
