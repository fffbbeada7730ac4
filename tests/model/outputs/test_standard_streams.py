"""Standard streams that are closed or full, readers that end, and names with escape sequences."""

import os
import shlex
import subprocess
from pathlib import Path

import pytest

from tests.model.command_line import FAST, TerminalCommand, command, run_here, write_media

STDIN_CLOSED = "failed: <stdin>: standard input is closed; give a file, or connect a pipe"
CLOSED = "standard output cannot be written: it is closed"
FULL = "standard output cannot be written: No space left on device"


@pytest.fixture(scope="module")
def media(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_media(tmp_path_factory.mktemp("streams"))


def shell(line: str, cwd: Path) -> tuple[int, list[str]]:
    """Run "whisperbatch LINE" in Bash; return its status, and the lines of standard error."""
    program = shlex.join(command())
    result = subprocess.run(
        ["/bin/bash", "-c", f"set -o pipefail; {program} {line}"],
        cwd=cwd,
        capture_output=True,
        check=False,
        timeout=100,
    )
    return result.returncode, result.stderr.decode().splitlines()


@pytest.mark.parametrize(
    ("line", "status", "message"),
    [
        ("transcribe - FAST <&-", 1, STDIN_CLOSED),
        pytest.param(
            "detect-language - --model tiny.en <&-", 1, STDIN_CLOSED, marks=pytest.mark.slow
        ),
        pytest.param(
            "transcribe talk.mp3 FAST >&-", 5, f"whisperbatch: {CLOSED}", marks=pytest.mark.slow
        ),
        ("transcribe talk.mp3 FAST >/dev/full", 5, f"whisperbatch: {FULL}"),
        ("--help >&-", 5, "whisperbatch: the output cannot be written: it is closed"),
        pytest.param(
            "transcribe talk.mp3 FAST -f srt --quiet -o quiet >&-", 0, "", marks=pytest.mark.slow
        ),
        pytest.param("transcribe nowhere.mp3 FAST 2>&-", 1, "", marks=pytest.mark.slow),
        pytest.param(
            "transcribe talk.mp3 FAST -f srt -o texts 2>/dev/full", 0, "", marks=pytest.mark.slow
        ),
        pytest.param("transcribe talk.mp3 FAST <&- >&- 2>&-", 5, "", marks=pytest.mark.slow),
    ],
)
def test_a_closed_or_full_stream_gives_one_line_and_a_status(
    line: str, status: int, message: str, media: Path
) -> None:
    returned, lines = shell(line.replace("FAST", shlex.join(FAST)), media)
    lines = [text for text in lines if "transcribed" not in text]
    assert (returned, "\n".join(lines)) == (status, message)


def test_a_closed_stream_is_not_replaced_by_a_file_of_the_job(media: Path, tmp_path: Path) -> None:
    """The ledger would get the descriptor, and messages would be written into the ledger."""
    line = f"transcribe talks FAST -o {tmp_path} <&- >&- 2>&-"
    assert shell(line.replace("FAST", shlex.join(FAST)), media)[0] == 0
    result = run_here("transcribe", "talks", "-o", str(tmp_path), *FAST, cwd=media)
    assert "0 transcribed, 2 already done" in result.stderr


@pytest.mark.parametrize(
    "line",
    [
        "transcribe talk.mp3 FAST --quiet",
        pytest.param(
            "transcribe talk.mp3 nowhere.mp3 FAST --quiet --json-lines", marks=pytest.mark.slow
        ),
        pytest.param("transcribe nowhere.mp3 FAST --quiet 2>&1", marks=pytest.mark.slow),
        "transcribe --help",
        "models",
    ],
)
def test_the_program_stops_quietly_when_the_reader_of_its_output_has_ended(
    line: str, media: Path
) -> None:
    returned, lines = shell(f"{line.replace('FAST', shlex.join(FAST))} | true", media)
    missing = [text for text in lines if text.startswith("failed: nowhere.mp3: ")]  # said first
    assert (returned, lines) == (141, missing)


NAME = "\x1b]0;title\x07\x1b[31m\x9b2J\u202ered\ntwo.mp3"
SHOWN = "\\x1b]0;title\\x07\\x1b[31m\\x9b2J\\u202ered\\ntwo.mp3"
SHOWN_IN_ERRORS = SHOWN.replace("\\n", " ")


@pytest.mark.usefixtures("kept_models")
@pytest.mark.parametrize(
    "extra",
    [("--json-lines",), pytest.param(("--no-resume", "--verbose"), marks=pytest.mark.slow)],
    ids=" ".join,
)
def test_names_cannot_send_escape_sequences(
    media: Path, tmp_path: Path, extra: tuple[str, ...]
) -> None:
    talks = tmp_path / "talks"
    (talks / "closed.mp3").mkdir(parents=True)
    (talks / NAME).write_text("not media")
    (talks / f"a{NAME}").symlink_to(media / "talk.mp3")
    os.mkfifo(talks / f"b{NAME}")
    arguments = ("transcribe", "talks", "-o", "texts", "-f", "txt", *FAST)
    result = run_here(*arguments, *extra, cwd=tmp_path, status=1)
    for output in (result.stdout, result.stderr):
        assert not any(not c.isprintable() and c != "\n" for c in output)
    assert f"failed: talks/{SHOWN_IN_ERRORS}: " in result.stderr
    assert f"talks/b{SHOWN}: ignored" in result.stderr


@pytest.mark.usefixtures("kept_models")
def test_names_in_other_errors_cannot_send_escape_sequences(tmp_path: Path) -> None:
    (tmp_path / "talks").mkdir()
    (tmp_path / "talks" / NAME).write_text("not media")
    arguments = ("detect-language", f"talks/{NAME}", "--model", "tiny.en")
    result = run_here(*arguments, cwd=tmp_path, status=1)
    assert f"failed: talks/{SHOWN_IN_ERRORS}: " in result.stderr
    result = run_here("transcribe", f"--{NAME}", cwd=tmp_path, status=2)
    assert len(result.stderr.splitlines()) == 1
    assert "\x1b" not in result.stderr


@pytest.mark.slow
def test_names_on_a_terminal_are_shown_escaped(media: Path, tmp_path: Path) -> None:
    (tmp_path / "talks").mkdir()
    (tmp_path / "talks" / "\x1b[2Jx.mp3").write_text("not media")
    (tmp_path / "talks" / "y\x1b[2Jy.mp3").symlink_to(media / "talk.mp3")
    running = TerminalCommand(("transcribe", "talks", "-o", "texts", *FAST), tmp_path)
    assert running.end() == 1
    text = running.text()
    assert "failed talks/\\x1b[2Jx.mp3: " in text
    assert "done y\\x1b[2Jy.mp3 0:20 en -> texts/y\\x1b[2Jy.txt" in text
