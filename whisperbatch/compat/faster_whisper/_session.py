"""One call of `transcribe`: what is told at once, and segments as they are asked for.

    open -> glimpse at the language -> info, and a generator of segments that has done nothing yet

Only of a recording that tells nothing without being read through, such as a pipe, the first segment
is decoded before info is there.
"""

import functools
import logging
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, cast

from whisperbatch import SegmentStream, Transcriber, chunk_audio, types
from whisperbatch.audio import AudioReader, open_audio
from whisperbatch.compat.faster_whisper._anomalies import without_anomalies
from whisperbatch.compat.faster_whisper._parameters import (
    Request,
    detection_of,
    effective,
    keywords_of,
    options_of,
)
from whisperbatch.compat.faster_whisper._results import Segment, TranscriptionInfo, Word
from whisperbatch.compat.faster_whisper._sources import again, as_source
from whisperbatch.compat.faster_whisper.vad import effective as effective_vad
from whisperbatch.errors import WhisperBatchError
from whisperbatch.options import Options
from whisperbatch.text import UNSPACED, check_language
from whisperbatch.types import Source, to_seconds

if TYPE_CHECKING:
    from tokenizers import Tokenizer

FRAMES: Final = 100  # a second, that theirs count in

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class _Language:
    """What a recording's language is, how probable, and how probable all are if it was detected."""

    code: str
    probability: float
    probabilities: Mapping[str, float] = field(default_factory=dict)

    def ranked(self) -> list[tuple[str, float]] | None:
        """All of them, the most probable first; None where it was not detected."""
        return sorted(self.probabilities.items(), key=lambda item: -item[1]) or None


def transcribe(
    asr: Transcriber, audio: object, request: Request
) -> tuple[Generator[Segment, None, None], TranscriptionInfo]:
    """Segments and info of one recording.

    Raises:
        OptionError: a parameter cannot be honoured.
        AudioError: the recording cannot be read.
    """
    request = _for_model(request, asr)
    options = options_of(request, request.language, multilingual=request.multilingual)
    listening = detection_of(request)
    source = as_source(audio)
    twice = again(source)
    with ExitStack() as stack:
        reader = stack.enter_context(open_audio(source, options))
        duration = _duration(reader)
        language = _language(asr, reader, request, listening)
        if language and not request.multilingual:
            options = options_of(request, language.code, multilingual=False)
        segments = asr.stream(reader, options=options)
        stack.pop_all()
    first = None if language else next(segments, None)
    if language is None:
        known = segments.language or "en", segments.language_probability
        language = _Language(*known, segments.language_probabilities)
    told = chain((first,) if first else (), segments)
    info = TranscriptionInfo(
        language=language.code,
        language_probability=language.probability,
        duration=cast("float", duration),  # or what measures it
        duration_after_vad=cast("float", _after_vad(twice, options, duration)),
        all_language_probs=language.ranked(),
        transcription_options=effective(options, request),
        vad_options=effective_vad(options),
    )
    return _segments(segments, told, asr.engine.tokenizer, request, info.duration), info


def _for_model(request: Request, asr: Transcriber) -> Request:
    """The request without what an English-only model knows nothing of, as theirs does."""
    if asr.engine.is_multilingual:
        return request
    if request.multilingual:
        log.warning("the model is English-only: multilingual=True has no effect")
    if request.language not in (None, "en"):
        log.warning("the model is English-only: language=%r has no effect", request.language)
    return replace(request, multilingual=False, language="en" if request.language else None)


def _language(
    asr: Transcriber, reader: AudioReader, request: Request, options: Options
) -> _Language | None:
    """As far as it is known without reading the recording through."""
    if request.language:
        return _Language(check_language(request.language), 1.0)
    found = asr.detect_language(reader, read_through=False, **keywords_of(options))
    if found.language is None:
        return None
    every = found.probabilities if asr.engine.is_multilingual else {}
    return _Language(found.language, found.probability, every)


def _duration(reader: AudioReader) -> float | Callable[[], float]:
    """In seconds, as the container states it; otherwise what has been read."""
    with reader.random_access() as recording:
        if recording:
            return recording.duration
    return lambda: to_seconds(reader.position)


def _after_vad(
    source: Source | None, options: Options, duration: float | Callable[[], float]
) -> float | Callable[[], float]:
    """Seconds of speech, looked for once, when they are asked for."""
    if source is None or not (options.vad or options.clip_timestamps):
        return duration

    @functools.cache
    def measured() -> float:
        try:
            return seconds_of_speech(source, options)[0]
        except WhisperBatchError as error:  # the file may be gone by now
            log.warning("duration_after_vad is not known: %s", error)
            return duration() if callable(duration) else duration

    return measured


def seconds_of_speech(source: Source, options: Options) -> tuple[float, float]:
    """How much speech there is in a recording, margins counted, and how much was read for it."""
    with open_audio(source, options) as reader:
        speech = sum(chunk.speech_duration for chunk in chunk_audio(reader, options=options))
        return speech, to_seconds(reader.position)


def _segments(
    stream: SegmentStream,
    found: Iterable[types.Segment],
    tokenizer: "Tokenizer",
    request: Request,
    duration: float,
) -> Generator[Segment, None, None]:
    """Segments as theirs; the stream ends with them, or when they are let go of."""
    segments: Iterator[Segment] = (_segment(one, tokenizer) for one in found)
    if request.hallucination_silence_threshold is not None and request.word_timestamps:
        segments = without_anomalies(segments, request.hallucination_silence_threshold)
    with stream:
        yield from _with_progress(segments, duration) if request.log_progress else segments


def _segment(segment: types.Segment, tokenizer: "Tokenizer") -> Segment:
    text = segment.text if segment.language in UNSPACED else f" {segment.text}"
    words = segment.words
    return Segment(
        id=segment.id + 1,
        seek=round(segment.start * FRAMES),
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


def _with_progress(segments: Iterable[Segment], duration: float) -> Iterator[Segment]:
    """The same, with a bar on standard error: seconds of the recording that are done."""
    from tqdm import tqdm  # noqa: PLC0415 - only if it is asked for

    bar: Any
    total = round(duration, 2) or None
    with tqdm(total=total, unit="seconds") as bar:
        for segment in segments:
            _move(bar, segment.end)
            yield segment
        _move(bar, duration)


def _move(bar: Any, seconds: float) -> None:  # noqa: ANN401 - tqdm ships no types
    """Put it there: neither back nor beyond its end, which it would warn of."""
    bar.n = max(bar.n, min(round(seconds, 2), bar.total or seconds))
    bar.refresh()
