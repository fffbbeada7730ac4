"""The exact text of .txt, tables, JSON, SubRip, WebVTT, lyrics and TTML."""

import csv
import io
import json
import re
from dataclasses import replace
from xml.etree import ElementTree as ET

import pytest

from tests.unit.transcripts import segment, segment_with_words, transcript
from whisperbatch.types import Omission, Transcript, Word
from whisperbatch.writers import SubtitleOptions, TableOptions, one_line, render
from whisperbatch.writers.formatting import clock, decimal, milliseconds, short_clock

DIFFICULT = transcript(
    segment("One\ttwo\nthree", 0.0004, 1.5),
    segment('She said "yes, no"; \ud83d', 1.5, 3723.0456, language="de", id=1),
    segment("\u200b", 3724, 3725, id=2),
)


def test_txt_has_one_line_for_each_segment() -> None:
    assert render(DIFFICULT, "txt") == 'One two three\nShe said "yes, no"; \ufffd\n'


def test_tsv_has_times_in_milliseconds() -> None:
    assert render(DIFFICULT, "tsv") == (
        "start\tend\ttext\n"
        "0\t1500\tOne two three\n"
        '1500\t3723046\tShe said "yes, no"; \ufffd\n'
        "3724000\t3725000\t\u200b\n"
    )


def test_csv_has_times_in_seconds() -> None:
    text = render(DIFFICULT, "csv")
    assert list(csv.reader(io.StringIO(text))) == [
        ["id", "start", "end", "language", "text"],
        ["0", "0.000", "1.500", "en", "One two three"],
        ["1", "1.500", "3723.046", "de", 'She said "yes, no"; \ufffd'],
        ["2", "3724.000", "3725.000", "en", "\u200b"],
    ]
    assert "\r" not in text


FORMULAS = (
    *("=1+1", "+1", "-2 degrees", "@SUM(A1)", "- Yes.", "=cmd|' /C calc'!A0"),
    *(
        "\t=1",
        "\r=1",
        "\n @x",
        " =1",
        "\u3000=1",
        "\u200b=1",
        "\u200e=1",
        "\0=1",
        "\ufeff=1",
        "\u202e=1",
    ),
    *(
        "\uff1d1",
        "\uff0b1",
        "\uff0d1",
        "\uff20x",
        "\ufe661",
        "'=1",
        "''=1",
        "' =1",
        "'\u200b\uff1d1",
    ),
)
TEXTS = (
    "Yes - no.",
    "1 = 1",
    "'tis",
    "''",
    "'a=1",
    "— Yes.",
    "\u22125",
    "a@b",
    '"=1"',
    "(=1)",
    "",
    "\u200b",
)


def text_cells(text: str, options: TableOptions | None = None) -> list[str]:
    """Return the text in csv and in tsv, as a program reads it."""
    written = transcript(segment(text))
    csv_row = list(csv.reader(io.StringIO(render(written, "csv", options))))[1]
    tsv_row = render(written, "tsv", options).split("\n")[1].split("\t")
    assert len(tsv_row) == 3
    return [csv_row[4], tsv_row[2]]


@pytest.mark.parametrize("text", FORMULAS)
def test_formulas_of_spreadsheets_get_an_apostrophe(text: str) -> None:
    line = one_line(text)
    assert text_cells(text) == [f"'{line}"] * 2
    assert text_cells(text, TableOptions(spreadsheet_safe=False)) == [line] * 2


@pytest.mark.parametrize("text", TEXTS)
def test_other_texts_in_tables_stay_unchanged(text: str) -> None:
    assert text_cells(text) == [text] * 2


@pytest.mark.parametrize("text", [*FORMULAS, *TEXTS])
def test_the_original_text_of_a_cell_can_be_restored(text: str) -> None:
    """As docs/reference/writers.md states."""
    for cell in text_cells(text):
        restored = (
            cell[1:]
            if re.match(r"'['\s\u200b\u200e]*[-=+@\uff1d\uff0b\uff0d\uff20\ufe66]", cell)
            else cell
        )
        assert restored == one_line(text)


def test_times_and_numbers_in_tables_have_no_apostrophe() -> None:
    rows = render(transcript(segment("a", -2.0, 1.5, id=-1)), "csv").splitlines()
    assert rows[1] == "-1,0.000,1.500,en,a"


def test_the_language_in_a_table_is_a_text_cell() -> None:
    rows = render(transcript(segment("a", language="=1\n")), "csv").splitlines()
    assert rows[1] == "0,0.000,1.000,'=1,a"


def read_json(transcript: Transcript) -> dict[str, object]:
    text = render(transcript, "json")
    text.encode()  # raises if UTF-8 cannot hold the text
    assert text.endswith("}\n")
    content = json.loads(text)
    assert isinstance(content, dict)
    return content


def test_json_has_the_keys_of_openai_and_of_whisperbatch() -> None:
    omission = Omission(4.0, 5.0, "Thanks for watching!", "boilerplate", 1.0)
    with_omission = replace(
        transcript(segment("Yes.", 0.125, 1.0)), omissions=(omission,), chunks=2
    )
    content = read_json(with_omission)
    assert content == {
        "task": "transcribe",
        "language": "english",
        "duration": 60.0,
        "text": "Yes.",
        "segments": [
            {
                "id": 0,
                "seek": 12,
                "start": 0.125,
                "end": 1.0,
                "text": "Yes.",
                "tokens": [],
                "temperature": 0.0,
                "avg_logprob": -0.25,
                "compression_ratio": 1.5,
                "no_speech_prob": 0.01,
                "language": "en",
            }
        ],
        "language_code": "en",
        "language_probability": 0.75,
        "source": "talk.mp3",
        "omissions": [
            {
                "start": 4.0,
                "end": 5.0,
                "text": "Thanks for watching!",
                "reason": "boilerplate",
                "score": 1.0,
            }
        ],
        "notices": [],
        "missing_duration": 0.0,
        "chunks": 2,
        "redecoded": 0,
        "checked_duration": 0.0,
        "recovered_duration": 0.0,
    }
    assert list(content)[:5] == ["task", "language", "duration", "text", "segments"]


def test_json_has_the_words_of_segments_with_words() -> None:
    content = read_json(transcript(segment_with_words("Well, I"), segment("am.", 2, 3)))
    assert content["words"] == [
        {"word": "Well,", "start": 0.0, "end": 1.0},
        {"word": "I", "start": 1.0, "end": 2.0},
    ]
    segments = content["segments"]
    assert isinstance(segments, list)
    assert segments[0]["words"][1] == {"word": " I", "start": 1.0, "end": 2.0, "probability": 0.5}
    assert "words" not in segments[1]


@pytest.mark.parametrize(
    ("language", "written", "task"),
    [
        ("fr", "fr", "transcribe"),
        ("fr", "en", "translate"),
        ("en", "en", "transcribe"),
        (None, "en", "transcribe"),
    ],
)
def test_json_states_the_task(language: str | None, written: str, task: str) -> None:
    content = read_json(transcript(segment("a", language=written), language=language))
    assert content["task"] == task
    assert content["language_code"] == language


def test_json_of_silence() -> None:
    content = read_json(transcript(language=None))
    assert (content["language"], content["text"], content["segments"]) == (None, "", [])
    assert "words" not in content


def test_json_keeps_text_unchanged() -> None:
    text = 'a\n\t"\\ \0 \u2028 \x9b \u202e é 漢 \ud83d'
    assert read_json(transcript(segment(text)))["text"] == text
    assert "é 漢" in render(transcript(segment(text)), "json")
    assert "\\u202e" in render(transcript(segment(text)), "json")


TT = "{http://www.w3.org/ns/ttml}"
LANGUAGE = "{http://www.w3.org/XML/1998/namespace}lang"

TWO_SEGMENTS = transcript(
    segment("He does not know. You may ask him again tomorrow", 0.5, 3.25),
    segment("Yes.", 3661.0005, 3662.001),
)
HIGHLIGHTED = SubtitleOptions(highlight_words=True, subtitle_rules="plain")


def parsed(document: str) -> ET.Element:
    return ET.fromstring(document)  # noqa: S314 - written by `render`


def test_srt() -> None:
    assert render(TWO_SEGMENTS, "srt") == (
        "1\n"
        "00:00:00,500 --> 00:00:03,750\n"
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
        "00:00:00.500 --> 00:00:03.750\n"
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
        '<p begin="00:00:00.500" end="00:00:03.750">'
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
