"""Short segments and transcripts for the tests of the writers."""

import re
from collections.abc import Sequence

from whisperbatch.types import Segment, Transcript, Word


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
