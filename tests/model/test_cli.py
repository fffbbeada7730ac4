"""The command line with real weights and speech, also on a terminal.

Tests whose subject is the process (pipes, signals, statuses after a job) run a program; the others
run in this process, which is several times as fast.
"""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import whisperbatch as wb
from benchmarks import recordings
from tests.model.command_line import FAST, TerminalCommand, command, run, run_here, write_media
from whisperbatch.diarization import open_diarizer
from whisperbatch.vad.weights import find_weights
from whisperbatch.writers import FORMATS

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
COMMANDS = sorted(
    {
        line.split("  #")[0].strip()
        for page in PAGES
        for block in re.findall(r"```sh\n(.*?)```", page.read_text(), re.DOTALL)
        for line in block.splitlines()
        # others: test_docs_code.py, test_doctor.py, test_shared_jobs.py, test_subtitles.py
        if re.match("whisperbatch (detect-language|info|models)", line) and "--fetch" not in line
    }
)


@pytest.fixture(scope="module")
def media(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_media(tmp_path_factory.mktemp("cli"))


@pytest.mark.usefixtures("kept_models")
@pytest.mark.parametrize("line", COMMANDS)
def test_the_commands_of_the_documentation_run(line: str, media: Path, tmp_path: Path) -> None:
    for name in ("talk.mp3", "talks"):
        (tmp_path / name).symlink_to(media / name)
    result = run_here(*shlex.split(line)[1:], cwd=tmp_path)
    assert result.stdout


def test_only_text_goes_to_a_pipe(media: Path) -> None:
    result = run("transcribe", "talk.mp3", *FAST, cwd=media)
    assert "caller number" in result.stdout
    assert result.stderr == ""
    assert "\x1b" not in result.stdout


def test_a_recording_may_come_from_standard_input_and_its_subtitles_may_go_to_standard_output(
    media: Path, tmp_path: Path
) -> None:
    data = (media / "talk.mp3").read_bytes()
    piped = run("-", "-f", "srt", "-o", "-", *FAST, cwd=tmp_path, data=data)
    assert piped.stdout.startswith("1\n00:00:00,")
    assert "caller number" in piped.stdout
    assert piped.stderr == ""
    assert not list(tmp_path.iterdir())


@pytest.mark.usefixtures("kept_models")
def test_json_lines_contain_segments_transcripts_and_errors(media: Path) -> None:
    arguments = ("transcribe", "talks", "nowhere.mp3", "--json-lines", *FAST)
    result = run_here(*arguments, cwd=media, status=1)
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    assert {line["type"] for line in lines} == {"segment", "transcript", "error"}
    assert {line["source"] for line in lines} == {
        "talks/a.mp3",
        "talks/monday/b.wav",
        "nowhere.mp3",
    }
    [error] = [line for line in lines if line["type"] == "error"]
    assert "there is no such file" in error["error"]
    ends = [line for line in lines if line["type"] == "transcript"]
    assert all(9 < line["duration"] < 11 for line in ends)
    assert not list(media.rglob("*.txt"))


@pytest.mark.usefixtures("kept_models")
def test_files_are_written_into_the_output_directory(media: Path, tmp_path: Path) -> None:
    run_here("transcribe", "talks", "-o", str(tmp_path), "-f", "all", *FAST, cwd=media)
    files = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("[!.]*.*")}
    kinds = set(FORMATS) - {"rttm"}  # which needs speakers
    assert files == {f"{name}.{kind}" for name in ("a", "monday/b") for kind in kinds}


@pytest.mark.usefixtures("kept_models")
@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        ("transcribe nowhere.mp3", 1, "nowhere.mp3: there is no such file"),
        ("transcribe", 2, "Missing argument"),
        (
            "transcribe talk.mp3 --beam-sise 3",
            2,
            "No such option: --beam-sise; did you mean --beam-size?",
        ),
        ("transcribe talk.mp3 --diarize --min-speakers 4 --max-speakers 2", 2, "--min-speakers 4"),
        pytest.param(
            "transcribe talk.mp3 --frobnicate",
            2,
            "transcribe --help lists all options",
            marks=pytest.mark.slow,
        ),
        ("transcribe talk.mp3 --beam-size 0", 2, "--beam-size 0 is out of range"),
        pytest.param(
            "transcribe talk.mp3 --beam-size many", 2, "--beam-size", marks=pytest.mark.slow
        ),
        ("transcribe talk.mp3 --temperature hot", 2, "'hot' is not a number; give one or several"),
        pytest.param(
            "transcribe talk.mp3 --format doc",
            2,
            "doc is not a format; the formats are txt",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            "transcribe talk.mp3 --plot gif",
            2,
            "--plot gif is none of png, html",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            "transcribe talk.mp3 --max-line-width 20",
            2,
            "--max-line-width has",
            marks=pytest.mark.slow,
        ),
        (
            "transcribe talk.mp3 -f srt --highlight-words --no-word-timestamps",
            2,
            "--highlight-words",
        ),
        ("transcribe talk.mp3 --model larg", 3, "did you mean large"),
        ("transcribe talk.mp3 -f srt -o talk.mp3/texts", 5, "talk.mp3/texts"),
        ("transcribe talk.mp3 --resume", 2, "--resume has no effect"),
        pytest.param(
            "transcribe talk.mp3 --format ,", 2, "--format (empty)", marks=pytest.mark.slow
        ),
        ("transcribe - --plot png", 2, "- can be read only once"),
        pytest.param("transcribe http://[bad/x.mp3", 1, "bad", marks=pytest.mark.slow),
        pytest.param("info --model nothing", 3, "nothing", marks=pytest.mark.slow),
        pytest.param(
            "detect-language nowhere.mp3",
            1,
            "nowhere.mp3: there is no such file",
            marks=pytest.mark.slow,
        ),
        pytest.param("models --fetch nothing", 3, "nothing", marks=pytest.mark.slow),
        ("sing", 2, "No such command or file: 'sing'"),
        ("talk.mp3 -o talk.docx", 2, "docx is none of txt"),
    ],
)
def test_an_error_prints_one_line(arguments: str, status: int, message: str, media: Path) -> None:
    result = run_here(*arguments.split(), cwd=media, status=status)
    lines = [line for line in result.stderr.splitlines() if "transcribed" not in line]
    assert len(lines) == 1, result.stderr
    assert message in lines[0]


def test_an_error_ends_the_program_with_its_status(media: Path) -> None:
    result = run("transcribe", "talk.mp3", "--model", "larg", cwd=media, status=3)
    assert (result.stdout, len(result.stderr.splitlines())) == ("", 1)


def test_the_help_page_shows_what_a_new_user_needs(media: Path) -> None:
    page = run_here(cwd=media).stdout
    assert page == run_here("-h", cwd=media).stdout
    for text in ("whisperbatch talk.mp3", "-o talk.srt", "detect-language", "models", "info"):
        assert text in page
    page = run_here("--help", cwd=media).stdout
    for text in ("--model", "--language-detection-segments", "--no-hallucination-filter"):
        assert text in page


def test_a_file_name_may_contain_any_characters(media: Path, tmp_path: Path) -> None:
    names = (
        os.fsdecode(b"caf\xe9.mp3"),
        "-dash.mp3",
        "日本 $x^$.mp3",
        "two\nlines.mp3",
        "[red].mp3",
    )
    brief = recordings.write(recordings.prompts("en", duration=12), tmp_path / "brief.mp3")
    (tmp_path / "talks").mkdir()
    for name in names:
        (tmp_path / "talks" / name).symlink_to(brief)
    result = run(
        *("transcribe", "talks", "--json-lines", "-o", "texts", "-f", "srt,json", "--plot", "html"),
        *FAST,
        cwd=tmp_path,
    )
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    sources = {Path(line["source"]).name for line in lines if line["type"] == "transcript"}
    assert sources == set(names)
    for name in names:
        for suffix in (".srt", ".json", ".timeline.html"):
            assert (tmp_path / "texts" / name.replace(".mp3", suffix)).stat().st_size > 100


@pytest.mark.slow
def test_output_may_be_limited_to_ascii(media: Path) -> None:
    result = subprocess.run(
        command("transcribe", "talk.mp3", "--json-lines", *FAST),
        cwd=media,
        capture_output=True,
        check=True,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
    )
    assert json.loads(result.stdout.splitlines()[0])["text"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [("--clip-timestamps", "0,5"), ("--clip-timestamps", "0,4", "--no-resume")],
    ids=["resumed", "not resumed"],
)
def test_outputs_of_other_options_are_made_again_and_edited_files_are_kept(
    media: Path, tmp_path: Path, options: tuple[str, ...]
) -> None:
    arguments = ("transcribe", "talks", "-o", str(tmp_path), *FAST)
    run(*arguments, cwd=media)
    complete = (tmp_path / "a.txt").read_text()
    run(*arguments, *options, cwd=media)
    assert (tmp_path / "a.txt").read_text() != complete
    assert "2 transcribed" in run(*arguments, cwd=media).stderr
    assert (tmp_path / "a.txt").read_text() == complete
    (tmp_path / "a.txt").write_text("by hand")
    assert "2 already done" in run(*arguments, cwd=media).stderr
    result = run(*arguments, "--clip-timestamps", "0,3", cwd=media, status=1)
    assert "a.txt: was modified after it was written; --no-resume replaces it" in result.stderr
    assert (tmp_path / "a.txt").read_text() == "by hand"


@pytest.mark.slow
def test_outputs_of_other_vad_weights_are_made_again(
    media: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = ("transcribe", "talks", "-o", str(tmp_path / "texts"), *FAST)
    run(*arguments, cwd=media)
    assert "2 already done" in run(*arguments, cwd=media).stderr
    package = tmp_path / "silero_vad"  # found before the weights that ran
    (package / "data").mkdir(parents=True)
    (package / "__init__.py").touch()
    comment = b"\x32\x05other"  # the field doc_string of ONNX's ModelProto
    (package / "data" / "silero_vad_16k_sequence.onnx").write_bytes(
        find_weights().read_bytes() + comment
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert "2 transcribed" in run(*arguments, cwd=media).stderr
    assert "2 already done" in run(*arguments, cwd=media).stderr


@pytest.mark.parametrize(
    "imported",
    [
        pytest.param("whisperbatch.errors", marks=pytest.mark.slow),
        "whisperbatch.recording",
        "typer",
    ],
)
def test_ctrl_c_during_the_start_prints_no_traceback(media: Path, imported: str) -> None:
    """Ctrl-C comes when the program has imported a module, and still imports others."""
    process = subprocess.Popen(
        [sys.executable, "-X", "importtime", "-m", "whisperbatch", "transcribe", "talk.mp3"],
        cwd=media,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    for line in process.stderr:
        if line.split("|")[-1].strip() == imported:
            process.send_signal(signal.SIGINT)
            break
    else:
        pytest.fail(f"{imported} was not imported")
    errors = process.communicate()[1]
    assert "Traceback" not in errors
    assert process.returncode == 130


def test_broken_recordings_fail_and_finished_recordings_are_not_transcribed_again(
    tmp_path: Path,
) -> None:
    """Five of 30 recordings are broken: each prints one line, and the others are transcribed."""
    talks, texts = tmp_path / "talks", tmp_path / "texts"
    talks.mkdir()
    prompts = recordings.prompts("en", duration=30)
    utterance = prompts.utterances[3]
    first, stop = (
        round(seconds * recordings.SAMPLING_RATE) for seconds in (utterance.start, utterance.end)
    )
    clip = recordings.Recording(name="clip", samples=prompts.samples[first:stop], utterances=())
    wav = recordings.write(clip, tmp_path / "clip.wav").read_bytes()
    broken = {
        "010.wav": b"",
        "020.mp3": b"not media at all",
        "021.wav": wav[:30],
        "022.flac": b"fLaC" + bytes(100),
        "029.wav": os.urandom(2000),
    }
    for number in range(30):
        name = f"{number:03}.wav"
        if not any(key.startswith(f"{number:03}") for key in broken):
            (talks / name).write_bytes(wav)
    for name, content in broken.items():
        (talks / name).write_bytes(content)
    arguments = ("transcribe", str(talks), "-o", str(texts), *FAST)
    result = run(*arguments, cwd=tmp_path, status=1)
    failures = [line for line in result.stderr.splitlines() if line.startswith("failed: ")]
    assert len(failures) == 5
    for name in broken:
        [line] = [line for line in failures if f"/{name}: " in line]
        assert len(line.split(f"/{name}: ")[1]) > 10  # the reason
    assert "25 transcribed, 5 failed" in result.stderr
    written = sorted(texts.glob("*.txt"))
    assert len(written) == 25
    assert len({path.read_text() for path in written}) == 1
    assert written[0].read_text().strip()
    times = {path: path.stat().st_mtime_ns for path in written}
    again = run(*arguments, cwd=tmp_path, status=1)
    assert "0 transcribed, 5 failed, 25 already done" in again.stderr
    assert times == {path: path.stat().st_mtime_ns for path in written}


def test_a_terminal_shows_text_the_status_and_a_bar_that_is_removed(media: Path) -> None:
    running = TerminalCommand(("transcribe", "talk.mp3", *FAST), media)
    text = running.wait_for(lambda text: "of 0:20" in text and "loading model" in text)
    assert "talk.mp3" in text
    assert running.end() == 0
    lines = running.text().splitlines()
    assert "    0:16  Please enter the number you wish to call." in lines
    assert "of 0:20" not in running.text()
    assert "loading" not in running.text()
    assert "1 transcribed: 0:20 in" in running.text()
    assert not running.screen.cursor.hidden


def test_subtitles_go_to_standard_output_of_a_terminal_after_the_bar(media: Path) -> None:
    running = TerminalCommand(("talk.mp3", "-f", "srt", "-o", "-", *FAST), media, columns=60)
    assert "talk.mp3" in running.wait_for(lambda text: "0:00 of 0:20" in text)
    assert running.end() == 0
    text = running.text()
    assert text.startswith("1\n00:00:00,")
    assert "of 0:20" not in text
    assert text.splitlines()[-1].startswith("1 transcribed: 0:20 in")


def test_a_job_has_a_bar_for_all_recordings(media: Path, tmp_path: Path) -> None:
    running = TerminalCommand(
        ("transcribe", "talks", "nowhere.mp3", "-o", str(tmp_path), *FAST), media
    )
    assert "left" in running.wait_for(lambda text: "left" in text)
    assert running.end() == 1
    text = running.text()
    assert "failed: nowhere.mp3: there is no such file" in text
    assert "done b.wav 0:10 en" in text
    assert "monday/b.txt" in text  # in the same row, or in the next one
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
