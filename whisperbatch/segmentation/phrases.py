"""Phrases: segments that end with a sentence or at a short pause, within one row."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from whisperbatch.segmentation.division import divide
from whisperbatch.segmentation.timed_text import AlignedWord, TimedText, join_words
from whisperbatch.text.punctuation import CLAUSE_ENDS, CLOSING, ends_sentence, last_mark
from whisperbatch.types import SpeechSpan, to_samples

MIN_PAUSE: Final = to_samples(0.4)  # silence between two words that ends a phrase
MAX_PHRASE: Final = to_samples(15.0)  # longer phrases are divided at a comma or the longest pause
COMMA_PAUSE: Final = to_samples(0.5)  # a comma counts as this much silence for dividing

TITLES: Final = frozenset({"Mr", "Mrs", "Ms", "Dr", "Prof", "St", "Sr", "Jr", "vs"})


def phrases(words: Sequence[AlignedWord], speech: Sequence[SpeechSpan]) -> list[TimedText]:
    """Group words into phrases.

    A phrase ends with a sentence or at a pause in the speech of at least MIN_PAUSE. A phrase
    longer than MAX_PHRASE is divided.
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

    def pause(before: AlignedWord, after: AlignedWord) -> int:
        comma = COMMA_PAUSE if last_mark(before.text) in CLAUSE_ENDS else 0
        return comma + max(_silence(before, after, speech), after.start - before.end)

    parts = [part for group in groups for part in divide(group, MAX_PHRASE, pause)]
    return [phrase for phrase in map(join_words, parts) if phrase.text]


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
