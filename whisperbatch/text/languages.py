"""The languages of Whisper, with the codes of its vocabulary."""

import difflib
from types import MappingProxyType
from typing import Final, cast

from whisperbatch.errors import OptionError
from whisperbatch.text.messages import shown

MAX_NAME: Final = 40  # characters that are compared with the names of languages

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


def check_language(language: object, name: str = "language") -> str:
    """Return the code of a language.

    Args:
        language: the code or the English name, in upper or lower case.
        name: the option that holds the value, for messages.

    Raises:
        OptionError: the value is neither a code nor a name; the message suggests a close one.
    """
    if not issubclass(type(language), str):
        raise OptionError(f"{name} must be a code such as 'en', not {shown(language)}")
    text = cast("str", language).strip().lower()
    if text in LANGUAGES:
        return text
    codes = {english: code for code, english in LANGUAGES.items()}
    if text in codes:
        return codes[text]
    close = difflib.get_close_matches(text[:MAX_NAME], [*LANGUAGES, *codes], n=1)
    hint = f"did you mean {close[0]!r}?" if close else "give a code such as 'en', or None"
    raise OptionError(f"{name}={shown(language)} is not a language of Whisper; {hint}")
