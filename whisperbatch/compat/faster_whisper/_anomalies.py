"""`hallucination_silence_threshold`: improbable words between silences are left out.

What makes a word suspicious, and when a segment of such words is, is openai/whisper's heuristic
(whisper/transcribe.py). There it has the decoder start again after the silence; here silence is
not decoded to begin with, so the segment is only left out.
"""

import logging
from collections.abc import Iterable, Iterator
from typing import Final

from whisperbatch.compat.faster_whisper._results import Segment, Word

IMPROBABLE: Final = 0.15  # probability of a word
SHORT: Final = 0.133  # seconds: nobody says a word in less
LONG: Final = 2.0  # seconds: nobody takes more
PER_SHORT: Final = 15.0  # for each second that a word is too short
LOOKED_AT: Final = 8  # words at a segment's start
MOST: Final = 3.0  # more of them are suspicious
ROUNDING: Final = 0.01

log = logging.getLogger(__name__)


def without_anomalies(segments: Iterable[Segment], silence: float) -> Iterator[Segment]:
    """The segments, but for suspicious ones with silence, or suspicious ones, on either side.

    Numbered anew. One segment is held back. The ends of the recording are silent.

    Args:
        segments: in order, with their words.
        silence: longer than this many seconds.
    """
    number, last_end = 0, float("-inf")
    for segment, following in _pairs(segments):
        apart = segment.start - last_end > silence and (
            following is None
            or following.start - segment.end > silence
            or is_anomalous(following.words or ())
        )
        if apart and is_anomalous(segment.words or ()):
            log.info("%.2f s: left out between silences: %s", segment.start, segment.text)
            continue
        number, last_end = number + 1, segment.end
        segment.id = number
        yield segment


def _pairs(segments: Iterable[Segment]) -> Iterator[tuple[Segment, Segment | None]]:
    """Each with the one after it."""
    held: Segment | None = None
    for segment in segments:
        if held:
            yield held, segment
        held = segment
    if held:
        yield held, None


def is_anomalous(words: Iterable[Word]) -> bool:
    """Whether the first words are, taken together, hardly ones that somebody has said."""
    said = [word for word in words if any(letter.isalnum() for letter in word.word)][:LOOKED_AT]
    score = sum(_oddity(word) for word in said)
    return bool(said) and (score >= MOST or score + ROUNDING >= len(said))


def _oddity(word: Word) -> float:
    lasts = word.end - word.start
    return (
        (word.probability < IMPROBABLE)
        + PER_SHORT * max(SHORT - lasts, 0.0)
        + max(lasts - LONG, 0.0)
    )
