"""The languages of Whisper, the scripts in which they are written, and foreign letters."""

import unicodedata
from functools import cache, lru_cache
from types import MappingProxyType
from typing import Final

# fmt: off
LANGUAGES: Final = MappingProxyType(
    {
        "af": "afrikaans", "am": "amharic", "ar": "arabic", "as": "assamese",
        "az": "azerbaijani", "ba": "bashkir", "be": "belarusian", "bg": "bulgarian",
        "bn": "bengali", "bo": "tibetan", "br": "breton", "bs": "bosnian", "ca": "catalan",
        "cs": "czech", "cy": "welsh", "da": "danish", "de": "german", "el": "greek",
        "en": "english", "es": "spanish", "et": "estonian", "eu": "basque", "fa": "persian",
        "fi": "finnish", "fo": "faroese", "fr": "french", "gl": "galician", "gu": "gujarati",
        "ha": "hausa", "haw": "hawaiian", "he": "hebrew", "hi": "hindi", "hr": "croatian",
        "ht": "haitian creole", "hu": "hungarian", "hy": "armenian", "id": "indonesian",
        "is": "icelandic", "it": "italian", "ja": "japanese", "jw": "javanese",
        "ka": "georgian", "kk": "kazakh", "km": "khmer", "kn": "kannada", "ko": "korean",
        "la": "latin", "lb": "luxembourgish", "ln": "lingala", "lo": "lao",
        "lt": "lithuanian", "lv": "latvian", "mg": "malagasy", "mi": "maori",
        "mk": "macedonian", "ml": "malayalam", "mn": "mongolian", "mr": "marathi",
        "ms": "malay", "mt": "maltese", "my": "myanmar", "ne": "nepali", "nl": "dutch",
        "nn": "nynorsk", "no": "norwegian", "oc": "occitan", "pa": "punjabi", "pl": "polish",
        "ps": "pashto", "pt": "portuguese", "ro": "romanian", "ru": "russian",
        "sa": "sanskrit", "sd": "sindhi", "si": "sinhala", "sk": "slovak", "sl": "slovenian",
        "sn": "shona", "so": "somali", "sq": "albanian", "sr": "serbian", "su": "sundanese",
        "sv": "swedish", "sw": "swahili", "ta": "tamil", "te": "telugu", "tg": "tajik",
        "th": "thai", "tk": "turkmen", "tl": "tagalog", "tr": "turkish", "tt": "tatar",
        "uk": "ukrainian", "ur": "urdu", "uz": "uzbek", "vi": "vietnamese",
        "yi": "yiddish", "yo": "yoruba", "yue": "cantonese", "zh": "chinese",
    }
)
# fmt: on
"""Code -> English name."""

UNSPACED: Final = frozenset({"zh", "ja", "th", "lo", "my", "yue", "km", "bo"})
"""Languages written without spaces between words."""


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
LATIN: Final = "LATIN"
ALSO_LATIN: Final = ("sr",)  # languages written in Latin letters and in another script
_RIGHT_TO_LEFT: Final = ("ARABIC", "HEBREW")
_ALL_SCRIPTS: Final = frozenset((*_SCRIPTS, LATIN))


@cache
def scripts(language: str) -> frozenset[str]:
    """Return the scripts of a language by their names in Unicode: {"CYRILLIC"} for "ru"."""
    names = {script for script, languages in _SCRIPTS.items() if language in languages}
    return frozenset(names | {LATIN} if not names or language in ALSO_LATIN else names)


def is_right_to_left(language: str) -> bool:
    """Return whether a language is written from right to left."""
    return not scripts(language).isdisjoint(_RIGHT_TO_LEFT)


@lru_cache(maxsize=4096)
def script(character: str) -> str | None:
    """Return the script of a letter; None for characters without a script (digits, marks)."""
    if not character.isalpha():
        return None
    # the script is the first or second word: "LATIN SMALL ...", "FULLWIDTH LATIN ..."
    words = unicodedata.name(character, "").replace("-", " ").split()
    return next((word for word in words[:2] if word in _ALL_SCRIPTS), None)


def foreign_letters(text: str, language: str, *, latin: bool = False) -> str:
    """Return the letters of `text` that belong to no script of `language`.

    Args:
        text: any text.
        language: code of the language in which the text is written.
        latin: accept Latin letters in every language.

    Returns:
        The foreign letters in their order, repeated as in the text; "" if there are none.
    """
    accepted = scripts(language) | ({LATIN} if latin else set())
    return "".join(letter for letter in text if (name := script(letter)) and name not in accepted)
