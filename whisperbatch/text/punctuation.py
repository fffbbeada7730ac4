"""Punctuation marks at the end of sentences and clauses, in all languages of Whisper."""

from typing import Final

SENTENCE_ENDS: Final = frozenset(".?!。？！…।॥؟۔։።")
CLAUSE_ENDS: Final = frozenset(",;:、，；：")
CLOSING: Final = "\"'”’)]}»」』"


def last_mark(text: str) -> str:
    """Return the last character before closing quotes and brackets; "" if there is none."""
    return text.strip().rstrip(CLOSING)[-1:]


def ends_sentence(text: str) -> bool:
    """Return whether a word or text ends with a mark that ends a sentence."""
    return last_mark(text) in SENTENCE_ENDS
