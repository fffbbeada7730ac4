"""Text with times from Whisper's timestamp tokens."""

from collections.abc import Sequence

from whisperbatch.decoding.tokenizer import WhisperTokenizer
from whisperbatch.segmentation.timed_text import TimedText
from whisperbatch.types import Chunk, SpeechSpan, to_samples


def segment_by_timestamps(
    tokens: Sequence[int], chunk: Chunk, vocabulary: WhisperTokenizer
) -> list[tuple[TimedText, list[int]]]:
    """Return the segments that Whisper's timestamp tokens delimit, each with its text tokens.

    Every text token is in one segment, except blank tokens at the end. No segment begins before or
    ends after the speech of the chunk: a remedy may have added silence around it.
    """
    speech = chunk.speech or chunk.pieces
    limits = (speech[0].start, speech[-1].end)
    segments: list[tuple[TimedText, list[int]]] = []
    start, text_tokens = 0.0, list[int]()

    def close(end: int) -> None:
        nonlocal text_tokens
        if text := vocabulary.text(text_tokens).strip():  # blank tokens go to the next segment
            first = chunk.recording_time(to_samples(start))
            span = SpeechSpan(first, max(first, end)).within(*limits)
            segments.append((TimedText(span.start, span.end, text), text_tokens))
            text_tokens = []

    for token in tokens:
        time = vocabulary.timestamp(token)
        if time is None:
            if token < vocabulary.end_of_text:
                text_tokens.append(token)
            continue
        if text_tokens:
            # map the last sample of the segment, so that an end at the joint of two pieces is
            # placed before the pause that was cut out
            close(min(chunk.recording_time(to_samples(time) - 1) + 1, chunk.end))
        start = time
    close(chunk.end)
    return segments


def speech_within(speech: Sequence[SpeechSpan], start: int, end: int) -> list[SpeechSpan]:
    """Return the parts of the spans from `start` to `end`.

    If no speech lies between them, return one span from `start` to `end`.
    """
    clipped = [span.within(start, end) for span in speech]
    return [span for span in clipped if span.length] or [SpeechSpan(start, end)]
