"""One call of `transcribe`: the info at once, and a generator that decodes the segments.

    open the recording -> detect its language -> info, and a generator that has not started yet

The language is detected by random access. Recordings without random access, such as pipes, cannot
be sampled: their first segment is decoded before the info is returned.
"""

import functools
import logging
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, cast

from whisperbatch import SegmentStream, Transcriber, chunk_audio, types
from whisperbatch.apart import runs_apart
from whisperbatch.audio import AudioReader, open_audio
from whisperbatch.compat.faster_whisper._anomalies import without_anomalies
from whisperbatch.compat.faster_whisper._options.arguments import TranscribeArguments
from whisperbatch.compat.faster_whisper._options.clips import parse_clips
from whisperbatch.compat.faster_whisper._options.parameters import (
    detection_keywords,
    effective_options,
    to_detection_options,
    to_options,
)
from whisperbatch.compat.faster_whisper._results import Segment, TranscriptionInfo, Word
from whisperbatch.compat.faster_whisper._sources import SILENCE, as_source, second_source
from whisperbatch.compat.faster_whisper._times import from_window_start, with_clip_times
from whisperbatch.compat.faster_whisper.vad import effective_vad_options
from whisperbatch.errors import WhisperBatchError
from whisperbatch.options import Options
from whisperbatch.text import UNSPACED
from whisperbatch.types import Source, to_seconds

if TYPE_CHECKING:
    from tokenizers import Tokenizer

FRAMES_PER_SECOND: Final = 100  # of `Segment.seek`

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
        arguments = replace(arguments, vad_filter=True)  # there is nothing to decode
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
    return _segments(segments, all_segments, tokenizer, arguments, info.duration), info


def _for_model(arguments: TranscribeArguments, asr: Transcriber) -> TranscribeArguments:
    """Return the arguments without languages for an English-only model, as faster-whisper does."""
    if asr.engine.is_multilingual:
        return arguments
    if arguments.multilingual:
        log.warning("the model is English-only: multilingual=True has no effect")
    if arguments.language not in (None, "en"):
        log.warning("the model is English-only: language=%r has no effect", arguments.language)
    return replace(arguments, multilingual=False, language="en" if arguments.language else None)


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


def _segments(
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
        words=None if words is None else [_word(word) for word in words],
        temperature=segment.temperature,
    )


def _word(word: types.Word) -> Word:
    return Word(word.start, word.end, word.word, word.probability)


def with_progress(segments: Iterable[Segment], duration: float) -> Iterator[Segment]:
    """Yield the segments and show a progress bar on standard error, in seconds of the recording."""
    from tqdm import tqdm  # noqa: PLC0415 - only log_progress=True needs it

    bar: Any
    total = round(duration, 2) or None
    with tqdm(total=total, unit="seconds") as bar:
        for segment in segments:
            _set_progress(bar, segment.end)
            yield segment
        _set_progress(bar, duration)


def _set_progress(bar: Any, seconds: float) -> None:  # noqa: ANN401 - tqdm ships no types
    """Set the bar's position: never backwards, and not beyond its end, where tqdm would warn."""
    bar.n = max(bar.n, min(round(seconds, 2), bar.total or seconds))
    bar.refresh()
