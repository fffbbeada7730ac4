"""Options and transcripts that programs build: each is used, or refused by name."""

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any, get_type_hints

import pytest

import whisperbatch as wb
from tests.unit.transcripts import segment, segment_with_words, transcript
from tests.unit.writers.test_speakers import by
from whisperbatch.errors import OptionError, WriteError
from whisperbatch.types import Diarization, Omission, Turn
from whisperbatch.writers import (
    FORMAT_OPTIONS,
    FORMATS,
    TABLE_FORMATS,
    SubtitleOptions,
    TableOptions,
    check_file_options,
    render,
    write,
)
from whisperbatch.writers.options import FileKeywords, SubtitleKeywords

# for each option a value with a visible effect on TRANSCRIPT
EFFECTIVE: dict[str, dict[str, Any]] = {
    "max_line_width": {"max_line_width": 20},
    "max_line_count": {"max_line_count": 1},
    "max_words_per_line": {"max_words_per_line": 3},
    "highlight_words": {"highlight_words": True},
    "subtitle_rules": {"subtitle_rules": "youtube"},
    "min_cue_duration": {"min_cue_duration": 2.0},
    "max_cue_duration": {"max_cue_duration": 2.0},
    "max_reading_speed": {"max_reading_speed": 8},
    "frame_rate": {"frame_rate": 12.0},
    "speaker_style": {"speaker_style": "dash"},
}
TEXT = "Please hold the line while I transfer you to the billing department."
SPEAKERS = wb.Diarization((wb.Turn(0.0, 1.0, "SPEAKER_00", 1.0),))
TRANSCRIPT = replace(
    transcript(
        by("Ann", segment_with_words(TEXT, duration=0.25)),
        by("Ann", segment_with_words("Thank you.", start=3.1, duration=0.1)),
    ),
    diarization=SPEAKERS,
)


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("name", EFFECTIVE)
def test_an_option_has_an_effect_or_is_refused(format: str, name: str) -> None:  # noqa: A002
    options = SubtitleOptions(**EFFECTIVE[name])
    if name in FORMAT_OPTIONS.get(format, ()):
        assert render(TRANSCRIPT, format, options) != render(TRANSCRIPT, format)
    else:
        with pytest.raises(OptionError, match=f"{name} has no effect on {format}; leave it out"):
            render(TRANSCRIPT, format, options)
    assert render(TRANSCRIPT, format, SubtitleOptions()) == render(TRANSCRIPT, format)


@pytest.mark.parametrize("format", FORMATS)
def test_the_option_of_tables_has_an_effect_or_is_refused(format: str) -> None:  # noqa: A002
    formula = replace(transcript(segment("=1+1")), diarization=SPEAKERS)
    unsafe = wb.TableOptions(spreadsheet_safe=False)
    if format in TABLE_FORMATS:
        assert render(formula, format, unsafe) != render(formula, format)
    else:
        message = f"spreadsheet_safe has no effect on {format}; leave it out"
        with pytest.raises(OptionError, match=message):
            render(formula, format, unsafe)
    assert render(formula, format, wb.TableOptions()) == render(formula, format)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_line_width": 0}, "max_line_width=0 is out of range: from 1 to 1000"),
        ({"max_line_width": "42"}, "max_line_width must be a whole number, not '42'"),
        ({"max_line_count": True}, "max_line_count must be a whole number, not True"),
        ({"max_words_per_line": 1.5}, "max_words_per_line must be a whole number, not 1.5"),
        ({"highlight_words": 1}, "highlight_words must be True or False, not 1"),
        (
            {"max_line_width": None, "max_line_count": 3},
            "max_line_count has no effect without max_line_width or max_words_per_line",
        ),
    ],
)
def test_the_message_names_the_invalid_option(options: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError) as caught:
        SubtitleOptions(**options)
    assert str(caught.value).startswith(message)


def test_an_option_of_tables_must_be_true_or_false() -> None:
    wrong: Any = 1
    with pytest.raises(OptionError, match="spreadsheet_safe must be True or False, not 1"):
        wb.TableOptions(spreadsheet_safe=wrong)


def test_limits_can_be_lifted() -> None:
    text = "word " * 40
    for options in (
        SubtitleOptions(max_line_width=None, subtitle_rules="plain"),
        SubtitleOptions(max_line_width=None, max_line_count=None, subtitle_rules="plain"),
    ):
        srt = render(transcript(segment(text)), "srt", options)
        assert srt == f"1\n00:00:00,000 --> 00:00:01,000\n{text.strip()}\n"


@pytest.mark.parametrize("name", ["max_words_per_line", "highlight_words"])
def test_options_that_need_words_are_refused_without_words(name: str) -> None:
    options = SubtitleOptions(**EFFECTIVE[name])
    assert options.needs_words == (name,)
    message = f"{name} has no effect without words; transcribe with word_timestamps=True"
    with pytest.raises(OptionError, match=message):
        render(transcript(segment("a"), segment("b", words=())), "srt", options)
    assert render(transcript(), "srt", options) == ""  # silence is not an error


def test_an_option_must_affect_at_least_one_of_several_formats() -> None:
    narrow = SubtitleOptions(max_line_width=20)
    check_file_options(narrow, ("txt", "srt"))
    with pytest.raises(OptionError, match="max_line_width has no effect on txt or json"):
        check_file_options(narrow, ("txt", "json"))
    with pytest.raises(OptionError, match="max_line_width has no effect without a file"):
        check_file_options(narrow, ())
    check_file_options(SubtitleOptions(), ())
    unsafe = wb.TableOptions(spreadsheet_safe=False)
    check_file_options(unsafe, ("txt", "csv"))
    with pytest.raises(OptionError, match="spreadsheet_safe has no effect without a table"):
        check_file_options(unsafe, ())


def test_fitted_resets_options_without_effect() -> None:
    options = SubtitleOptions(max_line_width=20, max_line_count=3, highlight_words=True)
    assert options.fitted("srt") == options
    assert options.fitted("lrc") == SubtitleOptions(max_line_width=20)
    assert options.fitted("txt") == SubtitleOptions()
    unsafe = wb.TableOptions(spreadsheet_safe=False)
    assert [unsafe.fitted(name) == unsafe for name in ("csv", "tsv", "txt")] == [True, True, False]
    for format in FORMATS:  # noqa: A001 - as in `render`
        check_file_options(options.fitted(format), (format,))


def test_a_dictionary_of_options_is_refused() -> None:
    wrong: Any = {"max_line_width": 20}
    message = "options must be a SubtitleOptions or TableOptions value, not dict"
    with pytest.raises(OptionError, match=message):
        render(TRANSCRIPT, "srt", wrong)


def test_only_a_transcript_is_accepted() -> None:
    wrong: Any = TRANSCRIPT.segments
    with pytest.raises(OptionError, match="transcript must be a Transcript, not tuple"):
        render(wrong, "srt")


@pytest.mark.parametrize("suffix", [*FORMATS, "SRT"])
def test_the_suffix_chooses_the_format(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"talk.en.{suffix}"
    assert write(TRANSCRIPT, path) == path
    assert path.read_bytes() == render(TRANSCRIPT, suffix.lower()).encode()
    assert not path.read_bytes().startswith(b"\xef\xbb\xbf")
    assert b"\r" not in path.read_bytes()
    assert list(tmp_path.iterdir()) == [path]


def test_the_format_may_be_given(tmp_path: Path) -> None:
    options = wb.SubtitleOptions(max_line_count=1)
    path = wb.write(TRANSCRIPT, str(tmp_path / "talk.text"), format="srt", options=options)
    assert path == tmp_path / "talk.text"
    assert path.read_text() == render(TRANSCRIPT, "srt", options)


@pytest.mark.parametrize(
    ("name", "format", "message"),
    [
        ("a.str", None, "the suffix of .*a.str' is not a format; did you mean 'srt'?"),
        (
            "a",
            None,
            "the suffix of .*a' is not a format; the formats are txt, srt, vtt, tsv, json, csv",
        ),
        ("a.docx", None, "a.docx' is not a format; use txt; the formats are txt, srt, vtt, tsv"),
        ("a.str", None, "did you mean 'srt'? the formats are txt, srt, vtt, tsv, json, csv"),
        (
            "a.srt",
            "aud",
            r"use tsv \(its times are in milliseconds, those of Audacity's labels in seconds\); ",
        ),
        ("a.mp3", None, "the suffix of .*a.mp3' is not a format"),
        ("a.srt", "SRT", "format='SRT' is not a format; did you mean 'srt'?"),
        ("a.srt", "webvtt", "use vtt"),
        ("a.srt", 3, "format=3 is not a format"),
    ],
)
def test_unknown_formats_are_refused_before_anything_is_written(
    tmp_path: Path,
    name: str,
    format: Any,  # noqa: A002 - as in `render`
    message: str,
) -> None:
    with pytest.raises(OptionError, match=message.replace("?", r"\?")):
        write(TRANSCRIPT, tmp_path / name, format)
    assert list(tmp_path.iterdir()) == []


def test_a_number_is_not_a_path() -> None:
    wrong: Any = 3
    with pytest.raises(OptionError, match="path=3 must be a name or a path"):
        write(TRANSCRIPT, wrong)


def test_a_refused_option_leaves_the_old_file_unchanged(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("old")
    with pytest.raises(OptionError):
        write(TRANSCRIPT, path, options=SubtitleOptions(highlight_words=True))
    assert path.read_text() == "old"


def test_the_folder_of_a_file_is_made(tmp_path: Path) -> None:
    path = tmp_path / "new" / "deep" / "a.txt"
    assert wb.write(TRANSCRIPT, path) == path
    assert path.read_text() == wb.writers.render(TRANSCRIPT, "txt")
    with pytest.raises(wb.WriteError, match=r"a.txt: the directory cannot be created: "):
        wb.write(TRANSCRIPT, path / "b.txt")


@pytest.mark.parametrize(
    ("name", "made", "warns"),
    [
        ("a.srt", transcript(segment("No.", 0, 1)), True),
        ("a.vtt", transcript(segment("No.", 0, 1), segment("Yes.", 2, 3)), True),
        ("a.ass", transcript(segment_with_words("No.", 0)), False),
        ("a.srt", transcript(segment("No.", 0, 1), segment_with_words("Yes.", 2)), False),
        ("a.srt", transcript(), False),
        ("a.json", transcript(segment("No.", 0, 1)), False),
        ("a.rttm", Diarization((Turn(0.0, 1.0, "A", 1.0),)), False),
    ],
)
def test_subtitles_without_words_have_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, name: str, made: Any, *, warns: bool
) -> None:
    write(made, tmp_path / name)
    expected = f"{tmp_path / name}: the times of long cues are estimated; transcribe with "
    assert [text.startswith(expected) for text in caplog.messages] == [True] * warns


COMPLETE = replace(
    transcript(segment("No.", 0, 1), segment_with_words("Well, I know.", 1)),
    omissions=(Omission(4.0, 5.0, "Thanks!", "boilerplate", 1.0),),
    diarization=Diarization((Turn(0.0, 1.0, "SPEAKER_00", 1.0),)),
)


def changed(name: str, value: Any) -> Any:
    """Return COMPLETE with one field changed, given as in the messages of WriteError."""
    parts = name.replace("[", ".").replace("]", "").split(".")

    def change(owner: Any, rest: list[str]) -> Any:
        if not rest:
            return value
        if isinstance(owner, tuple):
            number = int(rest[0])
            return (*owner[:number], change(owner[number], rest[1:]), *owner[number + 1 :])
        return replace(owner, **{rest[0]: change(getattr(owner, rest[0]), rest[1:])})

    return change(COMPLETE, parts)


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 1e300, 10**400, -1e10])
@pytest.mark.parametrize(
    "name",
    ["segments[1].start", "segments[0].end", "segments[1].words[2].start", "omissions[0].end"],
)
def test_times_that_are_not_finite_are_refused_by_name(
    name: str,
    value: float,
    format: str,  # noqa: A002 - as in `render`
) -> None:
    with pytest.raises(WriteError) as caught:
        render(changed(name, value), format)
    assert str(caught.value).startswith(f"{name} ")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("segments", None, "segments must be a tuple, not NoneType"),
        ("segments", "text", "segments must be a tuple, not str"),
        ("segments[1]", {"start": 0}, "segments[1] must be a Segment, not dict"),
        ("segments[0].text", None, "segments[0].text must be a str, not NoneType"),
        ("segments[0].text", b"No.", "segments[0].text must be a str, not bytes"),
        ("segments[0].start", "0", "segments[0].start must be a number, not str"),
        ("segments[0].start", True, "segments[0].start must be a number, not bool"),
        ("segments[0].id", 0.5, "segments[0].id must be a whole number, not float"),
        ("segments[0].id", 10**400, "segments[0].id is out of range: at most 9.22337e+18"),
        ("segments[0].language", None, "segments[0].language must be a str, not NoneType"),
        ("segments[1].words", 3, "segments[1].words must be a tuple, not int"),
        ("segments[1].words[0].word", 3, "segments[1].words[0].word must be a str, not int"),
        ("segments[0].avg_logprob", None, "segments[0].avg_logprob must be a number, not NoneType"),
        (
            "duration",
            math.nan,
            "duration must be a finite number of seconds, at most 1e+09, not nan",
        ),
        ("language", 3, "language must be a str, not int"),
        ("omissions[0].reason", None, "omissions[0].reason must be a str, not NoneType"),
        ("chunks", "2", "chunks must be a whole number, not str"),
    ],
)
def test_values_of_another_type_are_refused_by_name(
    name: str,
    value: Any,
    message: str,
    format: str,  # noqa: A002 - as in `render`
) -> None:
    with pytest.raises(WriteError) as caught:
        render(changed(name, value), format)
    assert str(caught.value) == message


@pytest.mark.parametrize("format", FORMATS)
def test_lists_and_unusual_times_are_written(format: str) -> None:  # noqa: A002 - as in `render`
    assert render(changed("segments", list(COMPLETE.segments)), format) == render(COMPLETE, format)
    for name, value in (
        ("segments[0].start", -3.5),
        ("segments[0].end", -2),
        ("segments[1].words[0].start", 100.0),
        ("segments[1].words[2].end", -1),
        ("segments[1].end", 1e9),
        ("diarization.turns[0].end", -1),
        ("segments[0].language", "\ud800\0&<"),
    ):
        assert render(changed(name, value), format).encode()


def test_scores_that_are_not_finite_are_null_in_json() -> None:
    text = render(changed("segments[0].avg_logprob", -math.inf), "json")
    content = json.loads(text, parse_constant=pytest.fail)
    assert content["segments"][0]["avg_logprob"] is None


def test_keywords_have_the_names_and_types_of_the_options() -> None:
    subtitles, tables = get_type_hints(SubtitleOptions), get_type_hints(TableOptions)
    assert get_type_hints(SubtitleKeywords) == subtitles
    assert get_type_hints(FileKeywords) == subtitles | tables
