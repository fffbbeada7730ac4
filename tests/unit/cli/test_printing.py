"""What the command line shows: status, progress, Ctrl-C, and errors without tracebacks."""

import io
import json
import logging
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest

from tests.unit.fakes import write_noise
from tests.unit.transcripts import segment, transcript
from whisperbatch.cli.printing import loading_status, print_note_on_terminal, print_segment
from whisperbatch.cli.recordings import Tally
from whisperbatch.cli.screen import (
    CHANGED_SPEAKERS,
    LINES,
    JsonLines,
    Lines,
    SharedConsole,
    Terminal,
    open_screen,
)
from whisperbatch.errors import AudioError
from whisperbatch.jobs import Failed, Finished, FinishedElsewhere, SegmentReady, WorkItem
from whisperbatch.types import Diarization, Segment, Transcript, Turn

LOG = logging.getLogger("whisperbatch")


@pytest.fixture(autouse=True)
def _info_level() -> Iterator[None]:
    level = LOG.level
    LOG.setLevel(logging.INFO)
    yield
    LOG.setLevel(level)


def test_progress_records_replace_the_status_which_is_removed_at_the_end() -> None:
    shown: list[str] = []
    with loading_status("base", shown.append):
        logging.getLogger("whisperbatch.engines").info("compiling", extra={"progress": True})
        LOG.info("model base on cpu")  # not a progress record
    LOG.info("after the context", extra={"progress": True})
    assert shown == ["loading model base ...", "compiling", ""]


def test_the_status_is_removed_after_an_error() -> None:
    shown: list[str] = []
    with pytest.raises(RuntimeError), loading_status("base", shown.append):
        raise RuntimeError
    assert shown[-1] == ""
    assert not any(type(handler).__name__ == "_ProgressHandler" for handler in LOG.handlers)


PROGRAM = """
import sys, time
from whisperbatch.cli.printing import ExitOnSignal

def say_goodbye():
    print("stopped", file=sys.stderr, flush=True)
    time.sleep({seconds})  # no program reads the output

with ExitOnSignal(say_goodbye):
    print("ready", file=sys.stderr, flush=True)
    time.sleep(600)
"""


def start(seconds: float) -> "subprocess.Popen[str]":
    program = PROGRAM.format(seconds=seconds)
    process = subprocess.Popen([sys.executable, "-c", program], stderr=subprocess.PIPE, text=True)
    assert line_of(process) == "ready"
    return process


def line_of(process: "subprocess.Popen[str]") -> str:
    assert process.stderr
    return process.stderr.readline().strip()


def test_ctrl_c_says_goodbye() -> None:
    process = start(0)
    process.send_signal(signal.SIGINT)
    assert line_of(process) == "stopped"
    assert process.communicate()[1] == ""
    assert process.returncode == 130


def test_a_second_signal_does_not_wait_for_the_reader_of_the_output() -> None:
    process = start(600)
    process.send_signal(signal.SIGINT)
    assert line_of(process) == "stopped"
    process.send_signal(signal.SIGTERM)
    process.communicate()
    assert process.returncode == 128 + signal.SIGTERM


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
    capsys: pytest.CaptureFixture[str], *, json_lines: bool, text: bool, quiet: bool, expected: str
) -> None:
    printed = LINES if text else ""
    screen = open_screen([ITEM], json_lines=json_lines, printed=printed, quiet=quiet)
    assert isinstance(screen, JsonLines if json_lines else Lines)
    screen.show_status("loading")
    screen.show_status("")
    screen.close()
    assert capsys.readouterr() == ("", expected)


def test_a_terminal_shows_the_status_until_it_is_removed() -> None:
    out = io.StringIO()
    console = SharedConsole(file=out, force_terminal=True, width=100)
    screen = Terminal(console, [ITEM], text=True)
    try:
        screen.show_status("loading model base ...")
        screen.show_status("compiling [1/2]")
        assert "loading model base ..." in out.getvalue()
        assert "compiling [1/2]" in out.getvalue()
        seen = len(out.getvalue())
        screen.show_status("")
        assert "compiling" not in out.getvalue()[seen:]
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
    screen = Lines([ITEM])
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
    screen = Lines([ITEM])
    screen.show(SegmentReady(ITEM, provisional("Yes.")))
    screen.show(SegmentReady(ITEM, provisional("No.", "SPEAKER_01")))
    screen.close()
    screen.close()
    assert capsys.readouterr().out == "SPEAKER_00: Yes.\nSPEAKER_01: No.\n"


def test_ctrl_c_within_the_last_lines_loses_no_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The signal comes when the first line is printed; the handler closes the screen."""
    screen = Lines([ITEM])
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
    screen = Lines([ITEM])
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
    screen = Terminal(SharedConsole(file=out, width=100), [ITEM], text=True)
    screen.show(SegmentReady(ITEM, provisional("Yes.")))
    screen.show(Finished(ITEM, final(replace(segment("Yes."), speaker=speaker))))
    screen.close()
    assert "    0:00  SPEAKER_00: Yes.\n" in out.getvalue()
    assert (CHANGED_SPEAKERS in out.getvalue()) is (speaker != "SPEAKER_00")


@pytest.mark.parametrize(
    ("recovered", "expected"),
    [(0.0, ""), (12.34, ", 12.3 s of speech found that the VAD rejected")],
)
def test_a_terminal_shows_the_speech_that_the_vad_rejected(recovered: float, expected: str) -> None:
    out = io.StringIO()
    screen = Terminal(SharedConsole(file=out, width=100), [ITEM], text=False)
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
    for screen in (JsonLines(), Lines([ITEM])):
        screen.show(elsewhere)
        screen.close()
    assert capsys.readouterr() == ("", "")
    out = io.StringIO()
    terminal = Terminal(SharedConsole(file=out, force_terminal=True, width=100), items, text=False)
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


BROKEN_PROGRAM = """
import sys
from pathlib import Path

from tests.unit.fakes import FakeEngine
from whisperbatch import Transcriber
from whisperbatch.cli import app, transcribe
from whisperbatch.recording import Row

def fail(*arguments, **keywords):
    raise LookupError("a hole in the list")

def row_of(chunk, extractor, recording):
    return fail() if chunk.length < 48000 else of(chunk, extractor, recording)

of, Row.of = Row.of, row_of
transcribe.wb.load = lambda *_, **__: Transcriber(FakeEngine())
transcribe.find_model = lambda *_, **__: Path("fake")
transcribe.fingerprint = lambda *_: "fake"
if "--quiet" in sys.argv:
    app.transcribe_all = fail
app.run()
"""


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [
            sys.executable,
            "-c",
            BROKEN_PROGRAM,
            "transcribe",
            *arguments,
            "--no-vad",
            "--language",
            "fr",
        ],
        cwd=Path(__file__).parents[3],
        capture_output=True,
        check=False,
        text=True,
        env={"PYTHONPATH": str(Path(__file__).parents[3]), "HF_HUB_OFFLINE": "1"},
    )


@pytest.mark.parametrize("verbose", [False, True])
def test_a_recording_with_an_unexpected_error_fails_alone(verbose: bool, tmp_path: Path) -> None:
    good, bad = write_noise(tmp_path / "good.wav", 4.0), write_noise(tmp_path / "bad.wav", 2.0)
    flags = ["--verbose"] if verbose else []
    result = run(str(bad), str(good), "-o", str(tmp_path / "texts"), *flags)
    assert result.returncode == 1, result.stderr
    assert f"failed: {bad}: unexpected LookupError: a hole in the list; this is" in result.stderr
    assert "1 transcribed, 1 failed" in result.stderr
    assert ("Traceback" in result.stderr) == verbose
    assert [path.name for path in (tmp_path / "texts").glob("*.txt")] == ["good.txt"]


@pytest.mark.parametrize("verbose", [False, True])
def test_an_unexpected_error_outside_of_a_recording(verbose: bool, tmp_path: Path) -> None:
    good = write_noise(tmp_path / "good.wav")
    flags = ["--verbose"] if verbose else []
    result = run(str(good), "--quiet", *flags)
    assert result.returncode == 6
    line = result.stderr.splitlines()[-1]
    assert line.startswith(
        "whisperbatch: unexpected LookupError: a hole in the list; this is a bug"
    )
    assert ("Traceback" in result.stderr) == verbose
    assert verbose or len(result.stderr.splitlines()) == 1
