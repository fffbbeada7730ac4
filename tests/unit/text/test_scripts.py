import pytest

from whisperbatch.text.languages import LANGUAGES
from whisperbatch.text.scripts import foreign, script, scripts

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
def test_a_language_is_foreign_in_all_that_are_written_otherwise(language: str) -> None:
    text = HELLO[language]
    assert foreign(text, language) == ""
    for other in HELLO:
        if scripts(other).isdisjoint(scripts(language)):
            assert foreign(text, other), other
            assert set(foreign(text, other)) <= set(text)


def test_every_language_has_a_script() -> None:
    for language in LANGUAGES:
        assert scripts(language), language
    assert scripts("en") == {"LATIN"}
    assert scripts("ru") == {"CYRILLIC"}
    assert scripts("ur") == {"ARABIC"}


def test_some_languages_have_several() -> None:
    assert scripts("ja") == {"CJK", "HIRAGANA", "KATAKANA"}
    assert foreign("スーパーで買い物をする", "ja") == ""
    assert foreign("買い物", "zh") == "い"
    assert foreign("ｶﾗｵｹ", "ja") == ""  # half width
    assert scripts("sr") == {"CYRILLIC", "LATIN"}
    assert foreign("Добро jutro", "sr") == ""
    assert foreign("Добро jutro", "ru") == "jutro"
    assert foreign("Добро jutro", "hr") == "Добро"


def test_latin_letters_are_foreign_unless_names_are_allowed() -> None:
    text = "Включите Bluetooth и Wi-Fi"
    assert foreign(text, "ru") == "BluetoothWiFi"
    assert foreign(text, "ru", latin=True) == ""
    assert foreign("Включите привет 世界", "ru", latin=True) == "世界"
    wide = "\N{FULLWIDTH LATIN CAPITAL LETTER A}"
    assert foreign(wide, "ja") == wide
    assert foreign(wide, "ja", latin=True) == ""


def test_letters_that_only_look_alike_are_told_apart() -> None:
    assert foreign("p\N{CYRILLIC SMALL LETTER A}ge", "en") == "\N{CYRILLIC SMALL LETTER A}"
    assert foreign("p\N{CYRILLIC SMALL LETTER A}ge", "ru") == "pge"


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
def test_what_is_no_letter_is_foreign_nowhere(text: str) -> None:
    assert [script(character) for character in text] == [None] * len(text)
    for language in ("en", "ru", "ja", "ar"):
        assert foreign(text, language) == ""


def test_accents_apart_from_their_letters_do_no_harm() -> None:
    assert foreign("cafe\N{COMBINING ACUTE ACCENT}", "fr") == ""
    assert foreign("и\N{COMBINING BREVE}", "ru") == ""
    assert foreign("5 µm, 1ª y 2º", "es") == ""
    assert foreign("5 µm", "ru") == "m"
