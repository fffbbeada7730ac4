"""The rules that every result and every error of the library must keep."""

import math
import re
import unicodedata
from collections.abc import Collection, Iterable, Sequence
from typing import Final

import whisperbatch as wb
from tests.fuzz.cases import Failure, Result, check
from whisperbatch import errors
from whisperbatch.text.languages import LANGUAGES
from whisperbatch.types import SAMPLING_RATE, WINDOW, Segment

MAX_MESSAGE: Final = 400  # characters, without the name of the recording
TOLERANCE: Final = 0.05  # seconds by which a time may exceed the duration

DOCUMENTED: Final = {
    name: getattr(errors, name)
    for name in errors.__all__
    if name not in ("InternalError", "WhisperBatchError")
}


def judge(
    error: BaseException,
    raised: Sequence[BaseException],
    names: Collection[str],
    recording: str = "",
) -> Result:
    """Return the result for an error that the library raised.

    Args:
        error: raised by a call.
        raised: the errors that the source itself raised. A call may raise them unchanged if they
            are no Exceptions.
        names: the options of the call, if all of them are suspected.
        recording: name of the recording, which does not count as a part of the message.

    Raises:
        Failure: the error is of another type, or its message breaks a rule.
    """
    if any(error is own for own in raised) and not isinstance(error, Exception):
        return Result("the source's own exception")
    kind = type(error)
    if DOCUMENTED.get(kind.__name__) is not kind:
        raise Failure(f"{kind.__name__} is no documented error: {str(error)[:300]}") from error
    _check_message(error, names, getattr(error, "source", None) or recording)
    return Result(kind.__name__, str(error)[:MAX_MESSAGE])


def _check_message(error: BaseException, names: Collection[str], recording: str) -> None:
    message = str(error)
    name = str(wb.WhisperBatchError(recording))  # on one line, without control characters
    short = message.replace(name, "<source>", 1) if name else message
    shown = ascii(short[:300])
    check(len(short) <= MAX_MESSAGE, f"a message of {len(short)} characters: {shown}")
    strange = {c for c in message if unicodedata.category(c) in ("Cc", "Cs", "Zl", "Zp")}
    check(not strange, f"control characters or surrogates in a message: {ascii(message)[:300]}")
    check(re.search(r"\w", short.rpartition(":")[2]), f"nothing follows the last colon: {shown}")
    if names and isinstance(error, wb.OptionError):
        check(any(name in message for name in names), f"the message names no option: {shown}")


def check_transcript(transcript: wb.Transcript) -> Result:
    """Check the values of a transcript."""
    check(type(transcript) is wb.Transcript, f"{type(transcript).__name__} is no transcript")
    duration = transcript.duration
    check(_finite(duration) and duration >= 0, f"duration {duration}")
    check_segments(transcript.segments, duration)
    check(0 <= transcript.language_probability <= 1.0001, "language_probability")
    check(transcript.language is None or transcript.language in LANGUAGES, "language")
    for omission in transcript.omissions:
        _check_times(omission.start, omission.end, duration, "omission")
        check(_finite(omission.score), f"score {omission.score} of an omission")
    check(isinstance(transcript.text, str), "text")
    return Result("transcript", audio_seconds=duration)


def check_segments(segments: Iterable[Segment], duration: float) -> None:
    """Check the segments of a recording: their order, their times and their values."""
    previous = 0.0
    for number, segment in enumerate(segments):
        check(segment.id == number, f"id {segment.id} of segment {number}")
        _check_times(segment.start, segment.end, duration, f"segment {number}")
        check(segment.start >= previous, f"segment {number} starts before its predecessor")
        previous = segment.start
        check(segment.text.strip(), f"segment {number} has no text")
        for name in ("avg_logprob", "no_speech_prob", "compression_ratio", "temperature"):
            check(_finite(getattr(segment, name)), f"{name} of segment {number} is not finite")
        for word in segment.words or ():
            _check_times(word.start, word.end, duration, f"word of segment {number}")
            check(0 <= word.probability <= 1.0001, f"probability {word.probability} of a word")


def check_detection(detection: wb.LanguageDetection) -> Result:
    """Check a detected language."""
    check(detection.language is None or detection.language in LANGUAGES, "language")
    check(0 <= detection.probability <= 1.0001, f"probability {detection.probability}")
    for window in detection.windows:
        _check_times(window.start, window.end, math.inf, "language window")
    return Result("language")


def check_chunks(chunks: Iterable[wb.Chunk]) -> Result:
    """Check the chunks of a recording."""
    end = 0
    for number, chunk in enumerate(chunks):
        check(chunk.index == number, f"index {chunk.index} of chunk {number}")
        check(0 < chunk.length <= WINDOW, f"length {chunk.length} of chunk {number}")
        check(chunk.length == sum(piece.length for piece in chunk.pieces), "length of the pieces")
        check(chunk.start >= end, f"chunk {number} overlaps its predecessor")
        end = chunk.end
    return Result("chunks", audio_seconds=end / SAMPLING_RATE)


def _check_times(start: float, end: float, duration: float, what: str) -> None:
    times = f"{what} from {start} to {end} in {duration} s"
    check(_finite(start) and _finite(end), times)
    check(0 <= start <= end <= duration + TOLERANCE, times)


def _finite(value: object) -> bool:
    return isinstance(value, float | int) and math.isfinite(value)
