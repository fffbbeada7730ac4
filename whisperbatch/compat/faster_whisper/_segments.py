"""The segments of a recording in faster-whisper's form.

    our segments -> ids, tokens -> without anomalies, or with the times of windows -> progress bar

Without word times, a segment of a clip has the clip's times in faster-whisper, and text with a
prefix starts with its window. Here, segments have the times of their words.

`hallucination_silence_threshold` drops improbable segments between silences. The word score and the
segment test are openai/whisper's heuristic (whisper/transcribe.py). There, the decoder starts again
after the silence. Here, silence is not decoded in the first place, so the segment is only dropped.
"""

import logging
from collections.abc import Generator, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from whisperbatch import SegmentStream, types
from whisperbatch.compat.faster_whisper._arguments import TranscribeArguments, parse_clips
from whisperbatch.compat.faster_whisper._results import Segment, Word
from whisperbatch.text import UNSPACED

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
        words=None if words is None else [_word(word) for word in words],
        temperature=segment.temperature,
    )


def _word(word: types.Word) -> Word:
    return Word(word.start, word.end, word.word, word.probability)


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
    """Return the clip with the segment's words."""
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
