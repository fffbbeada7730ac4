"""Text, tables and JSON, to the letter."""

import csv
import io
import json
from dataclasses import replace

import pytest

from tests.unit.transcripts import segment, spoken, transcript
from whisperbatch.types import Omission, Transcript
from whisperbatch.writers import render

TROUBLE = transcript(
    segment("One\ttwo\nthree", 0.0004, 1.5),
    segment('She said "yes, no"; \ud83d', 1.5, 3723.0456, language="de", id=1),
    segment("\u200b", 3724, 3725, id=2),
)


def test_txt_has_a_line_a_segment() -> None:
    assert render(TROUBLE, "txt") == 'One two three\nShe said "yes, no"; \ufffd\n'


def test_tsv_has_milliseconds() -> None:
    assert render(TROUBLE, "tsv") == (
        "start\tend\ttext\n"
        "0\t1500\tOne two three\n"
        '1500\t3723046\tShe said "yes, no"; \ufffd\n'
        "3724000\t3725000\t\u200b\n"
    )


def test_csv_has_seconds() -> None:
    written = render(TROUBLE, "csv")
    assert list(csv.reader(io.StringIO(written))) == [
        ["id", "start", "end", "language", "text"],
        ["0", "0.000", "1.500", "en", "One two three"],
        ["1", "1.500", "3723.046", "de", 'She said "yes, no"; \ufffd'],
        ["2", "3724.000", "3725.000", "en", "\u200b"],
    ]
    assert "\r" not in written


def value(made: Transcript) -> dict[str, object]:
    written = render(made, "json")
    written.encode()
    assert written.endswith("}\n")
    found = json.loads(written)
    assert isinstance(found, dict)
    return found


def test_json_has_openais_shape_and_more() -> None:
    dropped = Omission(4.0, 5.0, "Thanks for watching!", "boilerplate", 1.0)
    made = replace(transcript(segment("Yes.", 0.125, 1.0)), omissions=(dropped,), chunks=2)
    found = value(made)
    assert found == {
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
        "chunks": 2,
        "redecoded": 0,
    }
    assert list(found)[:5] == ["task", "language", "duration", "text", "segments"]


def test_json_has_words_where_there_are_any() -> None:
    found = value(transcript(spoken("Well, I"), segment("am.", 2, 3)))
    assert found["words"] == [
        {"word": "Well,", "start": 0.0, "end": 1.0},
        {"word": "I", "start": 1.0, "end": 2.0},
    ]
    segments = found["segments"]
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
def test_json_says_what_was_done(language: str | None, written: str, task: str) -> None:
    found = value(transcript(segment("a", language=written), language=language))
    assert found["task"] == task
    assert found["language_code"] == language


def test_json_of_silence() -> None:
    found = value(transcript(language=None))
    assert (found["language"], found["text"], found["segments"]) == (None, "", [])
    assert "words" not in found


def test_json_keeps_every_text() -> None:
    text = 'a\n\t"\\ \0 \u2028 é 漢 \ud83d'
    assert value(transcript(segment(text)))["text"] == text
    assert "é 漢" in render(transcript(segment(text)), "json")
