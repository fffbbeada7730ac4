"""Punctuation marks at the end of sentences and clauses, in all languages of Whisper."""

from types import MappingProxyType
from typing import Final

FULL_STOP: Final = "."
"""The only sentence mark that has other meanings: abbreviations, numbers, ordinals, names."""

SENTENCE_ENDS: Final = frozenset(
    ".?!…"
    "。．｡？！‼⁇⁈⁉"  # Chinese, Japanese
    "؟۔؞"  # Arabic, Urdu
    "।॥෴"  # India, Sri Lanka
    "။།༎។៕๛"  # Burmese, Tibetan, Khmer, Thai
    "።፧፨"  # Ethiopic
    "։"  # Armenian
    "׃"  # Hebrew
    "᠃"  # Mongolian
)
CLAUSE_ENDS: Final = frozenset(",;:、，；：،؛၊፣፤፥՝")
CLOSING: Final = "\"'”’)]}»›」』）】》〉］｣"
OPENING: Final = "\"'“‘„‚([{«‹「『（【《〈［｢¿¡"

OWN_ENDS: Final = MappingProxyType({"el": ";\u037e", "hy": ":"})
"""Marks that end a sentence in one language only: the Greek question mark, and the Armenian full
stop as it is typed."""


def last_mark(text: str) -> str:
    """Return the last character before closing quotes and brackets; "" if there is none."""
    return text.strip().rstrip(CLOSING)[-1:]


def ends_sentence(text: str) -> bool:
    """Return whether a word or text ends with a mark that ends a sentence."""
    return last_mark(text) in SENTENCE_ENDS
