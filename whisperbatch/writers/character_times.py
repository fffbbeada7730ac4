"""The times of the characters of a text.

They come from the times of the words. Without words, the characters share the time of the segment,
with pauses after clauses:

    text   ask not, ask what you can. Thank you.
    times  [=====]  [===============]  [=======]
"""

import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from whisperbatch.text.languages import UNSPACED
from whisperbatch.text.sentences import CLAUSE_ENDS, CLOSING, SENTENCE_ENDS
from whisperbatch.types import Segment, Word
from whisperbatch.writers.formatting import columns, one_line

# Pauses, in the time of a letter (70 ms). In three English recordings (tiny.en), the starts of cues
# without words were 0.46 s wrong on average without pauses, 0.30 s with pauses of 8 and 12 letters,
# 0.28 s with 10 and 15, and 0.25 s with 15 and 25.
CLAUSE_PAUSE: Final = 10
SENTENCE_PAUSE: Final = 15
LETTERS_PER_CHARACTER: Final = 2  # in languages without spaces: characters are syllables

_MARKS: Final = "".join(SENTENCE_ENDS | CLAUSE_ENDS)
_WIDE_MARKS: Final = "".join(mark for mark in _MARKS if columns(mark) > 1)  # no space follows
_CLAUSE_END: Final = re.compile(  # its group is the space before the next clause
    "(?:[{marks}][{closing}]*(?=\\s)|[{wide}]+[{closing}]*)(?=(\\s*)\\S)".format(
        marks=re.escape(_MARKS),
        closing=re.escape(CLOSING),
        wide=re.escape(_WIDE_MARKS),
    )
)


@dataclass(frozen=True, slots=True)
class TimedCharacters:
    """Consecutive characters with a start and an end: a word or a clause.

    Attributes:
        first: index of the first character in the text.
        stop: index after the last character.
        start: in seconds.
        end: in seconds, not before `start`.
    """

    first: int
    stop: int
    start: float
    end: float

    def at(self, character: int) -> float:
        """Return the time of the boundary before a character; all characters last equally long."""
        share = (character - self.first) / (self.stop - self.first)
        return self.start + share * (self.end - self.start)


@dataclass(frozen=True, slots=True)
class CharacterTimes:
    """The times of all characters of a text.

    Attributes:
        spans: in order, without overlap; all characters between two spans are whitespace.
        by_word: whether each span is a word.
    """

    spans: tuple[TimedCharacters, ...]
    by_word: bool

    def start(self, character: int) -> float:
        """Return the time in seconds at which a character starts."""
        return self._span(character).at(character)

    def end(self, stop: int) -> float:
        """Return the time in seconds at which the character before `stop` ends."""
        return self._span(stop - 1).at(stop)

    def pause(self, stop: int, first: int) -> float:
        """Return the seconds from the end of the character before `stop` to the start of `first`.

        0 without the times of words.
        """
        return self.start(first) - self.end(stop) if self.by_word else 0.0

    def duration(self, first: int, stop: int) -> float:
        """Return the seconds from the start of `first` to the end of the character before `stop`.

        0 without the times of words.
        """
        return self.end(stop) - self.start(first) if self.by_word else 0.0

    def _span(self, character: int) -> TimedCharacters:
        return self.spans[bisect_right(self.spans, character, key=lambda span: span.first) - 1]


def character_times(segment: Segment, text: str) -> CharacterTimes:
    """Return the times of the characters of a segment's text.

    The times come from the segment's words if these spell the text. Otherwise the characters share
    the duration of the segment, all with the same time, except pauses after clauses and sentences.

    Args:
        segment: any segment.
        text: the segment's text on one line, with at least one visible character.
    """
    words = _locate_words(segment.words or (), text)
    if words:
        return CharacterTimes(words, by_word=True)
    return CharacterTimes(_spread(segment, text), by_word=False)


def _spread(segment: Segment, text: str) -> tuple[TimedCharacters, ...]:
    """Return the clauses of a text; the characters and pauses share the time of the segment."""
    letters = LETTERS_PER_CHARACTER if segment.language in UNSPACED else 1
    clauses = []  # first character, end, and letters before the clause
    first, before = 0, 0.0
    for match in _CLAUSE_END.finditer(text):
        stop = match.end()
        clauses.append((first, stop, before))
        pause = SENTENCE_PAUSE if match[0][0] in SENTENCE_ENDS else CLAUSE_PAUSE
        before += (stop - first) + pause / letters
        first = match.end(1)
    clauses.append((first, len(text), before))
    total = before + len(text) - first
    duration = max(segment.end - segment.start, 0.0)
    return tuple(
        TimedCharacters(
            first,
            stop,
            segment.start + duration * before / total,
            segment.start + duration * (before + stop - first) / total,
        )
        for first, stop, before in clauses
    )


def _locate_words(words: Sequence[Word], text: str) -> tuple[TimedCharacters, ...]:
    """Return the characters and times of each word; empty if the words do not spell the text.

    Whitespace is ignored in the comparison.
    """
    indexes = [index for index, character in enumerate(text) if not character.isspace()]
    spelled = [("".join(one_line(word.word).split()), word) for word in words]
    if "".join(letters for letters, _ in spelled) != "".join(text[index] for index in indexes):
        return ()
    spans = []
    position = 0
    for letters, word in spelled:
        if letters:
            first, stop = indexes[position], indexes[position + len(letters) - 1] + 1
            spans.append(TimedCharacters(first, stop, word.start, max(word.start, word.end)))
            position += len(letters)
    return tuple(spans)
