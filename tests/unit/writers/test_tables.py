"""The exact text of .txt, tables and JSON."""

import csv
import io
import json
import re
from dataclasses import replace

import pytest

from tests.unit.transcripts import segment, segment_with_words, transcript
from whisperbatch.types import Omission, Transcript
from whisperbatch.writers import TableOptions, one_line, render

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
