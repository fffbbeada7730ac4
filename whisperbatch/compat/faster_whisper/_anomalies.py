"""`hallucination_silence_threshold`: drop improbable segments between silences.

The word score and the segment test are openai/whisper's heuristic (whisper/transcribe.py). There,
the decoder starts again after the silence. Here, silence is not decoded in the first place, so the
segment is only dropped.
"""

import logging
from collections.abc import Iterable, Iterator
from typing import Final

from whisperbatch.compat.faster_whisper._results import Segment, Word

MIN_PROBABILITY: Final = 0.15  # of a word; a less probable word adds 1 to the score
MIN_WORD: Final = 0.133  # seconds; spoken words are not shorter
MAX_WORD: Final = 2.0  # seconds; spoken words are not longer; each further second adds 1
SHORTNESS_WEIGHT: Final = 15.0  # added to the score for each second below MIN_WORD
MAX_WORDS: Final = 8  # the words at a segment's start that are scored
MAX_SCORE: Final = 3.0  # a segment with this score or more is anomalous
ROUNDING: Final = 0.01  # tolerance of the comparison with the number of words

log = logging.getLogger(__name__)


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
