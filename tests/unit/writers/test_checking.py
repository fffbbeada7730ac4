"""`check` finds each violation of the rules, in every format that it reads."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pysubs2
import pytest

from tests.unit.transcripts import segment, transcript
from whisperbatch.errors import OptionError
from whisperbatch.writers import SubtitleOptions, check, render
from whisperbatch.writers.reading import read_cues

GOOD = """1
00:00:01,000 --> 00:00:03,000
Well, I know that.

2
00:00:04,000 --> 00:00:06,000
<i>But</i> he came
to the house.
"""


def srt(folder: Path, *cues: tuple[str, str, str], name: str = "talk.srt") -> Path:
    path = folder / name
    blocks = [f"{n}\n{start} --> {end}\n{text}\n" for n, (start, end, text) in enumerate(cues, 1)]
    path.write_text("\n".join(blocks), encoding="utf-8")
    return path


def test_a_good_file_has_no_violation(tmp_path: Path) -> None:
    path = tmp_path / "talk.srt"
    path.write_text(GOOD)
    assert check(path) == []
    assert [cue.lines for cue in read_cues(path)] == [
        ("Well, I know that.",),
        ("But he came", "to the house."),
    ]


@pytest.mark.parametrize(
    ("times", "text", "rule", "value", "limit"),
    [
        (("00:00:01,000", "00:00:08,000"), "a" * 43, "line width", 43, 42),
        (("00:00:01,000", "00:00:04,000"), "One,\ntwo,\nthree.", "line count", 3, 2),
        (("00:00:01,000", "00:00:02,000"), "I know that he will come.", "reading speed", 25, 20),
        (("00:00:01,000", "00:00:01,500"), "Yes.", "too short", 0.5, 5 / 6),
        (("00:00:01,000", "00:00:09,500"), "I know that.", "too long", 8.5, 7),
        (("00:00:01,000", "00:00:04,000"), "I know the\nman over there.", "line break", 0, 0),
        (("00:00:01,000", "00:00:04,000"), "We met Dr.\nAlexander Jones.", "line break", 0, 0),
        (
            ("00:00:01,000", "00:00:04,000"),
            "Extraordinarily\ngood men know that.",
            "balance",
            15,
            19,
        ),
    ],
)
def test_a_violation_of_one_cue(  # noqa: PLR0917
    tmp_path: Path, times: tuple[str, str], text: str, rule: str, value: float, limit: float
) -> None:
    [found] = check(srt(tmp_path, (*times, text)))
    assert (found.cue, found.start, found.rule) == (1, 1.0, rule)
    assert (found.value, found.limit) == (value, limit)
    assert str(found).startswith(f"1  00:00:01.000  {rule}: ")


@pytest.mark.parametrize(
    ("second", "rule", "value"),
    [
        ("00:00:02,900", "overlap", 0.1),
        ("00:00:03,000", "gap", 0.0),
        ("00:00:03,084", None, None),
        ("00:00:03,300", "gap", 0.3),
        ("00:00:03,500", None, None),
    ],
)
def test_gaps_and_overlaps(
    tmp_path: Path, second: str, rule: str | None, value: float | None
) -> None:
    path = srt(
        tmp_path,
        ("00:00:01,000", "00:00:03,000", "I know that."),
        (second, "00:00:06,000", "He is here."),
    )
    assert [(v.rule, v.value) for v in check(path)] == ([(rule, value)] if rule else [])
    assert [v.rule for v in check(path, "plain")] == (["overlap"] if rule == "overlap" else [])


def test_the_rules_depend_on_the_language(tmp_path: Path) -> None:
    cue = ("00:00:01,000", "00:00:07,000", "Прогнозируемое время ожидания составляет?")
    assert [v.rule for v in check(srt(tmp_path, cue))] == ["line width"], (
        "39 columns, by the script"
    )
    wide = ("00:00:01,000", "00:00:02,500", "I know that he will come here.")  # 20 per second
    assert check(srt(tmp_path, wide)) == []
    assert [v.limit for v in check(srt(tmp_path, wide, name="a.de.srt"))] == [17], "by the name"
    assert [v.limit for v in check(srt(tmp_path, wide), language="German")] == [17]
    japanese = ("00:00:01,000", "00:00:06,000", "電球が止まっていたのを見ましたか。")
    assert {v.limit for v in check(srt(tmp_path, japanese))} == {26}
    bbc = ("00:00:01,000", "00:00:02,500", "I am as old as he is.")
    assert [(v.rule, v.limit) for v in check(srt(tmp_path, bbc), "bbc")] == [("reading speed", 3)]


@pytest.mark.parametrize("suffix", ["srt", "vtt", "sbv", "ass"])
def test_every_format_is_read_back(tmp_path: Path, suffix: str) -> None:
    texts = ["Yes, <i>I</i> & {he} said:", "- That is 3 < 4 for the man,\nand not for me."]
    spoken = transcript(
        segment(texts[0], 1, 3), segment(texts[1].replace("\n", " "), 4, 8, language="en")
    )
    path = tmp_path / f"talk.{suffix}"
    path.write_text(render(spoken, suffix, SubtitleOptions(max_line_width=30)), encoding="utf-8")
    cues = read_cues(path)
    assert [(cue.start, cue.end) for cue in cues] == [(1000, 3500), (4000, 8500)]
    shown = ["\n".join(cue.lines).replace("\u200b", "") for cue in cues]
    if suffix != "sbv":
        assert shown[1] == texts[1]
    if suffix != "sbv":  # the others escape markup
        assert "& {he} said:" in shown[0]
    assert check(path) == []


@pytest.mark.parametrize(
    ("data", "lines"),
    [
        ("\ufeff1\r\n00:00:01,000 --> 00:00:03,000\r\nÜber\r\n".encode(), ("Über",)),
        ("1\n00:00:01,000 --> 00:00:03,000\nÜber\n".encode("utf-16"), ("Über",)),
        ("1\n00:00:01,000 --> 00:00:03,000\nÜber\n".encode("cp1252"), ("Über",)),
        (b"00:00:01.000-->00:00:03.000 align:start\n\n", ()),
    ],
)
def test_files_of_other_programs(tmp_path: Path, data: bytes, lines: tuple[str, ...]) -> None:
    path = tmp_path / "a.srt"
    path.write_bytes(data)
    [cue] = read_cues(path)
    assert (cue.start, cue.end, cue.lines) == (1000, 3000, lines)


def test_a_file_that_pysubs2_wrote_is_read(tmp_path: Path) -> None:
    subtitles = pysubs2.SSAFile()
    subtitles.append(pysubs2.SSAEvent(start=4000, end=6000, text=r"{\i1}Second{\i0}\Nline"))
    subtitles.append(pysubs2.SSAEvent(start=1000, end=3000, text="First, with a comma"))
    for suffix in ("ass", "ssa", "srt", "vtt"):
        subtitles.save(str(tmp_path / f"a.{suffix}"))
        cues = read_cues(tmp_path / f"a.{suffix}")
        assert sorted((cue.start, cue.lines) for cue in cues) == [
            (1000, ("First, with a comma",)),
            (4000, ("Second", "line")),
        ]


def test_a_line_break_names_the_word_before_it(tmp_path: Path) -> None:
    path = srt(tmp_path, ("00:00:01,000", "00:00:04,000", "We went to see the\nmuseum of the sea"))
    [found] = check(path)
    assert found.message == "the line ends after 'the': We went to see the | museum of the sea"


def test_highlighted_words_are_one_cue(tmp_path: Path) -> None:
    words = (
        ("00:00:01,000", "00:00:01,100", "Oh no, not again."),
        ("00:00:01,100", "00:00:01,400", "<u>Oh</u> no, not again."),
        ("00:00:01,400", "00:00:01,900", "Oh <u>no,</u> not again."),
        ("00:00:01,900", "00:00:02,600", "Oh no, <u>not again.</u>"),
        ("00:00:02,700", "00:00:03,000", "<u>Oh</u> no, not again."),
        ("00:00:03,000", "00:00:04,000", "Oh no, <u>not</u> again."),
        ("00:00:04,000", "00:00:05,000", "<u>Yes.</u>"),
        ("00:00:05,000", "00:00:06,000", "Plain."),
        ("00:00:06,000", "00:00:07,000", "Plain."),
    )
    cues = [(cue.number, cue.start, cue.end) for cue in read_cues(srt(tmp_path, *words))]
    assert cues == [
        (1, 1000, 2600),
        (5, 2700, 4000),
        (7, 4000, 5000),
        (8, 5000, 6000),
        (9, 6000, 7000),
    ]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.txt", "", r"a.txt' is none of .srt, .vtt, .sbv, .ass, .ssa"),
        ("a.srt", "no cue", r"a.srt' has no cues"),
        ("missing.srt", None, r"missing.srt': there is no such file; check the path"),
    ],
)
def test_other_files_are_refused(
    tmp_path: Path, name: str, content: str | None, message: str
) -> None:
    path = tmp_path / name
    if content is not None:
        path.write_text(content)
    with pytest.raises(OptionError, match=message):
        check(path)


def test_wrong_options_are_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "talk.srt"
    path.write_text(GOOD)
    wrong: Any = "ofcom"
    with pytest.raises(OptionError, match="rules='ofcom' is none of netflix, bbc, youtube, plain"):
        check(path, wrong)
    with pytest.raises(OptionError, match="frame_rate=0 is out of range"):
        check(path, frame_rate=0)
    with pytest.raises(OptionError, match="language"):
        check(path, language="Klingonisch")


def test_violations_are_values_of_json(tmp_path: Path) -> None:
    [found] = check(srt(tmp_path, ("00:00:01,000", "00:00:01,500", "Yes.")))
    assert json.loads(json.dumps(asdict(found)))["rule"] == "too short"
