"""Short segments and transcripts."""

import re
from collections.abc import Sequence

import numpy as np

from whisperbatch.types import Diarization, Notice, Omission, Segment, Transcript, Turn, Word

_ANN, _OTHER = Turn(0.5, 1.0, "Ann", 0.9), Turn(0.75, 1.25, "SPEAKER_00", 0.25)
_SPOKEN = Word(0.5, 1.0, " Yes.", 0.75, "Ann", 0.9, ("SPEAKER_00",))
COMPLETE = Transcript(
    segments=(
        Segment(
            *(0, 0.5, 1.0, "Yes.", "en", -0.25, 0.01, 0.9, 0.2, (_SPOKEN,)),
            *("Ann", 0.9, ("SPEAKER_00",)),
        ),
        Segment(1, 1.5, 2.0, "No.", "en", -np.inf, 0.01, 0.9),
    ),
    language="en",
    language_probability=0.97,
    duration=2.5,
    source="talk.mp3",
    omissions=(Omission(2.0, 2.5, "Thanks!", "boilerplate", 1.0),),
    chunks=3,
    redecoded=1,
    checked_duration=0.5,
    recovered_duration=0.25,
    diarization=Diarization(
        (_ANN, _OTHER), "talk.mp3", 2.5, {"Ann": np.array([0.6, 0.8], np.float32)}, (_ANN,)
    ),
    notices=(Notice("damaged", 1.0, 2.0, "silence replaces damaged audio"),),
)
"""No field has its default. The result of a span in tests/data has this transcript."""


def segment(
    text: str,
    start: float = 0.0,
    end: float = 1.0,
    *,
    language: str = "en",
    words: Sequence[Word] | None = None,
    id: int = 0,  # noqa: A002 - a field of Segment
) -> Segment:
    stored = None if words is None else tuple(words)
    return Segment(id, start, end, text, language, -0.25, 0.01, 1.5, 0.0, stored)


def segment_with_words(
    text: str, start: float = 0.0, duration: float = 1.0, language: str = "en"
) -> Segment:
    """Return a segment whose words take `duration` seconds each, without pauses."""
    texts = re.findall(r"\s*\S+", text)
    words = [
        Word(start + n * duration, start + (n + 1) * duration, word, 0.5)
        for n, word in enumerate(texts)
    ]
    return segment(text, start, words[-1].end, language=language, words=words)


def transcript(*segments: Segment, language: str | None = "en") -> Transcript:
    return Transcript(tuple(segments), language, 0.75, 60.0, "talk.mp3")
