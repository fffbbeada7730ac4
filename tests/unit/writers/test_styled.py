"""SubStation Alpha, karaoke, YouTube's format, and the direction of right-to-left text."""

import re

import pysubs2
import pytest

from tests.unit.transcripts import segment, segment_with_words, transcript
from tests.unit.writers.test_speakers import by
from whisperbatch.types import Transcript, Word
from whisperbatch.writers import SubtitleOptions, render

PLAIN = SubtitleOptions(subtitle_rules="plain")
KARAOKE = SubtitleOptions(subtitle_rules="plain", highlight_words=True)


def events(text: str) -> list[str]:
    return [line.split(",", 9)[9] for line in text.splitlines() if line.startswith("Dialogue")]


def test_ass_has_times_in_hundredths_and_lines() -> None:
    spoken = transcript(segment("He does not know. You may ask him again tomorrow", 0.5, 3.256))
    subtitles = pysubs2.SSAFile.from_string(render(spoken, "ass", PLAIN))
    [event] = subtitles.events
    assert (event.start, event.end) == (500, 3260)
    assert event.text == r"He does not know.\NYou may ask him again tomorrow"
    assert subtitles.styles["Default"].alignment == pysubs2.Alignment.BOTTOM_CENTER
    assert render(transcript(), "ass").endswith("Effect, Text\n"), "silence"


def test_each_speaker_has_a_colour() -> None:
    spoken = transcript(by("Ann", segment("Yes.", 0, 1)), by("Bob, Jr", segment("No.", 2, 3)))
    subtitles = pysubs2.SSAFile.from_string(render(spoken, "ass"))
    assert [event.style for event in subtitles] == ["Speaker 1", "Speaker 2"]
    assert [event.name for event in subtitles] == ["Ann", "Bob; Jr"]
    colours = [style.primarycolor for style in subtitles.styles.values()]
    assert colours == [pysubs2.Color(255, 255, 255), pysubs2.Color(255, 255, 0)]
    assert [event.text for event in subtitles] == ["[Ann]: Yes.", "[Bob, Jr]: No."]


def test_karaoke_has_the_duration_of_each_word_and_pause() -> None:
    words = [Word(1, 1.5, "Well,", 0.5), Word(1.5, 2, " I", 0.5), Word(2.5, 3, " am.", 0.5)]
    spoken = transcript(segment("Well, I am.", 1, 3, words=words))
    assert events(render(spoken, "ass", KARAOKE)) == [r"{\k50}Well, {\k50}I {\k50}{\k50}am."]
    lingering = events(render(spoken, "ass", SubtitleOptions(highlight_words=True)))
    assert lingering == [r"{\k50}Well, {\k50}I {\k50}{\k50}am."]


def test_karaoke_of_two_lines_and_of_a_word_on_both() -> None:
    words = [Word(0, 4, "今日今日", 0.5)]
    spoken = transcript(segment("今日今日", 0, 4, language="zh", words=words))
    options = SubtitleOptions(subtitle_rules="plain", highlight_words=True, max_line_width=4)
    assert events(render(spoken, "ass", options)) == [r"{\k400}今日\N{\k0}今日"]
    two = transcript(segment_with_words("This is one line and the other of it", duration=0.5))
    options = SubtitleOptions(subtitle_rules="plain", highlight_words=True, max_line_width=20)
    [text] = events(render(two, "ass", options))
    assert re.sub(r"\{\\k\d+\}", "", text) == r"This is one line\Nand the other of it"
    durations = [int(number) for number in re.findall(r"\\k(\d+)", text)]
    assert durations == [50] * 9


@pytest.mark.parametrize(
    ("text", "written"),
    [
        (r"a {b} c", r"a \{b\} c"),
        (r"C:\new", "C:\\\u2060new"),
        (r"a\{b", "a\\\u2060\\{b"),
        ("a, b", "a, b"),
    ],
)
def test_ass_shows_its_markup_as_text(text: str, written: str) -> None:
    assert events(render(transcript(segment(text)), "ass")) == [written]


def test_sbv() -> None:
    spoken = transcript(by("Ann", segment("Yes.", 0.5, 2)), segment("No.", 3661, 3662))
    assert render(spoken, "sbv", PLAIN) == (
        "0:00:00.500,0:00:02.000\n[Ann]: Yes.\n\n1:01:01.000,1:01:02.000\nNo.\n"
    )


ARABIC = "مرحبا بكم"
MIXED = "GPT هو نموذج"


def test_vtt_marks_right_to_left_lines_that_begin_in_another_direction() -> None:
    def lines(text: str, language: str) -> str:
        return render(transcript(segment(text, language=language)), "vtt").split("\n")[3]

    assert lines(ARABIC, "ar") == ARABIC
    assert lines(MIXED, "ar") == f"&rlm;{MIXED}"
    assert lines("2026", "he") == "&rlm;2026"
    assert lines("GPT is here", "en") == "GPT is here"


@pytest.mark.parametrize("language", ["ar", "fa", "he", "ur", "ps", "sd", "yi"])
def test_ttml_states_the_direction(language: str) -> None:
    text = render(transcript(segment(ARABIC, language=language)), "ttml")
    assert 'tts:direction="rtl"' in text
    assert 'tts:unicodeBidi="embed"' in text


def test_left_to_right_ttml_states_no_direction() -> None:
    assert "direction" not in render(transcript(segment("Yes.")), "ttml")


def test_ass_leaves_the_direction_to_the_player() -> None:
    def encoding(spoken: Transcript) -> int:
        return pysubs2.SSAFile.from_string(render(spoken, "ass")).styles["Default"].encoding

    assert encoding(transcript(segment(ARABIC, language="ar"))) == -1
    assert encoding(transcript(segment("Yes."))) == 1
