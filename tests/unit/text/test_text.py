"""Control characters, punctuation, the names of languages and their scripts."""

import json
import unicodedata

import pytest

from whisperbatch.errors import OptionError
from whisperbatch.text import escape_controls, escape_controls_in_json
from whisperbatch.text.language_names import check_language, find_language, given_language
from whisperbatch.text.languages import LANGUAGES, foreign_letters, script, scripts
from whisperbatch.text.sentences import ends_sentence, last_mark


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b]0;title\x07.mp3", "\\x1b]0;title\\x07.mp3"),
        ("two\nlines\r\t", "two\\nlines\\r\\t"),
        ("\x9b31m", "\\x9b31m"),
        ("\u202egpj.exe", "\\u202egpj.exe"),
        ("a\u2028b", "a\\u2028b"),
        ("שלום\u200f! \u200d 👍🏽 \u00a0é \\x1b", "שלום\u200f! \u200d 👍🏽 \u00a0é \\x1b"),
        ("caf\udce9", "caf\udce9"),
    ],
)
def test_control_characters_are_shown_escaped(text: str, shown: str) -> None:
    assert escape_controls(text) == shown


def test_json_has_the_same_value_and_no_control_characters() -> None:
    value = {"text": "".join(map(chr, range(0x3000))), "other": ["\u2028", "é"]}
    text = escape_controls_in_json(json.dumps(value, ensure_ascii=False, indent=1))
    assert json.loads(text) == value
    assert escape_controls(text.replace("\n", "")) == text.replace("\n", "")


@pytest.mark.parametrize(
    ("text", "mark", "ends"),
    [
        ("Yes.", ".", True),
        (' "Really?"', "?", True),
        ("はい。」", "。", True),
        ("well, ", ",", False),
        ("word", "d", False),
        ("»", "", False),
        ("", "", False),
    ],
)
def test_last_mark_before_closing_quotes_and_brackets(text: str, mark: str, ends: bool) -> None:
    assert last_mark(text) == mark
    assert ends_sentence(text) is ends


REPORTED = (
    # name, source, code of Whisper
    ("pt-BR", "THU-MAIC/OpenMAIC#1082", "pt"),
    ("English", "m-bain/whisperX#251", "en"),
    ("english", "etalab-ia/OpenGateLLM#807", "en"),
    ("auto", "QuentinFuxa/WhisperLiveKit#6", None),
    ("zh-CN", "QuentinFuxa/NoLanguageLeftWaiting#1", "zh"),
    ("en-in", "VocaHQ/vocalinux#617", "en"),
    ("ja-JP", "handy-computer/transcribe.cpp#101", "ja"),
    ("iw", "PimpinPumpkin/Vela#87", "he"),
    ("nb", "djmango/obsidian-transcription#67", "no"),
    ("nb-NO", "Natively-AI-assistant/natively-cluely-ai-assistant#490", "no"),
    ("fil", "Silo-Server/silo-server#150", "tl"),
    ("gsw", "morpheus65535/bazarr#2922", "de"),
    ("cantonese", "openai/whisper#1926", "yue"),
    ("*", "linto-ai/linto-stt#54", None),
    ("scc", "emericg/OpenSubtitlesDownload#20", "sr"),
    ("und", "morpheus65535/bazarr#2946", None),
)


@pytest.mark.parametrize(("name", "source", "code"), REPORTED)
def test_names_that_users_reported(name: str, source: str, code: str | None) -> None:
    assert given_language(name) == code, source


@pytest.mark.parametrize(
    ("code", "names"),
    [
        ("en", "en EN eng en-US en_GB.UTF-8 en-x-private EN-us-u-ca-gregory <|en|>"),
        ("pt", "pt_BR por pt-PT Portuguese português"),
        ("zh", "zh-Hant zh-TW zh-Hans-CN zho chi cmn zh-cmn cmn_hans_cn zh_CN.GB2312 mandarin"),
        ("yue", "yue zh-yue zh-yue-Hant-HK yue-CN"),
        ("sr", "sr-Latn sr_RS.UTF-8@latin srp"),
        ("ca", "ca_ES@valencia valencian"),
        ("es", "es-419 castilian Español spa"),
        ("de", "de-CH-1901 deu ger DEUTSCH"),
        ("fr", "fra fre fr-CA français"),
        ("he", "he iw heb iw-IL"),
        ("id", "in ind id-ID"),
        ("yi", "ji yid"),
        ("ro", "mo mol ro-MD moldavian moldovan"),
        ("jw", "jw jv jav jv-ID javanese"),
        ("no", "no nb nor nob bokmål norsk"),
        ("nn", "nn nno no-nyn nynorsk"),
        ("hr", "hr hrv scr"),
        ("my", "my bur mya burmese"),
        ("nl", "nl-BE dut flemish"),
        ("ht", "hat haitian"),
        ("lb", "ltz letzeburgesch"),
        ("ps", "pus pushto"),
        ("pa", "pan panjabi"),
        ("si", "sin sinhalese"),
        ("ar", "ara arb_Arab ar-EG"),
        ("tl", "tl fil-PH tgl filipino"),
    ],
)
def test_codes_tags_and_other_names(code: str, names: str) -> None:
    assert {name: given_language(name) for name in names.split()} == dict.fromkeys(
        names.split(), code
    )


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("Brazilian Portuguese", "pt"),
        ("Portuguese (Brazil)", "pt"),
        ("English (US)", "en"),
        (" british english ", "en"),
        ("Chinese (Simplified)", "zh"),
        ("chinese_simplified", "zh"),
        ("Chinese (Cantonese, Traditional)", "yue"),
        ("Mandarin Chinese", "zh"),
        ("Norwegian Bokmål", "no"),
        (unicodedata.normalize("NFD", "Norwegian Bokmål"), "no"),
        ("Norwegian Nynorsk; Nynorsk, Norwegian", "nn"),
        ("Spanish; Castilian", "es"),
        ("Catalan; Valencian", "ca"),
        ("Haitian; Haitian Creole", "ht"),
        ("Romanian; Moldavian; Moldovan", "ro"),
        ("Greek, Modern (1453-)", "el"),
        ("Central Khmer", "km"),
    ],
)
def test_english_names(name: str, code: str) -> None:
    assert given_language(name) == code


@pytest.mark.parametrize(
    "name", ["auto", "AUTO", "Auto-detect", "auto_detect", "Automatic Detection", "none", "und"]
)
def test_automatic_detection(name: str) -> None:
    assert given_language(name) is None
    with pytest.raises(OptionError, match="leave it out"):  # in a list of languages
        check_language(name, "languages")


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("", "is empty; leave it out"),
        ("jp", "did you mean 'ja'"),  # pluja/whishper#27
        ("cz", "did you mean 'cs'"),
        ("ua-UA", "did you mean 'uk'"),
        ("us", "did you mean 'en'"),
        ("nan", "did you mean 'zh'"),
        ("Old English", "did you mean 'en'"),
        ("Englsh", "did you mean 'en'"),
        ("Crimean Tatar", "did you mean 'tt'"),
        ("mul", "multilingual=True"),
        ("multilingual", "multilingual=True"),
        ("de,fr", "languages=('de', 'fr')"),
        ("zxx", "nobody speaks"),
        ("sh", "'sr', 'hr' or 'bs'"),
        ("klingon", "or 'auto'"),
        ("C.UTF-8", "or 'auto'"),
        ("en--US", "or 'auto'"),
        ("en-", "or 'auto'"),
        ("x" * 1000, "or 'auto'"),
        ("\ud800", "or 'auto'"),
    ],
)
def test_unknown_names_are_refused_with_the_nearest_meaning(name: str, hint: str) -> None:
    with pytest.raises(OptionError) as error:
        given_language(name)
    assert str(error.value).startswith("language=")
    assert hint in str(error.value)
    assert len(str(error.value)) < 250


def test_every_language_is_found_by_its_code_and_its_english_name() -> None:
    for code, english in LANGUAGES.items():
        assert find_language(code) == find_language(english.title()) == code
        assert find_language(f"{code}-Latn-001") == code


HELLO = {
    "am": "ሰላም ለዓለም",
    "ar": "مرحبا بالعالم",
    "bn": "ওহে বিশ্ব",
    "bo": "བཀྲ་ཤིས་བདེ་ལེགས།",
    "de": "Grüße, Welt: ÄÖÜß",
    "el": "Γειά Κόσμε, ἀρχῇ",
    "gu": "નમસ્તે દુનિયા",
    "he": "שלום עולם",
    "hi": "नमस्ते दुनिया",
    "hy": "Բարեւ աշխարհ",
    "ja": "こんにちは、世界。カラオケ",
    "ka": "გამარჯობა მსოფლიო",
    "km": "សួស្តីពិភពលោក",
    "kn": "ನಮಸ್ಕಾರ ಪ್ರಪಂಚ",
    "ko": "안녕하세요 세상",
    "lo": "ສະບາຍດີຊາວໂລກ",
    "ml": "നമസ്കാരം ലോകം",
    "my": "မင်္ဂလာပါ ကမ္ဘာ",
    "pa": "ਸਤ ਸ੍ਰੀ ਅਕਾਲ",
    "ru": "Привет, мир! Ёж",
    "si": "හෙලෝ ලෝකය",
    "ta": "வணக்கம் உலகம்",
    "te": "హలో ప్రపంచం",
    "th": "สวัสดีชาวโลก",
    "vi": "Chào thế giới, Đà Nẵng",
    "zh": "你好,世界 𠮷",
}


@pytest.mark.parametrize("language", HELLO)
def test_text_is_foreign_in_languages_with_other_scripts(language: str) -> None:
    text = HELLO[language]
    assert foreign_letters(text, language) == ""
    for code in HELLO:
        if scripts(code).isdisjoint(scripts(language)):
            assert foreign_letters(text, code), code
            assert set(foreign_letters(text, code)) <= set(text)


def test_every_language_has_a_script() -> None:
    for language in LANGUAGES:
        assert scripts(language), language
    assert scripts("en") == {"LATIN"}
    assert scripts("ru") == {"CYRILLIC"}
    assert scripts("ur") == {"ARABIC"}


def test_languages_with_several_scripts() -> None:
    assert scripts("ja") == {"CJK", "HIRAGANA", "KATAKANA"}
    assert foreign_letters("スーパーで買い物をする", "ja") == ""
    assert foreign_letters("買い物", "zh") == "い"
    assert foreign_letters("ｶﾗｵｹ", "ja") == ""  # half-width forms
    assert scripts("sr") == {"CYRILLIC", "LATIN"}
    assert foreign_letters("Добро jutro", "sr") == ""
    assert foreign_letters("Добро jutro", "ru") == "jutro"
    assert foreign_letters("Добро jutro", "hr") == "Добро"


def test_latin_letters_are_foreign_unless_allowed() -> None:
    text = "Включите Bluetooth и Wi-Fi"
    assert foreign_letters(text, "ru") == "BluetoothWiFi"
    assert foreign_letters(text, "ru", latin=True) == ""
    assert foreign_letters("Включите привет 世界", "ru", latin=True) == "世界"
    wide = "\N{FULLWIDTH LATIN CAPITAL LETTER A}"
    assert foreign_letters(wide, "ja") == wide
    assert foreign_letters(wide, "ja", latin=True) == ""


def test_similar_letters_of_different_scripts_are_distinguished() -> None:
    assert foreign_letters("p\N{CYRILLIC SMALL LETTER A}ge", "en") == "\N{CYRILLIC SMALL LETTER A}"
    assert foreign_letters("p\N{CYRILLIC SMALL LETTER A}ge", "ru") == "pge"


@pytest.mark.parametrize(
    "text",
    [
        "0123456789 ٣٤٥ ४५ Ⅷ",
        "…,;:.!?¿¡«»„“”—()[]{}#@&%$€£₽。、「」؟।",
        "😀👩‍👩‍👧🇫🇷✌🏽♫",
        "\N{COMBINING ACUTE ACCENT}\N{COMBINING DIAERESIS}\N{ARABIC FATHA}\N{HEBREW POINT QAMATS}",
        "µ ª º \N{SCRIPT SMALL L} ∑ ²",
        "\n\t\N{ZERO WIDTH JOINER}\N{REPLACEMENT CHARACTER}\x00\ue000",
        "",
    ],
)
def test_digits_and_symbols_belong_to_no_script(text: str) -> None:
    assert [script(character) for character in text] == [None] * len(text)
    for language in ("en", "ru", "ja", "ar"):
        assert foreign_letters(text, language) == ""


def test_combining_accents_are_not_foreign() -> None:
    assert foreign_letters("cafe\N{COMBINING ACUTE ACCENT}", "fr") == ""
    assert foreign_letters("и\N{COMBINING BREVE}", "ru") == ""
    assert foreign_letters("5 µm, 1ª y 2º", "es") == ""
    assert foreign_letters("5 µm", "ru") == "m"
