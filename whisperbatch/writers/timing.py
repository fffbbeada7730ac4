"""When each character of a segment is said."""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from whisperbatch.types import Segment, Word
from whisperbatch.writers.texts import one_line


@dataclass(frozen=True, slots=True)
class Piece:
    """Characters that are said from one time to another: a word, or a segment without words.

    Attributes:
        first: the first of them in the text.
        last: the one after the last.
        start: in seconds.
        end: likewise, not before `start`.
    """

    first: int
    last: int
    start: float
    end: float

    def at(self, character: int) -> float:
        """When a character begins, or the one before it ends: each takes the same time."""
        share = (character - self.first) / (self.last - self.first)
        return self.start + share * (self.end - self.start)


@dataclass(frozen=True, slots=True)
class Timing:
    """When the characters of a text are said.

    Attributes:
        pieces: in order, without overlap; between them is space.
        by_word: whether they are words.
    """

    pieces: tuple[Piece, ...]
    by_word: bool

    def start(self, character: int) -> float:
        """When a character begins, in seconds."""
        return self._piece(character).at(character)

    def end(self, character: int) -> float:
        """When the one before a character ends, in seconds."""
        return self._piece(character - 1).at(character)

    def silence(self, last: int, first: int) -> float:
        """Seconds from the end of the character before `last` to the start of `first`."""
        return self.start(first) - self.end(last) if self.by_word else 0.0

    def _piece(self, character: int) -> Piece:
        return self.pieces[bisect_right(self.pieces, character, key=lambda p: p.first) - 1]


def time_text(segment: Segment, text: str) -> Timing:
    """When the characters of a segment's text are said.

    By its words, where it has any and they spell the text; otherwise the text shares out the
    segment's time, each character as much as the others.

    Args:
        segment: whose times these are.
        text: its text, on one line, with something to see in it.
    """
    words = _place(segment.words or (), text)
    if words:
        return Timing(words, by_word=True)
    end = max(segment.start, segment.end)
    return Timing((Piece(0, len(text), segment.start, end),), by_word=False)


def _place(words: Sequence[Word], text: str) -> tuple[Piece, ...]:
    """The words as they lie in a text; none if the text is another. Spaces may differ."""
    places = [number for number, character in enumerate(text) if not character.isspace()]
    spelled = [("".join(one_line(word.word).split()), word) for word in words]
    if "".join(letters for letters, _ in spelled) != "".join(text[place] for place in places):
        return ()
    pieces = []
    position = 0
    for letters, word in spelled:
        if letters:
            first, last = places[position], places[position + len(letters) - 1] + 1
            pieces.append(Piece(first, last, word.start, max(word.start, word.end)))
            position += len(letters)
    return tuple(pieces)
