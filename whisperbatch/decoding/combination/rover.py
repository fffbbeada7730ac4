"""Combine several texts of the same speech: each word is that of most texts.

    reference   the  purpose  of  this  text  is   to  give
    text 2      the  purpose  of   his  test  is   to  live
    text 3      the  purpose  of  this  test  is  two  give
    result      the  purpose  of  this  test  is   to  give

This is ROVER (Fiscus 1997, "A post-processing system to yield reduced word error rates") with one
reference: each text is aligned with the reference, and each word of the reference is a slot. The
reference decides a draw.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby
from typing import Final

from whisperbatch.decoding.decoded_row import normalize_words
from whisperbatch.segmentation.timed_text import AlignedWord

MAX_GAP: Final = 5
"""Words: a text that lacks more words of the reference in a row is not counted there.

The model skips speech far more often than it invents a sentence. Without this limit, a sentence
that a retry recovered would be lost again.
"""

Pair = tuple[int | None, int | None]
"""Positions of a word in two texts; None: the other word has no partner."""


def combine(
    reference: Sequence[AlignedWord], others: Sequence[Sequence[AlignedWord]]
) -> list[AlignedWord]:
    """Return the words that most texts have, by ROVER.

    A word of the reference is replaced or removed if more texts have the same other word there, or
    no word, than have this word. Words are inserted if more than half of the texts have the same
    words at the same place. Texts are compared without case and punctuation.

    Args:
        reference: the words of the text that decides a draw.
        others: the words of the other texts.

    Returns:
        The words in order. A word that replaces another word has its times. Starts and ends never
        decrease if those of the reference do not.
    """
    slots: list[list[AlignedWord | None]] = [[word] for word in reference]
    insertions: list[list[tuple[AlignedWord, ...]]] = [[] for _ in range(len(reference) + 1)]
    for text in others:
        _add_text(reference, text, slots, insertions)
    majority = (len(others) + 1) / 2
    result: list[AlignedWord] = []
    for position, inserted in enumerate(insertions):
        new = _most_frequent_insertion(inserted, majority)
        word = _most_frequent(slots[position]) if position < len(reference) else None
        start = result[-1].end if result else 0
        following = next((later.start for later in reference[position:]), None)
        result += [_within(added, start, following) for added in new]
        if word is not None:
            result.append(word)
    return result


def _add_text(
    reference: Sequence[AlignedWord],
    text: Sequence[AlignedWord],
    slots: Sequence[list[AlignedWord | None]],
    insertions: Sequence[list[tuple[AlignedWord, ...]]],
) -> None:
    """Add the words of a text to the slots of the reference, and to the places between them."""
    partners: list[AlignedWord | None] = [None] * len(reference)
    added: list[list[AlignedWord]] = [[] for _ in insertions]
    position = 0
    for old, new in aligned_pairs(normalize_words(reference), normalize_words(text)):
        if old is not None:
            position = old + 1
            partners[old] = None if new is None else text[new]
        elif new is not None:
            added[position].append(text[new])
    for place, words in zip(insertions, added, strict=True):
        if words:
            place.append(tuple(words))
    for is_missing, group in groupby(range(len(partners)), key=lambda old: partners[old] is None):
        run = list(group)
        if not is_missing or len(run) <= MAX_GAP:
            for old in run:
                slots[old].append(partners[old])


def _most_frequent(candidates: Sequence[AlignedWord | None]) -> AlignedWord | None:
    """Return the word of a slot; the first candidate is the word of the reference."""
    [reference] = [word for word in candidates[:1] if word is not None]
    names = [None if word is None else normalize_words([word])[0] for word in candidates]
    name, _ = Counter(names).most_common(1)[0]  # of several, the first to occur
    if name == names[0]:
        return reference
    winner = candidates[names.index(name)]
    if winner is None:
        return None
    return replace(reference, text=winner.text, probability=winner.probability)


def _most_frequent_insertion(
    candidates: Sequence[tuple[AlignedWord, ...]], majority: float
) -> tuple[AlignedWord, ...]:
    """Return the words that more than half of the texts have at a place."""
    names = [tuple(normalize_words(words)) for words in candidates]
    for name, count in Counter(names).most_common(1):
        if count > majority:
            return candidates[names.index(name)]
    return ()


def _within(word: AlignedWord, start: int, end: int | None) -> AlignedWord:
    """Return a word with times between those of its neighbours."""
    last = max(start, word.end if end is None else end)
    first = min(max(word.start, start), last)
    return replace(word, start=first, end=min(max(word.end, first), last))


def aligned_pairs(first: Sequence[str], second: Sequence[str]) -> list[Pair]:
    """Align two texts with the lowest number of replaced, removed and inserted words.

    Returns:
        Pairs of positions in order, of all words of both texts.
    """
    costs = [[row + column for column in range(len(second) + 1)] for row in range(len(first) + 1)]
    for row, word in enumerate(first, start=1):
        above, current = costs[row - 1], costs[row]
        for column, other in enumerate(second, start=1):
            current[column] = min(
                above[column - 1] + (word != other), above[column] + 1, current[column - 1] + 1
            )
    pairs: list[Pair] = []
    row, column = len(first), len(second)
    while row or column:
        cost = costs[row][column]
        if row and column:
            different = first[row - 1] != second[column - 1]
            if cost == costs[row - 1][column - 1] + different:
                row, column = row - 1, column - 1
                pairs.append((row, column))
                continue
        if row and cost == costs[row - 1][column] + 1:
            row -= 1
            pairs.append((row, None))
        else:
            column -= 1
            pairs.append((None, column))
    return pairs[::-1]
