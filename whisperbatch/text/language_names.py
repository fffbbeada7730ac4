"""Names of languages as standards and other programs write them, and the code of Whisper for each.

Accepted, in upper or lower case:

    codes of Whisper                    en, zh, haw, yue; <|en|>, the token
    ISO 639-1, 639-2 and 639-3          eng, deu and ger, fra and fre, cmn
    former codes                        iw (he), in (id), ji (yi), mo (ro), jv for Whisper's jw
    tags of BCP 47 and POSIX locales    en-US, zh-Hant-TW, sr-Latn, pt_BR, en_GB.UTF-8
    English names, and other names      English, Castilian, Brazilian Portuguese, Chinese (Taiwan)

The region and the script of a tag have no effect, because Whisper has one token for each language.
Words that mean "detect the language" have no code: `given_language` returns None for them.
"""

import difflib
import re
import unicodedata
from collections.abc import Iterator
from types import MappingProxyType
from typing import Final, cast

from whisperbatch.errors import OptionError
from whisperbatch.text.languages import LANGUAGES
from whisperbatch.text.messages import shown

MAX_NAME: Final = 80  # characters of a name; longer text is no language

# fmt: off
AUTOMATIC: Final = frozenset(
    (
        "*", "auto", "automatic", "automaticdetection", "autodetect", "autodetected",
        "autodetection", "detect", "detectautomatically", "detectlanguage", "languagedetection",
        "none", "null", "und", "undetermined", "unknown",
    )
)
"""Words for automatic detection, without spaces and hyphens; "und" is ISO 639-2."""
SEVERAL: Final = frozenset(("mixed", "mul", "multi", "multilingual", "multiple"))

_CODES: Final = MappingProxyType(
    {
        "af": "afr", "am": "amh", "ar": "ara arb arz apc ary acm acw aeb ajp afb", "as": "asm",
        "az": "aze azj azb", "ba": "bak", "be": "bel", "bg": "bul", "bn": "ben", "bo": "bod tib",
        "br": "bre", "bs": "bos", "ca": "cat", "cs": "ces cze", "cy": "cym wel", "da": "dan",
        "de": "deu ger gsw", "el": "ell gre", "en": "eng", "es": "spa", "et": "est ekk",
        "eu": "eus baq", "fa": "fas per pes prs", "fi": "fin", "fo": "fao", "fr": "fra fre",
        "gl": "glg", "gu": "guj", "ha": "hau", "he": "heb iw", "hi": "hin", "hr": "hrv scr",
        "ht": "hat", "hu": "hun", "hy": "hye arm", "id": "ind in", "is": "isl ice", "it": "ita",
        "ja": "jpn", "jw": "jav jv", "ka": "kat geo", "kk": "kaz", "km": "khm", "kn": "kan",
        "ko": "kor", "la": "lat", "lb": "ltz", "ln": "lin", "lo": "lao", "lt": "lit",
        "lv": "lav lvs", "mg": "mlg plt", "mi": "mri mao", "mk": "mkd mac", "ml": "mal",
        "mn": "mon khk", "mr": "mar", "ms": "msa may zsm zlm", "mt": "mlt", "my": "mya bur",
        "ne": "nep npi", "nl": "nld dut", "nn": "nno", "no": "nor nb nob", "oc": "oci",
        "pa": "pan", "pl": "pol", "ps": "pus pbt pbu pst", "pt": "por", "ro": "ron rum mo mol",
        "ru": "rus", "sa": "san", "sd": "snd", "si": "sin", "sk": "slk slo", "sl": "slv",
        "sn": "sna", "so": "som", "sq": "sqi alb als", "sr": "srp scc", "su": "sun", "sv": "swe",
        "sw": "swa swh swc", "ta": "tam", "te": "tel", "tg": "tgk", "th": "tha", "tk": "tuk",
        "tl": "tgl fil", "tr": "tur", "tt": "tat", "uk": "ukr", "ur": "urd", "uz": "uzb uzn uzs",
        "vi": "vie", "yi": "yid ji ydd yih", "yo": "yor", "zh": "zho chi cmn",
    }
)
"""Code -> its codes in ISO 639-2 and 639-3, those of standard forms (arb, cmn), former codes."""

_NAMES: Final = MappingProxyType(
    {
        "ar": "العربية", "bn": "bangla", "ca": "valencian, català", "cs": "čeština",
        "da": "dansk", "de": "deutsch, alemannic", "el": "ελληνικά",
        "es": "castilian, español, castellano", "fa": "farsi, dari, فارسی", "fi": "suomi",
        "fr": "français", "gl": "galego", "he": "עברית", "hi": "हिन्दी", "hr": "hrvatski",
        "ht": "haitian, kreyòl", "hu": "magyar", "id": "bahasa indonesia", "it": "italiano",
        "ja": "日本語", "km": "central khmer", "ko": "한국어", "lb": "letzeburgesch",
        "ms": "bahasa melayu", "my": "burmese", "nl": "flemish, nederlands",
        "nn": "norwegian nynorsk", "no": "bokmål, bokmal, norwegian bokmål, norsk",
        "pa": "panjabi", "pl": "polski", "ps": "pushto", "pt": "português",
        "ro": "moldavian, moldovan, română", "ru": "русский", "si": "sinhalese",
        "sv": "svenska", "sw": "kiswahili", "tg": "tajiki", "th": "ไทย", "tl": "filipino",
        "tr": "türkçe", "uk": "українська", "vi": "tiếng việt",
        "zh": "mandarin, putonghua, 中文, 汉语, 普通话", "yue": "粵語, 粤语, 廣東話",
    }
)
"""Code -> other names: those of openai/whisper and ISO 639-2, and names in the language itself."""

_QUALIFIERS: Final = frozenset(
    (
        "african", "america", "american", "argentinian", "australian", "austrian", "belgian",
        "brazil", "brazilian", "british", "canada", "canadian", "china", "colombian", "eastern",
        "egyptian", "european", "gulf", "hong", "indian", "international", "iranian", "irish",
        "kingdom", "kong", "latin", "levantine", "mexican", "mexico", "modern", "moroccan",
        "northern", "portugal", "saudi", "scottish", "simplified", "south", "southern", "spain",
        "standard", "states", "swiss", "taiwan", "traditional", "uk", "united", "us", "usa",
        "western",
    )
)
"""Words beside the name of a language that Whisper does not distinguish."""

_MEANT: Final = MappingProxyType(
    {
        "al": "sq", "at": "de", "by": "be", "ch": "de", "cn": "zh", "cz": "cs", "dk": "da",
        "ee": "et", "gb": "en", "ge": "ka", "gr": "el", "hk": "yue", "il": "he",
        "ir": "fa", "jp": "ja", "kh": "km", "kr": "ko", "kz": "kk", "mx": "es", "np": "ne",
        "ph": "tl", "rs": "sr", "se": "sv", "sp": "es", "tw": "zh", "ua": "uk", "us": "en",
        "vn": "vi", "hak": "zh", "nan": "zh", "wuu": "zh", "sco": "en", "nds": "de",
    }
)
"""Codes of countries, and of languages that Whisper does not know -> the nearest language."""
# fmt: on

_UNCLEAR: Final = MappingProxyType(
    dict.fromkeys(("sh", "hbs", "serbo-croatian"), "is Serbo-Croatian: give 'sr', 'hr' or 'bs'")
    | dict.fromkeys(("zxx",), "means that nobody speaks; leave it out")
)

_TAG: Final = re.compile(
    r"(?P<language>[a-z]{2,3})"
    r"(?P<extended>(-[a-z]{3}){0,3})"
    r"(-[a-z]{4})?(-([a-z]{2}|\d{3}))?(-([a-z\d]{5,8}|\d[a-z\d]{3}))*"  # script, region, variants
    r"(-[a-wyz\d](-[a-z\d]{2,8})+)*(-x(-[a-z\d]{1,8})+)?"  # extensions, private use
)
"""The form of a tag (RFC 5646)."""
_ENCODING: Final = re.compile(r"[.@][\w.@-]*$")  # of a locale: en_GB.UTF-8, ca_ES@valencia
_EXTENDED: Final = MappingProxyType({"yue": "yue", "nyn": "nn"})  # zh-yue, no-nyn


def given_language(language: object) -> str | None:
    """Return the code of a language that a user gives; None if the language is to be detected.

    Args:
        language: the name of a language in any accepted form, or a word such as "auto".

    Raises:
        OptionError: the value names no language of Whisper.
    """
    if issubclass(type(language), str) and _joined(_text(language)) in AUTOMATIC:
        return None
    return check_language(language)


def check_language(language: object, name: str = "language") -> str:
    """Return the code of a language.

    Raises:
        OptionError: the value names no language of Whisper; the message names the nearest language.
    """
    if not issubclass(type(language), str):
        raise OptionError(f"`{name}` must be a code such as 'en', not {shown(language)}")
    text = _text(language)
    code = find_language(text)
    if code is None:
        raise OptionError(f"`{name}={shown(language)}` {_problem(text, name)}")
    return code


def find_language(name: str) -> str | None:
    """Return Whisper's code of a language; None if the name is not known."""
    text = _text(name)
    if len(text) > MAX_NAME:
        return None
    return _CODE_OF.get(text) or _from_tag(text) or _from_words(text)


def _text(name: object) -> str:
    """Return the beginning of a name in lower case, without the signs of a token."""
    text = str.__str__(cast("str", name))[: MAX_NAME + 1].strip()
    return unicodedata.normalize("NFC", text.lower()).removeprefix("<|").removesuffix("|>")


def _joined(text: str) -> str:
    return re.sub(r"[\s_-]", "", text)


def _from_tag(text: str) -> str | None:
    match = _TAG.fullmatch(_ENCODING.sub("", text).replace("_", "-"))
    if match is None:
        return None
    extended = match["extended"].split("-")[1:]
    specific = next((_EXTENDED[part] for part in extended if part in _EXTENDED), None)
    code = _CODE_OF.get(match["language"])
    return code and (specific or code)


def _from_words(text: str) -> str | None:
    """Return the language of an English name with a country or a variety beside the name.

    Text in brackets is a remark, unless it names a language: "Chinese (Cantonese, Traditional)".
    """
    outside = " ".join(re.sub(r"\([^)]*\)?", " ", text).split())
    found = set(_named(outside, strict=True))
    if not found or None in found:
        return None
    found |= set(_named(text, strict=False))
    if "yue" in found:
        found.discard("zh")
    if "nn" in found:
        found.discard("no")
    return found.pop() if len(found) == 1 else None


def _named(text: str, *, strict: bool) -> Iterator[str | None]:
    """Yield the code of each name in a text, and None for words that are not understood."""
    words = re.findall(r"[^\s,;/()_-]+", text)
    position = 0
    while position < len(words):
        for length in (2, 1):
            code = _CODE_OF_NAME.get(" ".join(words[position : position + length]))
            if code:
                yield code
                break
        else:
            length = 1
            if strict and words[position] not in _QUALIFIERS:
                yield None
        position += length


def _problem(text: str, name: str) -> str:
    """Return the rest of a message about a name that is not known."""
    if not text:
        return "is empty; leave it out, or give a code such as 'en'"
    if _joined(text) in SEVERAL:
        return "means several languages; leave it out, and give `multilingual=True`"
    if _joined(text) in AUTOMATIC:
        return f"means no language; leave it out: without `{name}`, the language is detected"
    if text in _UNCLEAR:
        return _UNCLEAR[text]
    codes = {code for part in re.split(r"[,;/+&]| and ", text) if (code := find_language(part))}
    if len(codes) > 1:
        return f"names several languages; leave it out, and give `languages={tuple(sorted(codes))}`"
    nearest = _nearest(text)
    hint = f"did you mean {nearest!r}?" if nearest else "give a code such as 'en', or 'auto'"
    return f"is not a language of Whisper; {hint}"


def _nearest(text: str) -> str | None:
    """Return the language that a name probably means, or the nearest that Whisper knows."""
    primary = re.split(r"[-_.@\s]", text)[0]
    if meant := _MEANT.get(text) or _MEANT.get(primary):
        return meant
    inside = [code for code in _named(text, strict=False) if code]
    if inside:
        return inside[0]
    close = difflib.get_close_matches(text, _CODE_OF_NAME, n=1, cutoff=0.7)
    return _CODE_OF_NAME[close[0]] if close else None


_CODE_OF_NAME: Final = MappingProxyType(
    {english: code for code, english in LANGUAGES.items()}
    | {name: code for code, names in _NAMES.items() for name in names.split(", ")}
)
_CODE_OF: Final = MappingProxyType(
    {code: code for code in LANGUAGES}
    | {other: code for code, others in _CODES.items() for other in others.split()}
    | _CODE_OF_NAME
)
