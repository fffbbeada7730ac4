"""The command that arguments name, the help pages, the version, and the completion of shells."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from whisperbatch.cli import app as program
from whisperbatch.cli import version_line
from whisperbatch.cli.app import SERVER_FLAGS, with_command
from whisperbatch.cli.flags import complete_formats, complete_languages, complete_models
from whisperbatch.cli.help import COMMON, GROUPS, MORE
from whisperbatch.errors import OptionError
from whisperbatch.server.serve import flag_texts
from whisperbatch.writers import FORMATS

ROOT = Path(__file__).parents[3]
GROUP: Any = typer.main.get_command(program.app)
COMMANDS = tuple(GROUP.commands)


def page(*arguments: str, columns: int = 80) -> str:
    result = CliRunner().invoke(program.app, arguments, env={"COLUMNS": str(columns)})
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("talk.mp3", "transcribe talk.mp3"),
        ("transcribe talk.mp3", "transcribe talk.mp3"),
        ("talk.mp3 --model small", "transcribe talk.mp3 --model small"),
        ("--language en talk.mp3", "transcribe --language en talk.mp3"),
        ("--language=en talk.mp3", "transcribe --language=en talk.mp3"),
        ("-m base -v talk.mp3", "transcribe -m base -v talk.mp3"),
        ("-mbase talk.mp3", "transcribe -mbase talk.mp3"),
        ("-", "transcribe -"),
        ("-f srt -", "transcribe -f srt -"),
        ("https://example.org/talk", "transcribe https://example.org/talk"),
        ("talks/*.mp3", "transcribe talks/*.mp3"),
        ("talk[1]", "transcribe talk[1]"),
        ("~", "transcribe ~"),
        (r"C:\talks\a", r"transcribe C:\talks\a"),
        ("./models", "transcribe ./models"),
        ("nowhere.mp3", "transcribe nowhere.mp3"),
        ("-- -dash.mp3", "transcribe -- -dash.mp3"),
        ("models", "models"),
        ("-v models", "models -v"),
        ("--model small info", "info --model small"),
        # the value of a flag is no command
        ("--language models talk.mp3", "transcribe --language models talk.mp3"),
        ("--initial-prompt info a.mp3", "transcribe --initial-prompt info a.mp3"),
        # no recording: the command says what is missing
        ("--language en", "transcribe --language en"),
        ("--frobnicate talk.mp3", "transcribe --frobnicate talk.mp3"),
        # an unknown flag may take a value: the command says that there is no such flag
        ("--hf-token X talk.mp3", "transcribe --hf-token X talk.mp3"),
        ("--hf-token X", "transcribe --hf-token X"),
        ("-x 3 talk.mp3", "transcribe -x 3 talk.mp3"),
        ("--fetch small models", "transcribe --fetch small models"),
        ("--no-vad models", "models --no-vad"),
    ],
)
def test_arguments_without_a_command_are_transcribed(given: str, expected: str) -> None:
    assert with_command(given.split(), GROUP.commands) == expected.split()


def test_a_file_or_folder_needs_no_suffix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "talks").mkdir()
    (tmp_path / "recording").touch()
    (tmp_path / "broken").symlink_to("nowhere")
    (tmp_path / "models").mkdir()
    for name in ("talks", "recording", "broken"):
        assert with_command([name], GROUP.commands) == ["transcribe", name]
    assert with_command(["models"], GROUP.commands) == ["models"], "a command wins"


@pytest.mark.parametrize(
    ("word", "hint"),
    [
        ("transcrib", "did you mean transcribe?"),
        ("detect_language", "did you mean detect-language?"),
        ("MODELS", "did you mean models?"),
        ("sing", "whisperbatch -h lists the commands"),
    ],
)
def test_a_word_that_is_neither_a_command_nor_a_recording_is_refused(word: str, hint: str) -> None:
    for arguments in ([word, "talk.mp3"], ["-v", word], ["--no-vad", "-mbase", word]):
        with pytest.raises(OptionError) as error:
            with_command(arguments, GROUP.commands)
        assert str(error.value) == f"No such command or file: {word!r}; {hint}"
    assert with_command([word], GROUP.commands, strict=False) == ["transcribe", word]


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_the_short_page_fits_on_a_screen(command: str) -> None:
    lines = page(*([command] if command else []), "-h").splitlines()
    assert len(lines) <= 23, "24 rows, and the next prompt needs one"
    assert all(len(line) <= 80 for line in lines)
    assert lines[0].startswith("Usage: ")


def test_the_short_page_has_the_common_flags_and_all_commands() -> None:
    text = page("-h")
    assert set(COMMON) <= {parameter.name for parameter in GROUP.commands["transcribe"].params}
    for names, description in COMMON.values():
        assert f"  {names} " in text
        assert description in text
    commands = text.partition("\nCommands: ")[2].partition(MORE)[0]
    assert commands.split() == [name for name in COMMANDS if name != "transcribe"]
    assert "--help lists all options" in text
    assert "--beam-size" not in text
    assert set(SERVER_FLAGS) <= set(flag_texts())


def test_the_long_page_has_every_flag_in_groups_and_the_common_groups_first() -> None:
    for command in ("transcribe", "plan", "join", "work", "detect-language", "models", "info"):
        text = page(command, "--help")
        for parameter in GROUP.commands[command].params:
            for name in (*parameter.opts, *parameter.secondary_opts):
                assert name in text or parameter.metavar in text, name
    lines = page("--help").splitlines()
    headings = [line for line in lines if line in GROUPS]
    assert headings == [name for name in GROUPS if name != "Features"] + ["Features"]
    assert headings.index("Languages") < headings.index("Subtitles") < headings.index("Decoding")
    for flag in ("  -V, --version", "  --install-completion", "  -f, --format LIST"):
        assert any(line.startswith(flag) for line in lines), flag
    text = page("serve", "--help")
    for name in flag_texts():
        assert f"  --{name.replace('_', '-')}" in text


@pytest.mark.parametrize("columns", [60, 80, 200])
def test_pages_have_the_width_of_the_terminal(columns: int) -> None:
    for arguments in (("-h",), ("--help",), ("doctor", "-h"), ("serve", "--help")):
        lines = page(*arguments, columns=columns).splitlines()
        limit = min(columns, 100)
        # a list of choices and an example are never divided
        assert all(len(line) <= limit or " " not in line.strip() or "  " in line for line in lines)
        assert arguments == ("-h",) or max(map(len, lines)) > limit - 12


def test_flags_are_not_divided() -> None:
    for columns in range(60, 101, 5):
        lines = page("--help", columns=columns).splitlines()
        assert not any(line.endswith("-") and line[-2:-1].isalpha() for line in lines)
        assert "<" not in "".join(lines)


def test_every_page_has_the_same_form() -> None:
    for command in COMMANDS:
        lines = page(command, "--help").splitlines()
        assert lines[0].endswith("[OPTIONS]")
        assert "Options" in lines
        flag = next(line for line in lines if line.startswith("  -"))
        assert lines[lines.index(flag) + 1].startswith(" " * 6)


WITHOUT_EXTRAS = """
import sys
for name in ("typer", "rich", "click"):
    sys.modules[name] = None
sys.argv = ["whisperbatch", *sys.argv[1:]]
from whisperbatch.cli import main
main()
"""


def run_without_extras(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", WITHOUT_EXTRAS, *arguments],
        cwd=ROOT,
        capture_output=True,
        check=False,
        text=True,
    )


@pytest.mark.parametrize("flag", ["-V", "--version"])
def test_the_version_needs_no_extra(flag: str) -> None:
    result = run_without_extras(flag)
    assert (result.returncode, result.stdout) == (0, f"{version_line()}\n")
    assert page(flag) == f"{version_line()}\n"
    assert run_without_extras("talk.mp3").returncode == 4


def test_the_page_of_doctor_needs_no_extra() -> None:
    result = run_without_extras("doctor", "-h")
    assert result.returncode == 0, result.stderr
    assert result.stdout == page("doctor", "-h")
    assert "  --time-limit SECONDS\n" in result.stdout
    assert "default 300" in result.stdout


def complete(line: str) -> list[str]:
    """Return what Bash completes at the end of a line."""
    words = line.split(" ")
    environment = {
        "_WHISPERBATCH_COMPLETE": "complete_bash",
        "COMP_WORDS": line.rstrip() if line.endswith(" ") else line,
        "COMP_CWORD": str(len(words) - 1),
    }
    result = CliRunner().invoke(program.app, [], env=environment, prog_name="whisperbatch")
    return result.stdout.split()


@pytest.mark.parametrize(
    ("line", "some"),
    [
        ("whisperbatch det", {"detect-language"}),
        ("whisperbatch --lang", {"--language", "--languages"}),
        ("whisperbatch talk.mp3 --num", {"--num-speakers"}),
        ("whisperbatch transcribe talk.mp3 --num", {"--num-speakers"}),
        ("whisperbatch talk.mp3 --model large-v3-", {"large-v3-turbo"}),
        ("whisperbatch --language cy", {"cy"}),
        ("whisperbatch talk.mp3 -f vt", {"vtt"}),
        ("whisperbatch talk.mp3 --device cu", {"cuda"}),
        ("whisperbatch models --fe", {"--fetch"}),
    ],
)
def test_a_shell_completes_commands_flags_and_values(line: str, some: set[str]) -> None:
    found = complete(line)
    assert some <= set(found)
    assert all(word.startswith(line.rsplit(maxsplit=1)[-1]) for word in found)


def test_files_are_left_to_the_shell() -> None:
    assert complete("whisperbatch talk") == []
    assert complete("whisperbatch talk.mp3 ta") == []


def test_values_complete() -> None:
    assert complete_formats("srt,t") == [f"srt,{name}" for name in FORMATS if name[0] == "t"]
    assert complete_formats("al") == ["all"]
    assert complete_languages("j") == ["ja", "jw"]
    assert "small.en" in complete_models("small")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_completion_of_a_shell_is_printed(shell: str) -> None:
    result = subprocess.run(
        [sys.executable, "-m", "whisperbatch", "--show-completion", shell],
        cwd=ROOT,
        capture_output=True,
        check=True,
        text=True,
        env={**os.environ, "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"},
    )
    assert f"complete_{shell}" in result.stdout
