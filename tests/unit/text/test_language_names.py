"""Names of languages as other programs and standards write them."""

import unicodedata

import pytest

from whisperbatch.errors import OptionError
from whisperbatch.text.language_names import check_language, find_language, given_language
from whisperbatch.text.languages import LANGUAGES

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
