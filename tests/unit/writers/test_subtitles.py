"""SubRip, WebVTT, lyrics and TTML, to the letter."""

from xml.etree import ElementTree as ET

import pytest

from tests.unit.transcripts import segment, spoken, transcript
from whisperbatch.types import Word
from whisperbatch.writers import SubtitleOptions, render
from whisperbatch.writers.times import clock, decimal, milliseconds, short_clock

TT = "{http://www.w3.org/ns/ttml}"
LANGUAGE = "{http://www.w3.org/XML/1998/namespace}lang"

TWO = transcript(
    segment("He does not know. You may ask him again tomorrow", 0.5, 3.25),
    segment("Yes.", 3661.0005, 3662.001),
)
HIGHLIGHTED = SubtitleOptions(highlight_words=True)


def parsed(written: str) -> ET.Element:
    return ET.fromstring(written)  # noqa: S314 - our own


def test_srt() -> None:
    assert render(TWO, "srt") == (
        "1\n"
        "00:00:00,500 --> 00:00:03,250\n"
        "He does not know.\n"
        "You may ask him again tomorrow\n"
        "\n"
        "2\n"
        "01:01:01,000 --> 01:01:02,001\n"
        "Yes.\n"
    )


def test_vtt() -> None:
    assert render(TWO, "vtt") == (
        "WEBVTT\n"
        "\n"
        "00:00:00.500 --> 00:00:03.250\n"
        "He does not know.\n"
        "You may ask him again tomorrow\n"
        "\n"
        "01:01:01.000 --> 01:01:02.001\n"
        "Yes.\n"
    )


def test_lrc_has_a_line_a_cue() -> None:
    assert render(TWO, "lrc") == (
        "[00:00.50]He does not know.\n[00:01.53]You may ask him again tomorrow\n[61:01.00]Yes.\n"
    )


def test_ttml() -> None:
    written = render(TWO, "ttml")
    assert written.startswith('<?xml version="1.0" encoding="UTF-8"?>\n<tt ')
    assert (
        '<p begin="00:00:00.500" end="00:00:03.250">'
        "He does not know.<br />You may ask him again tomorrow</p>\n"
        '<p begin="01:01:01.000" end="01:01:02.001">Yes.</p>\n'
    ) in written
    root = parsed(written)
    assert root.tag == f"{TT}tt"
    assert root.get(LANGUAGE) == "en"
    region = root.find(f"{TT}head/{TT}layout/{TT}region")
    body = root.find(f"{TT}body")
    assert region is not None
    assert body is not None
    assert region.get("{http://www.w3.org/XML/1998/namespace}id") == body.get("region") == "bottom"
    assert region.get("{http://www.w3.org/ns/ttml#styling}displayAlign") == "after"


def test_ttml_says_languages() -> None:
    root = parsed(
        render(
            transcript(
                segment("Oui."),
                segment("Yes.", 1, 2),
                segment("Inggih.", 2, 3, language="jw"),
                segment("Well.", 3, 4),
                language="fr",
            ),
            "ttml",
        )
    )
    assert root.get(LANGUAGE) == "en"
    assert [p.get(LANGUAGE) for p in root.iter(f"{TT}p")] == [None, None, "jv", None]


@pytest.mark.parametrize(
    ("format", "expected"),
    [("txt", ""), ("srt", ""), ("vtt", "WEBVTT\n"), ("lrc", ""), ("tsv", "start\tend\ttext\n")],
)
def test_silence_gives_no_cues(format: str, expected: str) -> None:  # noqa: A002 - render's name
    silence = transcript(language=None)
    assert render(silence, format) == expected


def test_ttml_of_silence_is_a_document() -> None:
    root = parsed(render(transcript(language=None), "ttml"))
    assert root.get(LANGUAGE) == ""
    assert list(root.iter(f"{TT}p")) == []


def payload(text: str, format: str) -> str:  # noqa: A002 - likewise
    return render(transcript(segment(text)), format).split(" --> 00:00:01")[1][5:]


def test_vtt_escapes_its_markup() -> None:
    assert payload("a < b & c > d --> <i>e</i> &amp;", "vtt") == (
        "a &lt; b &amp; c &gt; d --&gt; &lt;i&gt;e&lt;/i&gt; &amp;amp;\n"
    )


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a --> b", "a -\u200b-> b"),
        ("a ---> b", "a --\u200b-> b"),
        ("<i>a</i>", "<\u200bi>a<\u200b/i>"),
        ("{\\an8}a", "{\u200b\\an8}a"),
        ("1 < 2 & 3 > 2", "1 <\u200b 2 & 3 > 2"),
        ("a < & b -> c {d}", "a < & b -> c {d}"),
        ("a\n\nb", "a b"),
    ],
)
def test_srt_parts_what_would_be_markup(text: str, shown: str) -> None:
    assert payload(text, "srt") == f"{shown}\n"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("[00:05.00] a", "[\u200b00:05.00] a"),
        ("<00:05.00> a", "<\u200b00:05.00> a"),
        ("[Music] at [5]", "[Music] at [5]"),
    ],
)
def test_lrc_parts_what_would_be_a_time(text: str, shown: str) -> None:
    assert render(transcript(segment(text)), "lrc") == f"[00:00.00]{shown}\n"


def test_ttml_escapes_what_xml_has_no_place_for() -> None:
    text = 'a < b & c > "d" ]]> \0\x1b\ufffe'
    root = parsed(render(transcript(segment(text)), "ttml"))
    assert [p.text for p in root.iter(f"{TT}p")] == ['a < b & c > "d" ]]>']


def test_the_word_that_is_said_is_underlined() -> None:
    said = transcript(spoken("a <b>", start=1, pace=0.5))
    assert render(said, "srt", HIGHLIGHTED) == (
        "1\n00:00:01,000 --> 00:00:01,500\n<u>a</u> <\u200bb>\n\n"
        "2\n00:00:01,500 --> 00:00:02,000\na <u><\u200bb></u>\n"
    )
    assert render(said, "vtt", HIGHLIGHTED) == (
        "WEBVTT\n\n00:00:01.000 --> 00:00:01.500\n<u>a</u> &lt;b&gt;\n\n"
        "00:00:01.500 --> 00:00:02.000\na <u>&lt;b&gt;</u>\n"
    )
    assert '<span tts:textDecoration="underline">a</span> &lt;b&gt;</p>' in render(
        said, "ttml", HIGHLIGHTED
    )


def test_ttml_underlines_on_every_line() -> None:
    words = [Word(0, 2, "今日", 0.5), Word(2, 4, "明日", 0.5)]
    said = transcript(segment("今日明日", 0, 4, language="zh", words=words))
    options = SubtitleOptions(max_line_width=4, highlight_words=True)
    underlined = '<span tts:textDecoration="underline">'
    written = render(said, "ttml", options)
    assert f">{underlined}今日</span><br />明日</p>" in written
    assert f">今日<br />{underlined}明日</span></p>" in written


@pytest.mark.parametrize(
    ("time", "expected"),
    [
        (0, "00:00:00.000"),
        (59_999, "00:00:59.999"),
        (3_600_000, "01:00:00.000"),
        (359_999_999, "99:59:59.999"),
        (360_000_000, "100:00:00.000"),
    ],
)
def test_hours_have_two_digits_or_more(time: int, expected: str) -> None:
    assert clock(time) == expected
    assert clock(time, ",") == expected.replace(".", ",")


def test_other_times() -> None:
    assert [short_clock(t) for t in (0, 59_990, 3_600_000, 360_000_000)] == [
        "00:00.00",
        "00:59.99",
        "60:00.00",
        "6000:00.00",
    ]
    assert [decimal(t) for t in (0, 5, 61_050)] == ["0.000", "0.005", "61.050"]
    assert [milliseconds(s) for s in (-1, 0.0004, 0.0006, 1.9999)] == [0, 0, 1, 2000]
    assert [milliseconds(s, 10) for s in (0.004, 0.006, 59.999)] == [0, 10, 60_000]
