"""Segments: sentences and phrases with start and end, from aligned words or timestamp tokens."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from whisperbatch.decoding.tokenizer import WhisperTokenizer
from whisperbatch.decoding.words import AlignedWord
from whisperbatch.text.punctuation import CLAUSE_ENDS, CLOSING, ends_sentence, last_mark
from whisperbatch.types import Chunk, SpeechSpan, to_samples

MIN_PAUSE: Final = to_samples(0.4)  # silence between two words that ends a segment
MAX_SEGMENT: Final = to_samples(15.0)  # longer segments are divided at a comma or its longest pause
MIN_SEGMENT: Final = to_samples(1.0)  # dividing leaves no shorter segment, if possible
COMMA_PAUSE: Final = to_samples(0.5)  # a comma counts as this much silence for dividing

TITLES: Final = frozenset({"Mr", "Mrs", "Ms", "Dr", "Prof", "St", "Sr", "Jr", "vs"})


@dataclass(frozen=True, slots=True)
class TimedText:
    """Text with start and end in recording samples: a segment before it gets its id.

    Attributes:
        start: first recording sample.
        end: recording sample after the last.
        text: text without surrounding space.
        words: the aligned words; empty if they are not available.
    """

    start: int
    end: int
    text: str
    words: tuple[AlignedWord, ...] = ()


def segment_by_sentence(
    words: Sequence[AlignedWord], speech: Sequence[SpeechSpan]
) -> list[TimedText]:
    """Group words into segments.

    A segment ends with a sentence or at a pause in the speech of at least MIN_PAUSE. A segment
    longer than MAX_SEGMENT is divided.
    """
    groups: list[list[AlignedWord]] = []
    for index, word in enumerate(words):
        if (
            not index
            or _ends_sentence(words[index - 1].text, word.text)
            or (_silence(words[index - 1], word, speech) >= MIN_PAUSE)
        ):
            groups.append([])
        groups[-1].append(word)
    segments = [join_words(part) for group in groups for part in _divide(group, speech)]
    return [segment for segment in segments if segment.text]


def join_words(words: Sequence[AlignedWord]) -> TimedText:
    """Return the timed text of all the words."""
    text = "".join(word.text for word in words).strip()
    return TimedText(words[0].start, words[-1].end, text, tuple(words))


def _silence(word: AlignedWord, following: AlignedWord, speech: Sequence[SpeechSpan]) -> int:
    """Return the samples between two words that lie in no speech span."""
    spans = speech[word.span : following.span + 1]
    return sum(after.start - before.end for before, after in pairwise(spans))


def _ends_sentence(text: str, following: str) -> bool:
    """Return whether a sentence ends between two words.

    A full stop does not end a sentence before a lower-case letter, after a single letter (an
    initial), after dotted letters ("p.m.") or after a title like "Mr.".
    """
    stripped = text.strip().rstrip(CLOSING)
    if not ends_sentence(text):
        return False
    if stripped[-1] != ".":
        return True
    body, next_letter = stripped[:-1], following.strip()[:1]
    abbreviated = (
        (len(body) == 1 and body.isalpha())
        or body in TITLES
        or (len(body) > 1 and "." in body[-2:])
    )
    return not abbreviated and not next_letter.islower()


def _divide(words: list[AlignedWord], speech: Sequence[SpeechSpan]) -> list[list[AlignedWord]]:
    """Divide words into groups of at most MAX_SEGMENT, at the most natural boundaries.

    The best boundary has a long pause or a comma and lies near the middle.
    """
    if words[-1].end - words[0].start <= MAX_SEGMENT or len(words) == 1:
        return [words]

    def score(boundary: int) -> float:
        before, after = words[boundary - 1], words[boundary]
        comma = COMMA_PAUSE if last_mark(before.text) in CLAUSE_ENDS else 0
        shorter = min(before.end - words[0].start, words[-1].end - after.start)
        middle = abs((before.end + after.start) - (words[0].start + words[-1].end)) / 20
        silence = max(_silence(before, after, speech), after.start - before.end)
        return silence + comma - middle - (MAX_SEGMENT if shorter < MIN_SEGMENT else 0)

    best = max(range(1, len(words)), key=score)
    return [*_divide(words[:best], speech), *_divide(words[best:], speech)]


def segment_by_timestamps(
    tokens: Sequence[int], chunk: Chunk, vocabulary: WhisperTokenizer
) -> list[tuple[TimedText, list[int]]]:
    """Return the segments that Whisper's timestamp tokens delimit, each with its text tokens.

    Every text token is in one segment, except blank tokens at the end.
    """
    segments: list[tuple[TimedText, list[int]]] = []
    start, text_tokens = 0.0, list[int]()

    def close(end: int) -> None:
        nonlocal text_tokens
        if text := vocabulary.text(text_tokens).strip():  # blank tokens go to the next segment
            first = chunk.recording_time(to_samples(start))
            segments.append((TimedText(first, max(first, end), text), text_tokens))
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
