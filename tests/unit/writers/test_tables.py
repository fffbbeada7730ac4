"""The exact text of .txt, tables and JSON."""

import csv
import io
import json
from dataclasses import replace

import pytest

from tests.unit.transcripts import segment, segment_with_words, transcript
from whisperbatch.types import Omission, Transcript
from whisperbatch.writers import render

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
        "chunks": 2,
        "redecoded": 0,
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
    text = 'a\n\t"\\ \0 \u2028 é 漢 \ud83d'
    assert read_json(transcript(segment(text)))["text"] == text
    assert "é 漢" in render(transcript(segment(text)), "json")
