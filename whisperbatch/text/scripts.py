"""The scripts that languages are written in."""

import unicodedata
from functools import cache, lru_cache
from types import MappingProxyType
from typing import Final

# fmt: off
_SCRIPTS: Final = MappingProxyType(
    {
        "ARABIC": ("ar", "fa", "ps", "sd", "ur"),
        "ARMENIAN": ("hy",),
        "BENGALI": ("as", "bn"),
        "CJK": ("ja", "yue", "zh"),
        "CYRILLIC": ("ba", "be", "bg", "kk", "mk", "mn", "ru", "sr", "tg", "tt", "uk"),
        "DEVANAGARI": ("hi", "mr", "ne", "sa"),
        "ETHIOPIC": ("am",),
        "GEORGIAN": ("ka",),
        "GREEK": ("el",),
        "GUJARATI": ("gu",),
        "GURMUKHI": ("pa",),
        "HANGUL": ("ko",),
        "HEBREW": ("he", "yi"),
        "HIRAGANA": ("ja",),
        "KANNADA": ("kn",),
        "KATAKANA": ("ja",),
        "KHMER": ("km",),
        "LAO": ("lo",),
        "MALAYALAM": ("ml",),
        "MYANMAR": ("my",),
        "SINHALA": ("si",),
        "TAMIL": ("ta",),
        "TELUGU": ("te",),
        "THAI": ("th",),
        "TIBETAN": ("bo",),
    }
)
# fmt: on
BOTH: Final = ("sr",)  # written in Latin letters, too
LATIN: Final = "LATIN"
_KNOWN: Final = frozenset((*_SCRIPTS, LATIN))


@cache
def scripts(language: str) -> frozenset[str]:
    """Names of the scripts of a language, as Unicode spells them: {"CYRILLIC"} for "ru"."""
    own = {script for script, languages in _SCRIPTS.items() if language in languages}
    return frozenset(own | {LATIN} if not own or language in BOTH else own)


@lru_cache(maxsize=4096)
def script(character: str) -> str | None:
    """The script of a letter; None for what is of no script, such as digits and punctuation."""
    if not character.isalpha():
        return None
    words = unicodedata.name(character, "").replace("-", " ").split()
    return next((word for word in words[:2] if word in _KNOWN), None)


def foreign(text: str, language: str, *, latin: bool = False) -> str:
    """The letters of a text that are not of the language's scripts.

    Args:
        text: any.
        language: that it is in.
        latin: whether Latin letters are none of them in any language.
    """
    own = scripts(language) | ({LATIN} if latin else set())
    return "".join(c for c in text if (found := script(c)) and found not in own)
