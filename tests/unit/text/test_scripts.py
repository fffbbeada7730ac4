import pytest

from whisperbatch.text.languages import LANGUAGES, foreign_letters, script, scripts

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
