"""The exact text of SubRip, WebVTT, lyrics and TTML."""

from xml.etree import ElementTree as ET

import pytest

from tests.unit.transcripts import segment, segment_with_words, transcript
from whisperbatch.types import Word
from whisperbatch.writers import SubtitleOptions, render
from whisperbatch.writers.formatting import clock, decimal, milliseconds, short_clock

TT = "{http://www.w3.org/ns/ttml}"
LANGUAGE = "{http://www.w3.org/XML/1998/namespace}lang"

TWO_SEGMENTS = transcript(
    segment("He does not know. You may ask him again tomorrow", 0.5, 3.25),
    segment("Yes.", 3661.0005, 3662.001),
)
HIGHLIGHTED = SubtitleOptions(highlight_words=True)


def parsed(document: str) -> ET.Element:
    return ET.fromstring(document)  # noqa: S314 - written by `render`


def test_srt() -> None:
    assert render(TWO_SEGMENTS, "srt") == (
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
    assert render(TWO_SEGMENTS, "vtt") == (
        "WEBVTT\n"
        "\n"
        "00:00:00.500 --> 00:00:03.250\n"
        "He does not know.\n"
        "You may ask him again tomorrow\n"
        "\n"
        "01:01:01.000 --> 01:01:02.001\n"
        "Yes.\n"
    )


def test_lrc_has_one_line_for_each_cue() -> None:
    assert render(TWO_SEGMENTS, "lrc") == (
        "[00:00.50]He does not know.\n[00:01.92]You may ask him again tomorrow\n[61:01.00]Yes.\n"
    )


def test_ttml() -> None:
    document = render(TWO_SEGMENTS, "ttml")
    assert document.startswith('<?xml version="1.0" encoding="UTF-8"?>\n<tt ')
    assert (
        '<p begin="00:00:00.500" end="00:00:03.250">'
        "He does not know.<br />You may ask him again tomorrow</p>\n"
        '<p begin="01:01:01.000" end="01:01:02.001">Yes.</p>\n'
    ) in document
    root = parsed(document)
    assert root.tag == f"{TT}tt"
    assert root.get(LANGUAGE) == "en"
    region = root.find(f"{TT}head/{TT}layout/{TT}region")
    body = root.find(f"{TT}body")
    assert region is not None
    assert body is not None
    assert region.get("{http://www.w3.org/XML/1998/namespace}id") == body.get("region") == "bottom"
    assert region.get("{http://www.w3.org/ns/ttml#styling}displayAlign") == "after"


def test_ttml_states_languages() -> None:
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
def test_silence_has_no_cues(format: str, expected: str) -> None:  # noqa: A002 - as in `render`
    silence = transcript(language=None)
    assert render(silence, format) == expected


def test_ttml_of_silence_is_an_empty_document() -> None:
    root = parsed(render(transcript(language=None), "ttml"))
    assert root.get(LANGUAGE) == ""
    assert list(root.iter(f"{TT}p")) == []


def cue_payload(text: str, format: str) -> str:  # noqa: A002 - as in `render`
    return render(transcript(segment(text)), format).split(" --> 00:00:01")[1][5:]


def test_vtt_escapes_markup() -> None:
    assert cue_payload("a < b & c > d --> <i>e</i> &amp;", "vtt") == (
        "a &lt; b &amp; c &gt; d --&gt; &lt;i&gt;e&lt;/i&gt; &amp;amp;\n"
    )


@pytest.mark.parametrize(
    ("text", "expected"),
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
def test_srt_splits_markup_with_a_zero_width_space(text: str, expected: str) -> None:
    assert cue_payload(text, "srt") == f"{expected}\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[00:05.00] a", "[\u200b00:05.00] a"),
        ("<00:05.00> a", "<\u200b00:05.00> a"),
        ("[Music] at [5]", "[Music] at [5]"),
    ],
)
def test_lrc_splits_time_tags_with_a_zero_width_space(text: str, expected: str) -> None:
    assert render(transcript(segment(text)), "lrc") == f"[00:00.00]{expected}\n"


def test_ttml_escapes_markup_and_removes_characters_that_xml_does_not_allow() -> None:
    text = 'a < b & c > "d" ]]> \0\x1b\ufffe'
    root = parsed(render(transcript(segment(text)), "ttml"))
    assert [p.text for p in root.iter(f"{TT}p")] == ['a < b & c > "d" ]]>']


def test_the_word_being_spoken_is_underlined() -> None:
    highlighted = transcript(segment_with_words("a <b>", start=1, duration=0.5))
    assert render(highlighted, "srt", HIGHLIGHTED) == (
        "1\n00:00:01,000 --> 00:00:01,500\n<u>a</u> <\u200bb>\n\n"
        "2\n00:00:01,500 --> 00:00:02,000\na <u><\u200bb></u>\n"
    )
    assert render(highlighted, "vtt", HIGHLIGHTED) == (
        "WEBVTT\n\n00:00:01.000 --> 00:00:01.500\n<u>a</u> &lt;b&gt;\n\n"
        "00:00:01.500 --> 00:00:02.000\na <u>&lt;b&gt;</u>\n"
    )
    assert '<span tts:textDecoration="underline">a</span> &lt;b&gt;</p>' in render(
        highlighted, "ttml", HIGHLIGHTED
    )


def test_ttml_underlines_words_on_every_line() -> None:
    words = [Word(0, 2, "今日", 0.5), Word(2, 4, "明日", 0.5)]
    highlighted = transcript(segment("今日明日", 0, 4, language="zh", words=words))
    options = SubtitleOptions(max_line_width=4, highlight_words=True)
    underlined = '<span tts:textDecoration="underline">'
    document = render(highlighted, "ttml", options)
    assert f">{underlined}今日</span><br />明日</p>" in document
    assert f">今日<br />{underlined}明日</span></p>" in document


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
def test_hours_have_at_least_two_digits(time: int, expected: str) -> None:
    assert clock(time) == expected
    assert clock(time, ",") == expected.replace(".", ",")


def test_other_time_formats() -> None:
    assert [short_clock(t) for t in (0, 59_990, 3_600_000, 360_000_000)] == [
        "00:00.00",
        "00:59.99",
        "60:00.00",
        "6000:00.00",
    ]
    assert [decimal(t) for t in (0, 5, 61_050)] == ["0.000", "0.005", "61.050"]
    assert [milliseconds(s) for s in (-1, 0.0004, 0.0006, 1.9999)] == [0, 0, 1, 2000]
    assert [milliseconds(s, 10) for s in (0.004, 0.006, 59.999)] == [0, 10, 60_000]
