"""The command line on a terminal: text, status, progress bars, Ctrl-C."""

import re
import signal
import time
from pathlib import Path

import pytest

import whisperbatch as wb
from benchmarks import recordings
from tests.model.command_line import FAST, TerminalCommand, run, write_media
from whisperbatch.diarization import open_diarizer


@pytest.fixture(scope="module")
def media(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_media(tmp_path_factory.mktemp("cli"))


def test_a_terminal_shows_text_the_status_and_a_bar_that_is_removed(media: Path) -> None:
    running = TerminalCommand(("transcribe", "talk.mp3", *FAST), media)
    text = running.wait_for(lambda text: "of 0:20" in text and "loading model" in text)
    assert "talk.mp3" in text
    assert running.end() == 0
    assert "0:16  Please enter the number you wish to call." in running.text()
    assert "of 0:20" not in running.text()
    assert "loading" not in running.text()
    assert "1 transcribed: 0:20 in" in running.text()
    assert not running.screen.cursor.hidden


def test_a_job_has_a_bar_for_all_recordings(media: Path, tmp_path: Path) -> None:
    running = TerminalCommand(
        ("transcribe", "talks", "nowhere.mp3", "-o", str(tmp_path), *FAST), media
    )
    assert "left" in running.wait_for(lambda text: "left" in text)
    assert running.end() == 1
    text = running.text()
    assert "failed nowhere.mp3: there is no such file" in text
    assert f"done b.wav 0:10 en -> {tmp_path}"[:60] in text
    assert "2 transcribed, 1 failed: 0:20 in" in text


def test_ctrl_c_stops_at_once_and_the_same_command_resumes(tmp_path: Path) -> None:
    (tmp_path / "talks").mkdir()
    recordings.write(recordings.prompts("en", duration=180), tmp_path / "talks" / "long.wav")
    arguments = ("transcribe", "talks", "-o", "texts", *FAST, "--batch-size", "1")
    running = TerminalCommand(arguments, tmp_path)
    running.wait_for(lambda text: re.search(r"(0:[1-5]\d|1:\d\d) of 3:00", text))
    start = time.monotonic()
    running.process.send_signal(signal.SIGINT)
    assert running.end() == 130
    assert time.monotonic() - start < 2
    assert "stopped: 0 transcribed; run the same command again to resume" in running.text()
    assert not running.screen.cursor.hidden
    assert not list((tmp_path / "texts").glob("[!.]*"))
    result = run(*arguments, "--verbose", cwd=tmp_path)
    assert "1 transcribed: 3:00" in result.stderr
    assert (tmp_path / "texts" / "long.txt").stat().st_size > 750


@pytest.mark.slow
def test_ctrl_c_prints_the_lines_that_wait_for_their_speakers(tmp_path: Path) -> None:
    try:
        open_diarizer()
    except wb.MissingExtraError as error:
        pytest.skip(str(error))
    recordings.write(recordings.prompts("en", duration=240), tmp_path / "long.wav")
    arguments = ("transcribe", "long.wav", "--diarize", "--model", "tiny.en", "--beam-size", "5")
    path = tmp_path / "text"
    with path.open("wb") as output:
        running = TerminalCommand(arguments, tmp_path, output)
    running.wait_for(lambda text: re.search(r"[1-3]:\d\d of 4:00", text))
    assert path.read_bytes() == b""
    running.process.send_signal(signal.SIGINT)
    assert running.end() == 130
    assert "stopped: 0 transcribed" in running.text()
    lines = path.read_text().splitlines()
    assert len(lines) > 5
    assert all(re.match(r"SPEAKER_\d\d: \S", line) for line in lines)
