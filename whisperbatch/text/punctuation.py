"""Marks at the ends of sentences and clauses, in every language."""

from typing import Final

SENTENCE_ENDS: Final = frozenset(".?!。？！…।॥؟۔։።")
CLAUSE_ENDS: Final = frozenset(",;:、，；：")
CLOSING: Final = "\"'”’)]}»」』"


def last_mark(text: str) -> str:
    """The last character of a text, closing quotes and brackets passed over; empty if none."""
    return text.strip().rstrip(CLOSING)[-1:]


def ends_sentence(text: str) -> bool:
    """Whether there is a mark at the end of a word that ends sentences."""
    return last_mark(text) in SENTENCE_ENDS
