"""Segments: sentences and phrases, with their own start and end."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from whisperbatch.decoding.tokenizer import WhisperTokenizer
from whisperbatch.decoding.words import AlignedWord
from whisperbatch.text.punctuation import CLAUSE_ENDS, CLOSING, ends_sentence, last_mark
from whisperbatch.types import Chunk, SpeechSpan, to_samples

PAUSE: Final = to_samples(0.4)  # silence between words that ends a segment
LONGEST: Final = to_samples(15.0)  # a longer segment is parted at a comma or its longest pause
SHORTEST: Final = to_samples(1.0)  # parting leaves no less than this
COMMA: Final = to_samples(0.5)  # of silence that a comma is worth, when a segment is parted


@dataclass(frozen=True, slots=True)
class TimedText:
    """A segment before it has its number: words in recording samples.

    Attributes:
        start: in recording samples.
        end: likewise.
        text: without surrounding space.
        words: empty where there are none to be had.
    """

    start: int
    end: int
    text: str
    words: tuple[AlignedWord, ...] = ()


def by_sentence(words: Sequence[AlignedWord], speech: Sequence[SpeechSpan]) -> list[TimedText]:
    """Words as segments: they end with a sentence, at a pause in speech, or before too long."""
    groups: list[list[AlignedWord]] = []
    for number, word in enumerate(words):
        if (
            not number
            or _ends_sentence(words[number - 1].text, word.text)
            or (_silence(words[number - 1], word, speech) >= PAUSE)
        ):
            groups.append([])
        groups[-1].append(word)
    parts = [part for group in groups for part in _part(group, speech)]
    drafts = [draft(part) for part in parts]
    return [d for d in drafts if d.text]


def draft(words: Sequence[AlignedWord]) -> TimedText:
    """One segment of all the words."""
    text = "".join(word.text for word in words).strip()
    return TimedText(words[0].start, words[-1].end, text, tuple(words))


def _silence(earlier: AlignedWord, later: AlignedWord, speech: Sequence[SpeechSpan]) -> int:
    """Samples without speech between two words."""
    spans = speech[earlier.span : later.span + 1]
    return sum(after.start - before.end for before, after in pairwise(spans))


def _ends_sentence(text: str, following: str) -> bool:
    """Whether a sentence ends between two words.

    A full stop does not end one before a lower-case letter, after a single letter (an initial) or
    in "Mr." and its like, which are short and written with a capital.
    """
    stripped = text.strip().rstrip(CLOSING)
    if not ends_sentence(text):
        return False
    if stripped[-1] != ".":
        return True
    body, after = stripped[:-1], following.strip()[:1]
    abbreviated = (
        (len(body) == 1 and body.isalpha())
        or body in _TITLES
        or (len(body) > 1 and "." in body[-2:])
    )
    return not abbreviated and not after.islower()


_TITLES: Final = frozenset({"Mr", "Mrs", "Ms", "Dr", "Prof", "St", "Sr", "Jr", "vs"})


def _part(words: list[AlignedWord], speech: Sequence[SpeechSpan]) -> list[list[AlignedWord]]:
    """Words in groups of at most `LONGEST`, parted at the most natural boundaries."""
    if words[-1].end - words[0].start <= LONGEST or len(words) == 1:
        return [words]

    def worth(number: int) -> float:
        before, after = words[number - 1], words[number]
        comma = COMMA if last_mark(before.text) in CLAUSE_ENDS else 0
        short = min(before.end - words[0].start, words[-1].end - after.start) < SHORTEST
        middle = abs((before.end + after.start) - (words[0].start + words[-1].end)) / 20
        silence = max(_silence(before, after, speech), after.start - before.end)
        return silence + comma - middle - (LONGEST if short else 0)

    best = max(range(1, len(words)), key=worth)
    return [*_part(words[:best], speech), *_part(words[best:], speech)]


def by_timestamps(
    tokens: Sequence[int], chunk: Chunk, vocabulary: WhisperTokenizer
) -> list[tuple[TimedText, list[int]]]:
    """Segments as Whisper's own timestamp tokens delimit them, each with its text tokens.

    All text tokens but blank ones at the end are in one of them.
    """
    drafts: list[tuple[TimedText, list[int]]] = []
    start, text = 0.0, list[int]()

    def close(end: int) -> None:
        nonlocal text
        if words := vocabulary.text(text).strip():  # blank tokens go to the next segment
            begin = chunk.recording_time(to_samples(start))
            drafts.append((TimedText(begin, max(begin, end), words), text))
            text = []

    for token in tokens:
        time = vocabulary.timestamp(token)
        if time is None:
            if token < vocabulary.end_of_text:
                text.append(token)
            continue
        if text:
            # the last sample within, so that an end at a joint is not put after the pause
            close(min(chunk.recording_time(to_samples(time) - 1) + 1, chunk.end))
        start = time
    close(chunk.end)
    return drafts


def speech_within(speech: Sequence[SpeechSpan], start: int, end: int) -> list[SpeechSpan]:
    """The parts of the spans from `start` to `end`; all of that where there is no speech in it."""
    cut = [span.within(start, end) for span in speech]
    return [span for span in cut if span.length] or [SpeechSpan(start, end)]
