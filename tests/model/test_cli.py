"""The command line, as a program, on real weights and speech."""

import fcntl
import json
import os
import pty
import re
import select
import shlex
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

import pyte
import pytest

from benchmarks import recordings

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
COMMANDS = sorted(
    {
        line.split("  #")[0].strip()
        for page in PAGES
        for block in re.findall(r"```sh\n(.*?)```", page.read_text(), re.DOTALL)
        for line in block.splitlines()
        if line.startswith("whisperbatch ")
    }
)
FAST = ("--model", "tiny.en", "--beam-size", "1")


@pytest.fixture(scope="module")
def spoken(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A talk, and a directory of two."""
    directory = tmp_path_factory.mktemp("cli")
    (directory / "talks" / "monday").mkdir(parents=True)
    for name, seed in (("talk.mp3", 0), ("talks/a.mp3", 1), ("talks/monday/b.wav", 2)):
        recordings.write(recordings.prompts("en", duration=20, seed=seed), directory / name)
    return directory


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "whisperbatch", *arguments]


def run(
    *arguments: str, cwd: Path, status: int = 0, data: bytes | None = None
) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        command(*arguments), cwd=cwd, capture_output=True, check=False, input=data
    )
    found = subprocess.CompletedProcess(
        done.args, done.returncode, done.stdout.decode(), done.stderr.decode()
    )
    assert found.returncode == status, found.stderr
    return found


@pytest.mark.parametrize("line", COMMANDS)
def test_what_the_documentation_says_can_be_done(line: str, spoken: Path, tmp_path: Path) -> None:
    for name in ("talk.mp3", "talks"):
        (tmp_path / name).symlink_to(spoken / name)
    told = run(*shlex.split(line)[1:], cwd=tmp_path)
    outputs = {path.suffix[1:] for path in tmp_path.rglob("*.*") if not path.is_symlink()}
    wanted = re.search(r"(?:--format|-f) (\S+)", line)
    for kind in wanted[1].split(",") if wanted and wanted[1] != "all" else ():
        assert kind in outputs
    assert told.stdout or outputs


def test_text_goes_to_a_pipe_alone(spoken: Path) -> None:
    told = run("transcribe", "talk.mp3", *FAST, cwd=spoken)
    assert "caller number" in told.stdout
    assert told.stderr == ""
    assert "\x1b" not in told.stdout


def test_standard_input_is_a_recording(spoken: Path) -> None:
    data = (spoken / "talk.mp3").read_bytes()
    piped = run("transcribe", "-", *FAST, cwd=spoken, data=data)
    assert "caller number" in piped.stdout


def test_json_lines_have_all_that_is_known(spoken: Path) -> None:
    told = run("transcribe", "talks", "nowhere.mp3", "--json-lines", *FAST, cwd=spoken, status=1)
    lines = [json.loads(line) for line in told.stdout.splitlines()]
    assert {line["type"] for line in lines} == {"segment", "transcript", "error"}
    assert {line["source"] for line in lines} == {
        "talks/a.mp3",
        "talks/monday/b.wav",
        "nowhere.mp3",
    }
    [error] = [line for line in lines if line["type"] == "error"]
    assert "there is no such file" in error["error"]
    ends = [line for line in lines if line["type"] == "transcript"]
    assert all(19 < line["duration"] < 21 for line in ends)
    assert not list(spoken.rglob("*.txt"))


def test_files_are_written_where_they_are_wanted(spoken: Path, tmp_path: Path) -> None:
    run("transcribe", "talks", "-o", str(tmp_path), "-f", "all", *FAST, cwd=spoken)
    found = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("[!.]*.*")}
    kinds = ("txt", "srt", "vtt", "tsv", "json", "csv", "lrc", "ttml")
    assert found == {f"{name}.{kind}" for name in ("a", "monday/b") for kind in kinds}


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        ("transcribe nowhere.mp3", 1, "nowhere.mp3: there is no such file"),
        ("transcribe", 2, "Missing argument"),
        ("transcribe talk.mp3 --beam-sise 3", 2, "No such option: --beam-sise"),
        ("transcribe talk.mp3 --beam-size 0", 2, "beam_size=0 is out of range"),
        ("transcribe talk.mp3 --beam-size many", 2, "--beam-size"),
        ("transcribe talk.mp3 --temperature hot", 2, "'hot' is not of the form"),
        ("transcribe talk.mp3 --format doc", 2, "doc is none of txt"),
        ("transcribe talk.mp3 --plot gif", 2, "plot='gif' is none of png, html"),
        ("transcribe talk.mp3 --max-line-width 20", 2, "max_line_width"),
        ("transcribe talk.mp3 -f srt --highlight-words --no-word-timestamps", 2, "highlight_words"),
        ("transcribe talk.mp3 --model larg", 3, "did you mean large"),
        ("transcribe talk.mp3 -f srt -o talk.mp3/texts", 5, "talk.mp3/texts"),
        ("transcribe talk.mp3 --resume", 2, "--resume has no effect"),
        ("transcribe talk.mp3 --format ,", 2, "--format nothing"),
        ("transcribe - --plot png", 2, "cannot be read twice"),
        ("transcribe http://[bad/x.mp3", 1, "bad"),
        ("info --model nothing", 3, "nothing"),
        ("detect-language nowhere.mp3", 1, "nowhere.mp3: there is no such file"),
        ("models --fetch nothing", 3, "nothing"),
        ("sing", 2, "No such command"),
    ],
)
def test_what_fails_is_said_in_one_line(
    arguments: str, status: int, said: str, spoken: Path
) -> None:
    told = run(*arguments.split(), cwd=spoken, status=status)
    lines = [line for line in told.stderr.splitlines() if "transcribed" not in line]
    assert len(lines) == 1, told.stderr
    assert said in lines[0]


def test_the_first_screen_is_what_a_newcomer_needs(spoken: Path) -> None:
    shown = run(cwd=spoken).stdout
    assert shown == run("--help", cwd=spoken).stdout
    assert len(shown.splitlines()) <= 30
    for needed in ("transcribe talk.mp3", "--format srt", "detect-language", "models", "info"):
        assert needed in shown
    flags = run("transcribe", "--help", cwd=spoken).stdout
    for needed in ("--model", "--language-detection-segments", "--no-hallucination-filter"):
        assert needed in flags


def test_any_name_can_be_transcribed_and_shown(spoken: Path, tmp_path: Path) -> None:
    odd = (os.fsdecode(b"caf\xe9.mp3"), "-dash.mp3", "日本 $x^$.mp3", "two\nlines.mp3", "[red].mp3")
    (tmp_path / "talks").mkdir()
    for name in odd:
        (tmp_path / "talks" / name).symlink_to(spoken / "talk.mp3")
    told = run(
        *("transcribe", "talks", "--json-lines", "-o", "texts", "-f", "srt,json", "--plot", "html"),
        *FAST,
        cwd=tmp_path,
    )
    ends = [json.loads(line) for line in told.stdout.splitlines()]
    named = {Path(one["source"]).name for one in ends if one["type"] == "transcript"}
    assert named == set(odd)
    for name in odd:
        for suffix in (".srt", ".json", ".timeline.html"):
            assert (tmp_path / "texts" / name.replace(".mp3", suffix)).stat().st_size > 100


def test_streams_may_be_closed_full_or_of_few_letters(spoken: Path) -> None:
    line = shlex.join(command("transcribe", "talk.mp3", *FAST))
    for ending, status in ((">&-", 0), ("2>&-", 0), (">/dev/full", 5), ("| head -c 5", 0)):
        told = subprocess.run(
            ["/bin/bash", "-c", f"{line} {ending}"], cwd=spoken, capture_output=True, check=False
        )
        assert told.returncode == status, ending
        assert b"Traceback" not in told.stderr
    told = subprocess.run(
        command("transcribe", "talk.mp3", "--json-lines", *FAST),
        cwd=spoken,
        capture_output=True,
        check=True,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
    )
    assert json.loads(told.stdout.splitlines()[0])["text"]


def test_what_was_done_otherwise_is_done_again(spoken: Path, tmp_path: Path) -> None:
    once = ("transcribe", "talks", "-o", str(tmp_path), *FAST)
    run(*once, cwd=spoken)
    whole = (tmp_path / "a.txt").read_text()
    for more in (("--clip-timestamps", "0,8", "--no-resume"), ("--clip-timestamps", "0,9")):
        run(*once, *more, cwd=spoken)
        assert (tmp_path / "a.txt").read_text() != whole
        assert "2 transcribed" in run(*once, cwd=spoken).stderr
        assert (tmp_path / "a.txt").read_text() == whole
    (tmp_path / "a.txt").write_text("by hand")
    assert "2 done before" in run(*once, cwd=spoken).stderr
    told = run(*once, "--clip-timestamps", "0,8", cwd=spoken, status=1)
    assert "a.txt: was changed since; --no-resume replaces it" in told.stderr
    assert (tmp_path / "a.txt").read_text() == "by hand"


def test_ctrl_c_while_it_starts_is_quiet(spoken: Path) -> None:
    for after in (0.1, 0.3, 0.6, 1.0):
        process = subprocess.Popen(
            command("transcribe", "talk.mp3"), cwd=spoken, stderr=subprocess.PIPE, text=True
        )
        time.sleep(after)
        process.send_signal(signal.SIGINT)
        said = process.communicate()[1]
        if after > 0.1:  # before that, Python itself is starting
            assert "Traceback" not in said
            assert process.returncode == 130


def test_195_of_200_and_nothing_twice(tmp_path: Path) -> None:
    """Five broken ones among two hundred: a line and an exit status, and no other is lost."""
    talks, texts = tmp_path / "talks", tmp_path / "texts"
    talks.mkdir()
    spoken = recordings.prompts("en", duration=30)
    one = spoken.utterances[3]
    first, last = (round(at * recordings.SAMPLING_RATE) for at in (one.start, one.end))
    clip = recordings.Recording(name="clip", samples=spoken.samples[first:last], utterances=())
    whole = recordings.write(clip, tmp_path / "clip.wav").read_bytes()
    broken = {
        "020.wav": b"",
        "070.mp3": b"not media at all",
        "120.wav": whole[:30],
        "170.flac": b"fLaC" + bytes(100),
        "199.wav": os.urandom(2000),
    }
    for number in range(200):
        name = f"{number:03}.wav"
        if not any(wrong.startswith(f"{number:03}") for wrong in broken):
            (talks / name).write_bytes(whole)
    for name, content in broken.items():
        (talks / name).write_bytes(content)
    arguments = ("transcribe", str(talks), "-o", str(texts), *FAST)
    told = run(*arguments, cwd=tmp_path, status=1)
    failures = [line for line in told.stderr.splitlines() if line.startswith("failed: ")]
    assert len(failures) == 5
    for name in broken:
        [line] = [line for line in failures if f"/{name}: " in line]
        assert len(line.split(f"/{name}: ")[1]) > 10  # the reason
    assert "195 transcribed, 5 failed" in told.stderr
    written = sorted(texts.glob("*.txt"))
    assert len(written) == 195
    assert len({path.read_text() for path in written}) == 1
    assert written[0].read_text().strip()
    times = {path: path.stat().st_mtime_ns for path in written}
    again = run(*arguments, cwd=tmp_path, status=1)
    assert "0 transcribed, 5 failed, 195 done before" in again.stderr
    assert times == {path: path.stat().st_mtime_ns for path in written}


class Shown:
    """A command on a terminal of 100 columns, and what is on the screen."""

    def __init__(self, arguments: Iterable[str], cwd: Path) -> None:
        self.screen = pyte.Screen(100, 30)
        self._stream = pyte.ByteStream(self.screen)
        main, side = pty.openpty()
        fcntl.ioctl(side, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))
        environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "100"}
        self.process = subprocess.Popen(
            command(*arguments), cwd=cwd, stdin=side, stdout=side, stderr=side, env=environment
        )
        os.close(side)
        self._main = main

    def text(self) -> str:
        return "\n".join(line.rstrip() for line in self.screen.display).strip()

    def until(self, seen: Callable[[str], object], seconds: float = 120.0) -> str:
        """The screen as soon as something is on it, or the process has ended."""
        limit = time.monotonic() + seconds
        while time.monotonic() < limit and not seen(self.text()):
            if not select.select([self._main], [], [], 0.1)[0]:
                continue
            data = b""
            with suppress(OSError):  # the other side is closed
                data = os.read(self._main, 65536)
            if not data:
                break
            self._stream.feed(data)
        return self.text()

    def end(self) -> int:
        self.until(lambda _: False)
        os.close(self._main)
        return self.process.wait()


def test_a_terminal_shows_text_and_a_bar_that_goes(spoken: Path) -> None:
    shown = Shown(("transcribe", "talk.mp3", *FAST), spoken)
    begun = shown.until(lambda text: "of 0:20" in text)
    assert "talk.mp3" in begun
    assert shown.end() == 0
    assert "0:16  Please enter the number you wish to call." in shown.text()
    assert "of 0:20" not in shown.text()
    assert "1 transcribed: 0:20 in" in shown.text()
    assert not shown.screen.cursor.hidden


def test_a_job_has_a_bar_for_all(spoken: Path, tmp_path: Path) -> None:
    shown = Shown(("transcribe", "talks", "nowhere.mp3", "-o", str(tmp_path), *FAST), spoken)
    assert "left" in shown.until(lambda text: "left" in text)
    assert shown.end() == 1
    text = shown.text()
    assert "failed nowhere.mp3: there is no such file" in text
    assert f"done b.wav 0:20 en -> {tmp_path}"[:60] in text
    assert "2 transcribed, 1 failed: 0:40 in" in text


def test_ctrl_c_stops_at_once_and_the_same_command_goes_on(tmp_path: Path) -> None:
    (tmp_path / "talks").mkdir()
    recordings.write(recordings.prompts("en", duration=400), tmp_path / "talks" / "long.wav")
    arguments = ("transcribe", "talks", "-o", "texts", "--model", "tiny.en", "--beam-size", "5")
    shown = Shown(arguments, tmp_path)
    shown.until(lambda text: re.search(r"1:\d\d of", text))
    began = time.monotonic()
    shown.process.send_signal(signal.SIGINT)
    assert shown.end() == 130
    assert time.monotonic() - began < 2
    assert "stopped: 0 transcribed; the same command goes on from here" in shown.text()
    assert not shown.screen.cursor.hidden
    assert not list((tmp_path / "texts").glob("[!.]*"))
    told = run(*arguments, "--verbose", cwd=tmp_path)
    assert "1 transcribed: 6:40" in told.stderr
    assert (tmp_path / "texts" / "long.txt").stat().st_size > 1000
