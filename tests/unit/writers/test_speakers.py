"""Speakers in every format; a transcript without speakers is written as before."""

import csv
import io
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import numpy as np
import pytest

import whisperbatch as wb
from tests.unit.transcripts import segment, segment_with_words, transcript
from whisperbatch.errors import OptionError, WriteError
from whisperbatch.types import Diarization, Segment, Transcript, Turn
from whisperbatch.writers import FORMATS, SubtitleOptions, render, segment_values, write

TT = "{http://www.w3.org/ns/ttml}"
TTM = "{http://www.w3.org/ns/ttml#metadata}"

TURNS = (Turn(0.0, 2.5, "SPEAKER_00", 0.75), Turn(2.4, 4.0, "SPEAKER_01", 0.5))
DIARIZATION = Diarization(TURNS, "talk.mp3", 60.0, {"SPEAKER_00": np.ones(2, np.float32)})


def by(speaker: str | None, segment: Segment) -> Segment:
    """Return a segment and its words with this speaker."""
    who: dict[str, Any] = {"speaker": speaker, "speaker_confidence": 0.5}
    words = segment.words and tuple(replace(word, **who) for word in segment.words)
    return replace(segment, **who, words=words)


def with_names(*names: str | None) -> Transcript:
    """Return a transcript with one segment for each name."""
    texts = ("Hello.", "How are you?", "Fine.", "Good.")
    spoken = [by(name, segment(texts[n], n, n + 1.0, id=n)) for n, name in enumerate(names)]
    return replace(transcript(*spoken), diarization=DIARIZATION)


TALK = with_names("SPEAKER_00", "SPEAKER_00", "SPEAKER_01")


def test_txt_has_the_name_where_the_speaker_changes() -> None:
    assert render(TALK, "txt") == ("SPEAKER_00:\nHello.\nHow are you?\n\nSPEAKER_01:\nFine.\n")
    assert render(with_names("A", None, " \u200b", "A"), "txt") == (
        "A:\nHello.\n\nHow are you?\nFine.\n\nA:\nGood.\n"
    )


def test_every_cue_of_srt_begins_with_the_name() -> None:
    assert render(TALK, "srt").split("\n")[2::4] == [
        "[SPEAKER_00]: Hello.",
        "[SPEAKER_00]: How are you?",
        "[SPEAKER_01]: Fine.",
    ]


def test_vtt_has_voice_spans() -> None:
    assert render(TALK, "vtt").split("\n")[3::3] == [
        "<v SPEAKER_00>Hello.",
        "<v SPEAKER_00>How are you?",
        "<v SPEAKER_01>Fine.",
    ]
    assert "<v A &lt;b&gt; &amp; C>Hello.\n" in render(with_names("A <b> & \nC"), "vtt")


def test_every_line_of_lyrics_begins_with_the_name() -> None:
    assert render(TALK, "lrc").split("\n")[:2] == [
        "[00:00.00]SPEAKER_00: Hello.",
        "[00:01.00]SPEAKER_00: How are you?",
    ]


def test_ttml_has_an_agent_for_each_speaker() -> None:
    document = render(TALK, "ttml")
    assert '<tt xmlns="http://www.w3.org/ns/ttml"' in document
    root = ET.fromstring(document)  # noqa: S314 - written by `render`
    agents = {agent.get(f"{{{XML}}}id"): agent for agent in root.iter(f"{TTM}agent")}
    named = {identifier: agent.findtext(f"{TTM}name") for identifier, agent in agents.items()}
    assert named == {"speaker1": "SPEAKER_00", "speaker2": "SPEAKER_01"}
    spoken = [paragraph.get(f"{TTM}agent") for paragraph in root.iter(f"{TT}p")]
    assert spoken == ["speaker1", "speaker1", "speaker2"]
    head = root.find(f"{TT}head")
    assert head is not None
    assert [child.tag for child in head] == [f"{TT}metadata", f"{TT}layout"]


XML = "http://www.w3.org/XML/1998/namespace"


@pytest.mark.parametrize("format", ["srt", "vtt", "ttml", "lrc"])
def test_a_segment_without_speaker_has_a_plain_cue(format: str) -> None:  # noqa: A002 - as in `render`
    plain = transcript(segment("Hello.", 0, 1))
    nobody = replace(plain, diarization=Diarization(()))
    assert render(nobody, format) == render(plain, format)
    assert render(with_names(" "), format) == render(plain, format)


def test_names_take_room_in_the_first_line_of_a_cue() -> None:
    text = "Please hold the line while I transfer you to the billing department, sir."
    options = SubtitleOptions(max_line_width=30, max_line_count=2)
    spoken = transcript(by("SPEAKER_00", segment_with_words(text)))
    blocks = render(spoken, "srt", options).strip().split("\n\n")
    for block in blocks:
        first, *others = block.split("\n")[2:]
        assert first.startswith("[SPEAKER_00]: ")
        assert all(len(line) <= 30 for line in (first, *others))
        assert not any("SPEAKER" in line for line in others)
    words = "".join(block.split("\n", 2)[2] + "\n" for block in blocks).replace(
        "[SPEAKER_00]: ", ""
    )
    assert words.split() == text.split()
    in_vtt = render(spoken, "vtt", options)
    without = render(transcript(segment_with_words(text)), "vtt", options)
    assert in_vtt.replace("<v SPEAKER_00>", "") == without, "players do not show the name"


def test_a_name_wider_than_a_line_leaves_room_for_a_word() -> None:
    spoken = transcript(by("A long name", segment_with_words("Well, I know.")))
    narrow = SubtitleOptions(max_line_width=6)
    lines = [block.split("\n")[2:] for block in render(spoken, "srt", narrow).split("\n\n")]
    shown = [line for block in lines for line in block if line]
    assert shown == ["[A long name]: Well,", "[A long name]: I", "know."]


def test_highlighted_words_keep_the_name() -> None:
    spoken = transcript(by("A", segment_with_words("Well, I")))
    options = SubtitleOptions(highlight_words=True, subtitle_rules="plain")
    assert re.findall(r"<v A>.*", render(spoken, "vtt", options)) == [
        "<v A><u>Well,</u> I",
        "<v A>Well, <u>I</u>",
    ]


def test_tables_have_the_speaker_in_their_last_column() -> None:
    assert render(TALK, "tsv").split("\n")[:2] == [
        "start\tend\ttext\tspeaker",
        "0\t1000\tHello.\tSPEAKER_00",
    ]
    rows = list(csv.reader(io.StringIO(render(TALK, "csv"))))
    assert rows[0] == ["id", "start", "end", "language", "text", "speaker"]
    assert rows[3] == ["2", "2.000", "3.000", "en", "Fine.", "SPEAKER_01"]
    assert render(with_names("=A\n1"), "tsv").split("\n")[1].endswith("\t'=A 1")
    assert render(with_names(None), "tsv").split("\n")[1].endswith("\tHello.\t")


def test_json_has_speakers_and_turns() -> None:
    spoken = by("SPEAKER_00", segment_with_words("Well, I"))
    value = json.loads(render(replace(transcript(spoken), diarization=DIARIZATION), "json"))
    assert value["speakers"] == ["SPEAKER_00", "SPEAKER_01"]
    assert value["turns"][1] == {
        "start": 2.4,
        "end": 4.0,
        "speaker": "SPEAKER_01",
        "confidence": 0.5,
    }
    who = {"speaker": "SPEAKER_00", "speaker_confidence": 0.5, "other_speakers": []}
    [written] = value["segments"]
    assert who.items() <= written.items()
    assert who.items() <= written["words"][0].items()
    assert value["words"][0] == {"word": "Well,", "start": 0.0, "end": 1.0}, "OpenAI's key"
    assert "provisional" not in written


def test_json_without_speakers_has_no_keys_of_speakers() -> None:
    text = render(transcript(segment_with_words("Well, I")), "json")
    assert "speaker" not in text
    assert "turns" not in text
    silence = json.loads(render(replace(transcript(), diarization=Diarization(())), "json"))
    assert (silence["speakers"], silence["turns"]) == ([], [])


def test_a_program_may_name_the_speakers_itself() -> None:
    named = transcript(by("Ann", segment("Hello.", 0, 1)))
    assert render(named, "txt") == "Ann:\nHello.\n"
    assert json.loads(render(named, "json"))["segments"][0]["speaker"] == "Ann"
    assert render(named, "tsv").endswith("\tAnn\n")
    with pytest.raises(OptionError, match="format 'rttm' needs speakers; transcribe with diarize"):
        render(named, "rttm")


def test_rttm_has_a_line_for_each_turn() -> None:
    assert render(TALK, "rttm") == (
        "SPEAKER talk 1 0.000 2.500 <NA> <NA> SPEAKER_00 <NA> <NA>\n"
        "SPEAKER talk 1 2.400 1.600 <NA> <NA> SPEAKER_01 <NA> <NA>\n"
    )
    assert render(replace(transcript(), diarization=Diarization(())), "rttm") == ""


@pytest.mark.parametrize(
    ("source", "identifier"),
    [
        ("talk.mp3", "talk"),
        ("/media/the talk.2026.mp3", "the_talk.2026"),
        ("C:\\media\\talk.wav", "talk"),
        ("https://host/media/talk.mp3?token=a/b.c#t", "talk"),
        ("-", "-"),
        ("<stdin>", "stdin"),
        ("<array>", "array"),
        (".hidden", ".hidden"),
        ("media/", "media"),
        ("", "recording"),
        ("\u200b", "recording"),
    ],
)
def test_rttm_names_the_recording_without_spaces(source: str, identifier: str) -> None:
    [line] = render(Diarization((Turn(-1.0, -1.0, "Ann \tLee", 1.0),), source), "rttm").splitlines()
    assert line == f"SPEAKER {identifier} 1 0.000 0.001 <NA> <NA> Ann_Lee <NA> <NA>"
    assert len(line.split()) == 10


def test_a_turn_without_visible_name_keeps_its_columns() -> None:
    assert render(Diarization((Turn(0, 1, " ", 1.0),)), "rttm").split()[7] == "<NA>"


def test_a_diarization_is_written_as_rttm(tmp_path: Path) -> None:
    path = write(wb.Diarization(TURNS, "talk.mp3"), tmp_path / "talk.rttm")
    assert path.read_text() == render(TALK, "rttm")
    with pytest.raises(OptionError, match="a Diarization has no text for format='srt'"):
        write(DIARIZATION, tmp_path / "talk.srt")
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (
            replace(TALK, diarization=Diarization((replace(TURNS[0], end=float("nan")),))),
            "diarization.turns[0].end must be a finite number",
        ),
        (
            replace(TALK, diarization=Diarization((replace(TURNS[0], speaker=3),))),  # type: ignore[arg-type]
            "diarization.turns[0].speaker must be a str, not int",
        ),
        (replace(TALK, diarization=()), "diarization must be a Diarization, not tuple"),  # type: ignore[arg-type]
        (
            transcript(replace(segment("a"), speaker=b"A")),  # type: ignore[arg-type]
            "segments[0].speaker must be a str, not bytes",
        ),
        (
            transcript(replace(segment("a"), provisional=1)),  # type: ignore[arg-type]
            "segments[0].provisional must be a bool, not int",
        ),
        (
            transcript(replace(segment("a"), other_speakers="AB")),  # type: ignore[arg-type]
            "segments[0].other_speakers must be a tuple, not str",
        ),
    ],
)
def test_wrong_values_are_refused_by_name(changed: Transcript, message: str, format: str) -> None:  # noqa: A002 - as in `render`
    with pytest.raises(WriteError, match=re.escape(message)):
        render(changed, format)


def test_the_fields_of_a_diarization_are_checked_without_their_transcript() -> None:
    wrong: Any = Diarization((), None)  # type: ignore[arg-type]
    with pytest.raises(WriteError, match="source must be a str, not NoneType"):
        render(wrong, "rttm")


def test_a_segment_has_the_fields_of_speakers_only_if_it_has_or_may_have_one() -> None:
    plain = segment_values(segment_with_words("Well, I"))
    assert list(plain)[-1] == "words"
    assert list(plain["words"][0]) == ["start", "end", "word", "probability"]
    spoken = segment_values(by("A", segment_with_words("Well, I")))
    assert (spoken["speaker"], spoken["words"][0]["speaker"]) == ("A", "A")
    waiting = segment_values(replace(segment("a"), provisional=True))
    assert (waiting["speaker"], waiting["provisional"]) == (None, True)


def styled(style: Any, *names: str | None) -> list[str]:
    options = SubtitleOptions(speaker_style=style, subtitle_rules="plain")
    return render(with_names(*names), "srt", options).split("\n")[2::4]


def test_styles_of_speakers() -> None:
    names = ("Ann", "Ann", "Bob", None)
    assert styled("name", *names)[:2] == ["[Ann]: Hello.", "[Ann]: How are you?"]
    assert styled("on-change", *names) == ["[Ann]: Hello.", "How are you?", "[Bob]: Fine.", "Good."]
    assert styled("dash", *names) == ["- Hello.", "How are you?", "- Fine.", "Good."]
    assert styled("none", *names) == ["Hello.", "How are you?", "Fine.", "Good."]


@pytest.mark.parametrize("style", ["name", "on-change", "dash"])
def test_a_label_takes_room_and_leaves_no_single_word(style: Any) -> None:
    text = "Small children came to see him, and they were followed by the whole village."
    spoken = transcript(by("SPEAKER_03", segment_with_words(text, duration=0.3)))
    written = render(spoken, "srt", SubtitleOptions(speaker_style=style))
    blocks = [block.split("\n")[2:] for block in written.strip().split("\n\n")]
    for number, lines in enumerate(blocks):
        assert all(len(line) <= 42 for line in lines)
        assert len(lines) <= 2
        has_label = style == "name" or number == 0
        assert lines[0].startswith("- " if style == "dash" else "[SPEAKER_03]: ") == has_label
        said = lines[0].removeprefix("[SPEAKER_03]: ").removeprefix("- ")
        assert " " in said
        assert " " in lines[-1]
