"""The time at which each character of a segment's text is spoken."""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from whisperbatch.types import Segment, Word
from whisperbatch.writers.text_cleaning import one_line


@dataclass(frozen=True, slots=True)
class TimedCharacters:
    """Consecutive characters with a start and an end: a word, or the text of a whole segment.

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

    def _span(self, character: int) -> TimedCharacters:
        return self.spans[bisect_right(self.spans, character, key=lambda span: span.first) - 1]


def character_times(segment: Segment, text: str) -> CharacterTimes:
    """Return the times of the characters of a segment's text.

    The times come from the segment's words if these spell the text. Otherwise the characters share
    the duration of the segment equally.

    Args:
        segment: any segment.
        text: the segment's text on one line, with at least one visible character.
    """
    words = _locate_words(segment.words or (), text)
    if words:
        return CharacterTimes(words, by_word=True)
    end = max(segment.start, segment.end)
    return CharacterTimes((TimedCharacters(0, len(text), segment.start, end),), by_word=False)


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
