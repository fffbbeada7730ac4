import io
import json
import sys
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
from rich.console import Console

from tests.unit.transcripts import segment, transcript
from whisperbatch.cli.printing import print_note_on_terminal, print_segment
from whisperbatch.cli.recordings import Tally
from whisperbatch.cli.screen import CHANGED_SPEAKERS, JsonLines, Lines, Terminal, open_screen
from whisperbatch.errors import AudioError
from whisperbatch.jobs import Failed, Finished, FinishedElsewhere, SegmentReady, WorkItem
from whisperbatch.types import Diarization, Segment, Transcript, Turn

ITEM = WorkItem("-", ())


@pytest.mark.parametrize(
    ("json_lines", "text", "quiet", "expected"),
    [
        (False, False, False, "loading\n"),
        (True, False, False, "loading\n"),
        (False, True, False, ""),  # only text goes through a pipe
        (False, False, True, ""),
        (True, False, True, ""),
    ],
)
def test_without_a_terminal_the_status_goes_to_standard_error_unless_text_is_printed(
    capsys: pytest.CaptureFixture[str],
    *,
    json_lines: bool,
    text: bool,
    quiet: bool,
    expected: str,
) -> None:
    screen = open_screen([ITEM], json_lines=json_lines, text=text, quiet=quiet)
    assert isinstance(screen, JsonLines if json_lines else Lines)
    screen.show_status("loading")
    screen.show_status("")
    screen.close()
    assert capsys.readouterr() == ("", expected)


def test_a_terminal_shows_the_status_until_it_is_removed() -> None:
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=100)
    screen = Terminal(console, [ITEM], text=True)
    try:
        screen.show_status("loading model base ...")
        screen.show_status("compiling")
        descriptions = [bar.description for bar in screen._bars.tasks]
        assert descriptions == ["-", "compiling"]
        screen.show_status("")
        assert [bar.description for bar in screen._bars.tasks] == ["-"]
    finally:
        screen.close()


def test_json_lines_have_speakers_only_with_a_diarization(
    capsys: pytest.CaptureFixture[str],
) -> None:
    item = WorkItem("talk.mp3", ())
    plain = transcript(segment("Yes."))
    screen = JsonLines()
    screen.show(SegmentReady(item, plain.segments[0]))
    screen.show(Finished(item, plain))
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert list(lines[0])[-2:] == ["temperature", "words"]
    assert list(lines[1])[-3:] == ["recovered_duration", "notices", "missing_duration"]
    spoken = replace(plain.segments[0], speaker="A", speaker_confidence=0.5, provisional=True)
    embeddings = {"A": np.ones(2, np.float32)}
    diarization = Diarization((Turn(0.0, 1.0, "A", 0.5),), embeddings=embeddings)
    screen.show(SegmentReady(item, spoken))
    settled = replace(spoken, provisional=False)
    screen.show(Finished(item, replace(plain, segments=(settled,), diarization=diarization)))
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert (lines[0]["speaker"], lines[0]["provisional"]) == ("A", True)
    assert [(s["speaker"], s["text"]) for s in lines[1]["segments"]] == [("A", "Yes.")]
    assert lines[1]["speakers"] == ["A"]
    assert lines[1]["turns"] == [{"start": 0.0, "end": 1.0, "speaker": "A", "confidence": 0.5}]


def provisional(text: str, speaker: str = "SPEAKER_00") -> Segment:
    return replace(segment(text), speaker=speaker, provisional=True)


def final(*segments: Segment) -> Transcript:
    diarization = Diarization((Turn(0.0, 1.0, "SPEAKER_01", 0.5),))
    return replace(transcript(*segments), diarization=diarization)


def test_lines_have_the_final_speakers(capsys: pytest.CaptureFixture[str]) -> None:
    screen = Lines(text=True)
    screen.show(SegmentReady(ITEM, provisional("Yes.")))
    assert capsys.readouterr().out == ""
    settled = replace(segment("Yes."), speaker="SPEAKER_01")
    screen.show(Finished(ITEM, final(settled, segment("No."))))
    assert capsys.readouterr().out == "SPEAKER_01: Yes.\nNo.\n"
    screen.show(SegmentReady(ITEM, provisional("Yes.")))
    screen.show(Failed(ITEM, AudioError("cut off")))
    assert capsys.readouterr() == ("SPEAKER_00: Yes.\n", "failed: cut off\n")
    screen.show(SegmentReady(ITEM, segment("Yes.")))
    screen.show(Finished(ITEM, transcript(segment("Yes."))))
    assert capsys.readouterr().out == "Yes.\n", "without speakers, at once and only once"


def test_segments_that_wait_are_printed_when_the_screen_is_closed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    screen = Lines(text=True)
    screen.show(SegmentReady(ITEM, provisional("Yes.")))
    screen.show(SegmentReady(ITEM, provisional("No.", "SPEAKER_01")))
    screen.close()
    screen.close()
    assert capsys.readouterr().out == "SPEAKER_00: Yes.\nSPEAKER_01: No.\n"


def test_ctrl_c_within_the_last_lines_loses_no_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The signal comes when the first line is printed; the handler closes the screen."""
    screen = Lines(text=True)
    first = iter([True])

    def print_and_interrupt(line: Segment) -> None:
        print_segment(line)
        if next(first, False):
            screen.close()
            raise SystemExit(130)

    monkeypatch.setattr("whisperbatch.cli.screen.print_segment", print_and_interrupt)
    screen.show(SegmentReady(ITEM, provisional("Yes.")))
    settled = [replace(segment(text), speaker="A") for text in ("Yes.", "No.", "Why?")]
    with pytest.raises(SystemExit):
        screen.show(Finished(ITEM, final(*settled)))
    assert capsys.readouterr().out.splitlines()[-3:] == ["A: Yes.", "A: No.", "A: Why?"]


def test_a_closed_output_fails_once() -> None:
    screen = Lines(text=True)
    for text in ("Yes.", "No."):
        screen.show(SegmentReady(ITEM, provisional(text)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("whisperbatch.cli.screen.print_segment", Mock(side_effect=BrokenPipeError))
        with pytest.raises(BrokenPipeError):
            screen.close()
        screen.close()


@pytest.mark.parametrize("speaker", ["SPEAKER_00", "SPEAKER_01"])
def test_a_terminal_says_that_speakers_have_changed(speaker: str) -> None:
    out = io.StringIO()
    screen = Terminal(Console(file=out, width=100), [ITEM], text=True)
    screen.show(SegmentReady(ITEM, provisional("Yes.")))
    screen.show(Finished(ITEM, final(replace(segment("Yes."), speaker=speaker))))
    screen.close()
    assert "    0:00  SPEAKER_00: Yes.\n" in out.getvalue()
    assert (CHANGED_SPEAKERS in out.getvalue()) is (speaker != "SPEAKER_00")


@pytest.mark.parametrize(
    ("recovered", "expected"),
    [
        (0.0, ""),
        (12.34, ", 12.3 s of speech found that the VAD rejected"),
    ],
)
def test_a_terminal_shows_the_speech_that_the_vad_rejected(recovered: float, expected: str) -> None:
    out = io.StringIO()
    screen = Terminal(Console(file=out, width=100), [ITEM], text=False)
    item = WorkItem("talk.mp3", (Path("talk.srt"),))
    screen.show(Finished(item, replace(transcript(), recovered_duration=recovered)))
    screen.close()
    assert f"done talk.mp3 1:00 en{expected} -> talk.srt\n" in out.getvalue()


def test_a_note_for_the_terminal_is_not_printed_elsewhere(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    print_note_on_terminal("loading")
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    print_note_on_terminal("loading")
    print_note_on_terminal("")
    assert capsys.readouterr().err == "loading\n"


def test_recordings_of_other_processes_are_counted_and_not_printed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    items = [WorkItem(f"{number}.mp3", (Path(f"{number}.txt"),)) for number in range(3)]
    elsewhere = FinishedElsewhere(items[0])
    for screen in (JsonLines(), Lines(text=True)):
        screen.show(elsewhere)
        screen.close()
    assert capsys.readouterr() == ("", "")
    out = io.StringIO()
    terminal = Terminal(Console(file=out, force_terminal=True, width=100), items, text=False)
    try:
        terminal.show(elsewhere)
        assert [bar.description for bar in terminal._bars.tasks] == ["2 left"]
    finally:
        terminal.close()
    assert "0.mp3" not in out.getvalue()
    tally = Tally(already_done=4)
    finished = Finished(items[1], transcript(segment("Yes.")))
    for event in (elsewhere, finished, Failed(items[2], AudioError("broken"))):
        tally.count(event)
    assert tally.summary() == "1 transcribed, 1 by other processes, 1 failed, 4 already done"
