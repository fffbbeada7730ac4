"""What a terminal shows: text that is divided at words, rows of progress, ends of recordings."""

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from rich.cells import cell_len

from tests.unit.cli.displays import Display
from tests.unit.transcripts import segment, transcript
from whisperbatch.cli.screen import (
    LINES,
    NO_SPEECH,
    Lines,
    Terminal,
    hanging_lines,
    open_screen,
)
from whisperbatch.errors import AudioError
from whisperbatch.jobs import Event, Failed, Finished, SegmentReady, WorkItem
from whisperbatch.writers import render

WIDTHS = (60, 80, 100, 120)
ENGLISH = (
    "If you would like to learn more technical information about Asterisk, dial 2 now; if you "
    "would like to test the capabilities of voice over IP, please dial 3, or wait for an operator."
)
JAPANESE = "本日の会議では、来年度の予算と人員の配置について話し合います。" * 3
THAI = "สวัสดีครับวันนี้เราจะพูดถึงการประชุมครั้งต่อไปและงบประมาณของปีหน้า" * 2
ADDRESS = "https://example.org/" + "a" * 200
TEXTS = (ENGLISH, JAPANESE, THAI, f"{JAPANESE} {ENGLISH}", f"see {ADDRESS} for more")


def item(name: str, *outputs: str) -> WorkItem:
    return WorkItem(name, tuple(map(Path, outputs)))


@pytest.mark.parametrize("width", [20, 50, 70, 110])
@pytest.mark.parametrize("text", TEXTS, ids=lambda text: text[:10])
def test_lines_fit_and_lose_nothing(text: str, width: int) -> None:
    lines = hanging_lines(text, width)
    assert all(0 < cell_len(line) <= width for line in lines)
    assert "".join(lines).replace(" ", "") == text.replace(" ", "")
    assert not any(line != line.strip() for line in lines)


@pytest.mark.parametrize("width", [20, 50, 70, 110])
def test_words_stay_whole_and_lines_are_full(width: int) -> None:
    lines = hanging_lines(ENGLISH, width)
    assert " ".join(lines) == ENGLISH
    for line, following in pairwise(lines):
        assert len(line) + 1 + len(following.split()[0]) > width, "the next word would fit"


def test_scripts_without_spaces_are_divided_between_characters() -> None:
    lines = hanging_lines(JAPANESE, 30)
    assert all(27 <= cell_len(line) <= 30 for line in lines[:-1])
    assert not any(line[0] in "、。" for line in lines)


KOREAN = "오늘 회의에서는 내년도 예산과 인력 배치에 대해 이야기하겠습니다 감사합니다 " * 2


def test_words_of_wide_characters_stay_whole_in_a_language_with_spaces() -> None:
    display = Display(60)
    screen = Terminal(display.console, [item("a.mp3")], text=True)
    screen.show(SegmentReady(item("a.mp3"), segment(KOREAN, language="ko")))
    screen.show(SegmentReady(item("a.mp3"), segment(JAPANESE, language="ja")))
    screen.close()
    lines = hanging_lines(KOREAN.strip(), 50, unspaced=False)
    assert " ".join(lines) == KOREAN.strip()
    assert len(lines) > 2
    shown = [row.replace(" ", "") for row in display.rows()]
    assert shown[: len(lines)] == [
        f"{'0:00' * (not number)}{line.replace(' ', '')}" for number, line in enumerate(lines)
    ]
    assert "".join(shown[len(lines) :]) == f"0:00{JAPANESE}"


def test_a_word_that_is_longer_than_a_line_is_divided() -> None:
    assert hanging_lines("ab " + "c" * 45, 20) == ["ab", "c" * 20, "c" * 20, "c" * 5]
    assert hanging_lines("会" * 11 + "x", 20) == ["会" * 10, "会x"]


def test_a_text_without_words_is_a_line() -> None:
    assert hanging_lines("", 40) == [""]


@pytest.mark.parametrize("width", WIDTHS)
def test_text_hangs_beside_its_time(width: int) -> None:
    display = Display(width)
    screen = Terminal(display.console, [item("a.mp3")], text=True)
    spoken = replace(segment(ENGLISH, 31.0, 45.0), speaker="Ann")
    screen.show(SegmentReady(item("a.mp3"), spoken))
    screen.close()
    rows = display.rows()
    assert rows[0].startswith("    0:31  Ann: If you would")
    assert all(row.startswith(" " * 10) and row[10] != " " for row in rows[1:])
    assert " ".join(row[10:] for row in rows) == f"Ann: {ENGLISH}"


NAMES = ("a rather long name of a recording of a meeting on Monday.mp3", "会議の録音" * 9 + ".wav")


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("count", [1, 2])
def test_each_progress_line_fits_in_a_row(
    width: int, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also the longest times: a job of 30 hours at less than twice the speed of speech."""
    monkeypatch.setattr("whisperbatch.cli.screen._duration", lambda _: 15 * 3600.0)
    display = Display(width)
    items = [item(name) for name in NAMES[:count]]
    screen = Terminal(display.console, items, text=False)
    screen.show_status(
        "loading model a-repository/with-a-long-name, and compiling for this CPU " * 2
    )
    display.now = 20_000.0
    for each in items:
        screen.show(SegmentReady(each, segment("Yes.", 0.0, 13 * 3600.0)))
    screen._bars.refresh()
    rows = display.rows()
    screen.close()
    assert len(rows) == 1 + count + (count > 1), rows
    assert rows[0].startswith("⠋ loading model")
    total = [row for row in rows if " left" in row[10:]]
    assert len(total) == 1
    assert total[0].endswith(" left")
    assert f"{13 * count}:00:00 of {15 * count}:00:00 · " in total[0]
    assert ("━" in total[0]) is (width >= 70)
    assert display.rows() == []


@pytest.mark.parametrize("text", [True, False])
def test_a_recording_without_speech_says_so(text: bool) -> None:
    display = Display(80)
    silent = item("a.mp3") if text else item("a.mp3", "a.txt")
    screen = Terminal(display.console, [silent], text=text)
    screen.show(Finished(silent, replace(transcript(), language=None)))
    screen.close()
    expected = NO_SPEECH if text else f"done a.mp3 1:00 {NO_SPEECH} -> a.txt"
    assert display.rows() == [expected]


def test_the_end_of_a_recording_takes_two_rows_if_it_is_long() -> None:
    display = Display(60)
    long = item(NAMES[0], f"texts/{NAMES[0]}.srt", "x.txt")
    screen = Terminal(display.console, [long], text=False)
    screen.show(Finished(long, transcript(segment("Yes."))))
    screen.show(Failed(item("b.mp3"), AudioError(ENGLISH, source="b.mp3")))
    screen.close()
    rows = display.rows()
    assert rows[0].startswith(f"done {NAMES[0]}"[:60])
    assert any(row.startswith("     -> texts/a rather") for row in rows)
    failed = rows[next(n for n, row in enumerate(rows) if row.startswith("failed ")) :]
    assert " ".join(row[7:] for row in failed) == f"b.mp3: {ENGLISH}"
    assert all(row.startswith(" " * 7) for row in failed[1:])


ITEMS = [item("a.mp3"), item("b.mp3"), item("c.mp3"), item("d.mp3")]
A, B, C, D = ITEMS
ALTERNATING: tuple[Event, ...] = (
    SegmentReady(B, segment("B one.")),
    SegmentReady(A, segment("A one.")),
    Failed(C, AudioError("is damaged", source="c.mp3")),
    SegmentReady(D, segment("D one.")),
    SegmentReady(B, segment("B two.", 5.0, 6.0)),
    Finished(B, transcript(segment("B one."), segment("B two.", 5.0, 6.0))),
    SegmentReady(A, segment("A two.", 5.0, 6.0)),
    Finished(A, transcript(segment("A one."), segment("A two.", 5.0, 6.0))),
    Finished(D, transcript(segment("D one."))),
)


def test_recordings_that_are_transcribed_together_are_printed_one_after_another(
    capsys: pytest.CaptureFixture[str],
) -> None:
    screen = Lines(ITEMS)
    for event in ALTERNATING[:4]:
        screen.show(event)
    assert capsys.readouterr() == ("==> a.mp3 <==\nA one.\n", "failed: c.mp3: is damaged\n")
    for event in ALTERNATING[4:]:
        screen.show(event)
    screen.close()
    assert capsys.readouterr().out == (
        "A two.\n\n==> b.mp3 <==\nB one.\nB two.\n\n==> d.mp3 <==\nD one.\n"
    )


def test_a_terminal_prints_recordings_one_after_another() -> None:
    display = Display(80)
    screen = Terminal(display.console, ITEMS, text=True)
    for event in ALTERNATING:
        screen.show(event)
    screen.close()
    assert display.rows() == [
        "==> a.mp3 <==",
        "    0:00  A one.",
        "failed c.mp3: is damaged",
        "    0:05  A two.",
        "",
        "==> b.mp3 <==",
        "    0:00  B one.",
        "    0:05  B two.",
        "",
        "==> d.mp3 <==",
        "    0:00  D one.",
    ]


def test_no_row_is_lost_when_threads_draw_the_bars(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("whisperbatch.cli.screen.DRAWING", 0.0)
    display = Display(80, rows=200)
    names = [item(f"{number}.mp3") for number in range(20)]
    screen = Terminal(display.console, names, text=True)
    for number, each in enumerate(names):
        screen.show(SegmentReady(each, segment("Yes.", float(number))))
        screen.show(Finished(each, transcript(segment("Yes.", float(number)))))
    screen.close()
    rows = [row for row in display.rows() if row]
    expected = [(f"==> {n}.mp3 <==", f"    0:{n:02}  Yes.") for n in range(20)]
    assert rows == [row for pair in expected for row in pair]


def test_text_that_waits_for_its_turn_is_printed_when_the_screen_is_closed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """After Ctrl-C."""
    display = Display(80)
    for is_terminal in (False, True):
        screen = Terminal(display.console, ITEMS, text=True) if is_terminal else Lines(ITEMS)
        for event in ALTERNATING[:6]:
            screen.show(event)
        screen.close()
        screen.close()
    assert capsys.readouterr().out == (
        "==> a.mp3 <==\nA one.\n\n==> b.mp3 <==\nB one.\nB two.\n\n==> d.mp3 <==\nD one.\n"
    )
    assert [row for row in display.rows() if "one" in row or "two" in row] == [
        "    0:00  A one.",
        "    0:00  B one.",
        "    0:05  B two.",
        "    0:00  D one.",
    ]


def test_a_file_is_printed_when_the_recording_has_finished(
    capsys: pytest.CaptureFixture[str],
) -> None:
    screen = open_screen([A], json_lines=False, printed="srt", quiet=False)
    screen.show(SegmentReady(A, segment("Yes.", 1.0, 2.5)))
    assert capsys.readouterr() == ("", "")
    spoken = transcript(segment("Yes.", 1.0, 2.5))
    screen.show(Finished(A, spoken))
    screen.close()
    assert capsys.readouterr() == (render(spoken, "srt"), "")
    screen = open_screen([A], json_lines=False, printed="srt", quiet=False)
    screen.show(Failed(A, AudioError("is damaged", source="a.mp3")))
    assert capsys.readouterr() == ("", "failed: a.mp3: is damaged\n")


def test_one_recording_has_no_heading(capsys: pytest.CaptureFixture[str]) -> None:
    screen = open_screen([A], json_lines=False, printed=LINES, quiet=False)
    screen.show(SegmentReady(A, segment("Yes.")))
    screen.show(Finished(A, transcript(segment("Yes."))))
    assert capsys.readouterr() == ("Yes.\n", "")
