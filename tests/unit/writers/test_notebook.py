"""Results in the cell of a notebook."""

from dataclasses import replace
from html.parser import HTMLParser

import pytest

from tests.unit.transcripts import COMPLETE, segment
from whisperbatch.types import LanguageDetection, Notice, Omission, Transcript


class Reader(HTMLParser):
    """The rows of a table, and the elements that are not closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self.open: list[str] = []
        self.texts: list[str] = []
        self.directions: list[str | None] = []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag == "td":
            self.rows[-1].append("")
            self.directions.append(dict(attrs).get("dir"))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)
        if "td" in self.open:
            self.rows[-1][-1] += data


def read(item: Transcript | LanguageDetection) -> Reader:
    return Reader(item._repr_html_())


def test_a_transcript_has_times_speakers_texts_and_omissions() -> None:
    found = read(COMPLETE)
    assert found.rows == [
        ["00:00:00", "Ann", "Yes."],
        ["00:00:01", "", "No."],
        ["00:00:02", "", "Thanks! (boilerplate)"],
    ]
    head = "".join(found.texts)
    assert head.startswith("talk.mp3 · 00:00:02, English (en), 2 segments, 2 speakers, 1 omission")
    assert "silence replaces damaged audio" in head


def test_rows_are_in_order_of_time_without_a_column_for_speakers() -> None:
    segments = (segment("One.", 0.0), segment("Two.", 3700.0, 3701.0))
    missed = Omission(1800.5, 1801.0, "", "missed", 0.5)
    transcript = Transcript(segments, "fr", 1.0, 3701.0, "a.wav", (missed,))
    assert read(transcript).rows == [
        ["00:00:00", "One."],
        ["00:30:00", "speech without text (missed)"],
        ["01:01:40", "Two."],
    ]


def test_texts_are_escaped() -> None:
    evil = "<script>alert('x')</script> & \"quotes\" \u202e"
    transcript = replace(
        COMPLETE,
        segments=(replace(segment(evil), speaker=evil),),
        source=evil,
        omissions=(Omission(0.0, 1.0, evil, "loop", 2.0),),
        notices=(Notice("incomplete", 0.0, 1.0, evil),),
        language="<b>",
    )
    page = transcript._repr_html_()
    assert "<script" not in page
    assert "\u202e" not in page
    visible = "<script>alert('x')</script> & \"quotes\""
    assert read(transcript).rows[0] == ["00:00:00", visible, visible]
    assert "incomplete" in read(transcript).texts


def test_each_text_has_the_direction_of_its_letters() -> None:
    transcript = Transcript((segment("שלום", language="he"),), "he", 1.0, 1.0, "a")
    assert read(transcript).directions == [None, "auto"]


def test_silence_says_so() -> None:
    found = read(Transcript((), None, 0.0, 60.0, "a.wav"))
    assert found.rows == []
    assert "".join(found.texts) == "a.wav · 00:01:00, no language, 0 segmentsno speech found"


def test_an_hour_scrolls_and_stays_small() -> None:
    hour = Transcript(
        tuple(segment("A sentence.", 4.0 * n) for n in range(900)), "en", 1, 3600, "a"
    )
    page = hour._repr_html_()
    assert "overflow-y: auto" in page
    assert len(page) < 200_000
    assert len(read(hour).rows) == 900


@pytest.mark.parametrize("language", ["en", None])
def test_a_detection_has_the_most_probable_languages(language: str | None) -> None:
    probabilities = {"en": 0.7, "de": 0.2, "fr": 0.05, "es": 0.03, "it": 0.015, "nl": 0.005}
    found = read(LanguageDetection(language, 0.7, probabilities, (), "" if language else "quiet"))
    assert found.rows[:2] == [["English (en)", "70.0%"], ["German (de)", "20.0%"]]
    assert len(found.rows) == 5
    assert ("quiet" in found.texts) == (language is None)
