"""Write the tables of options and settings in docs/reference/, and of names from other programs.

    python -m tests.declarations            write the pages that are out of date
    python -m tests.declarations --check    exit with an error if a page is out of date

The text of an option or setting is its entry in a docstring: of its class, or of `load`. A comment
in a page names the class, the function, or the section of `Options` that the table shows.
"""

import inspect
import re
import sys
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any, Final

from pydantic import ByteSize

from whisperbatch.api import load
from whisperbatch.cli.flags import as_flag, flag_of
from whisperbatch.options import (
    SHORT_FLAGS,
    Options,
    documented_fields,
    documented_sections,
    same_option,
    spell_options,
)
from whisperbatch.options.hints import PROGRAMS, RECORDINGS, advice_on
from whisperbatch.server.settings import ServerSettings
from whisperbatch.writers import SubtitleOptions, TableOptions

ROOT: Final = Path(__file__).parents[1]
PAGES: Final = (
    *(ROOT / f"docs/reference/{page}.md" for page in ("options", "writers", "server")),
    *sorted((ROOT / "docs/how-to").glob("move-from-*.md")),
)
NAMES: Final = "names of "  # before a program of `PROGRAMS`
WITH_FLAGS: Final = ("whisper.cpp", "whisper-ctranslate2", "insanely-fast-whisper")
"""Programs that are used on the command line only."""
LONG: Final = {"stereo_diarize": "--diarize"}
"""Flags of other programs that have another meaning here."""
OWN_FLAGS: Final = ("--verbose", "--output-format", "--output-dir")
"""Flags of the same name here, whose keywords have other names."""

CODE: Final = re.compile(
    r"(?<![`\w])(?:"
    r"whisperbatch\.[\w.]+(?:\([^)]*\))?|whisperbatch (?:[a-z-]+ )?talk\.mp3"
    r"|HF_\w+(?:=1)?|progress=True|transcript\.save\([^)]*\)"
    r"|transcribe\(.*?\)|logging\.[^;]+"
    r"|--[a-z][\w-]*(?: (?:talk\.\w+|[\d.,]+|txt|vtt|srt|lrc|csv|cpu|json|channel|translate)\b)?"
    r")(?!`)"
)
"""Code in a sentence without backticks."""

TABLE: Final = re.compile(r"(<!-- Written by make declarations: (.+) -->\n\n)(?:\|.*\n)*")
"""A table in Markdown, after the name of its subject."""

Row = tuple[str, object, str]
"""Name, default and meaning."""


def load_rows() -> Iterator[Row]:
    """Yield a row for each keyword of `load`."""
    texts = documented_fields(load)
    for parameter in inspect.signature(load).parameters.values():
        yield parameter.name, parameter.default, texts[parameter.name]


def class_rows(owner: Any, texts: dict[str, str]) -> Iterator[Row]:
    """Yield a row for each field of a dataclass that has a text."""
    for field in fields(owner):
        if field.name in texts:
            yield field.name, field.default, texts[field.name]


def server_rows() -> Iterator[Row]:
    """Yield a row for each setting of the server."""
    texts = documented_fields(ServerSettings)
    for name, field in ServerSettings.model_fields.items():
        default = field.default
        yield name, int(default) if isinstance(default, ByteSize) else default, texts[name]


def in_code(text: str) -> str:
    """Return a sentence with the code in it between backticks."""
    return CODE.sub(lambda match: f"`{match[0]}`", text)


def names_table(program: str) -> Iterator[str]:
    """Yield the lines of the table of a program's names."""
    yield f"| {program} | here |"
    yield "|---|---|"
    short = {name: flag for flag, name in SHORT_FLAGS.items()}
    for name in PROGRAMS[program]:
        if name in RECORDINGS and program not in WITH_FLAGS:
            continue  # the page explains it
        on_command_line = advice_on(name, command_line=True)
        if program in WITH_FLAGS:
            names = [short[name]] if name in short else []
            written = ", ".join(f"`{each}`" for each in (*names, LONG.get(name, flag_of(name))))
            same = same_option(name)
            here = flag_of(same) if same else spell_options(on_command_line, as_flag)
        else:
            written, here = f"`{name}`", advice_on(name)
            if same_option(name) and "`" in here:
                here = f"`{same_option(name)}`"
            elif on_command_line != here and flag_of(name) not in OWN_FLAGS:
                here += f"; on the command line: {spell_options(on_command_line, as_flag)}"
        yield f"| {written} | {in_code(here)} |"


def with_tables(page: str) -> str:
    """Return a page with the tables that its comments name."""

    def table(match: re.Match[str]) -> str:
        name = match[2]
        if name.startswith(NAMES):
            return "\n".join((match[1][:-1], *names_table(name.removeprefix(NAMES)), ""))
        heading = {"load": "keyword", "ServerSettings": "setting"}.get(name, "option")
        if name == "load":
            rows = load_rows()
        elif name == "ServerSettings":
            rows = server_rows()
        elif owner := {"SubtitleOptions": SubtitleOptions, "TableOptions": TableOptions}.get(name):
            rows = class_rows(owner, documented_fields(owner))
        else:
            rows = class_rows(Options, documented_sections()[name])
        lines = [f"| `{name}` | `{default!r}` | {text} |" for name, default, text in rows]
        return "\n".join(
            (f"{match[1]}| {heading} | default | meaning |", "|---|---|---|", *lines, "")
        )

    return TABLE.sub(table, page)


def main() -> None:
    """Write each page, or check it."""
    check = sys.argv[1:] == ["--check"]
    for path in PAGES:
        old = path.read_text(encoding="utf-8")
        new = with_tables(old)
        if new != old and check:
            sys.exit(f"{path} is out of date; run: make declarations")
        if new != old:
            path.write_text(new, encoding="utf-8")
            print(path)  # noqa: T201 - a program's output


if __name__ == "__main__":
    main()
