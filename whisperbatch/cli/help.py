"""The help pages of all commands, in one form. Needs no other package: `doctor` runs without Typer.

whisperbatch -h        the flags that most people need, each on a line: one screen
whisperbatch --help    all flags, in groups, each with its whole description
"""

import re
import shutil
import sys
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

MAX_WIDTH: Final = 100  # columns of a help page: longer lines are hard to read
MAX_COLUMN: Final = 28  # columns before the texts of the short page
MORE: Final = "--help lists all options."
UNGROUPED: Final = "Options"  # heading of the flags without a group

GROUPS: Final = (
    *(UNGROUPED, "Commands", "Model", "Languages", "Speakers", "Audio", "Subtitles", "Tables"),
    *("Pictures and messages", "Decoding", "Voice activity detection", "Chunks", "Features"),
)
"""The headings in their order on the page."""

COMMON: Final[Mapping[str, tuple[str, str]]] = MappingProxyType(
    {
        "inputs": ("RECORDING", "Files, folders, patterns or URLs; - is standard input"),
        "model": ("-m, --model NAME", "base, tiny.en, small, large-v3, turbo ..."),
        "language": ("--language CODE", "Spoken language, as en or German; else detected"),
        "task": ("--task translate", "Translate into English"),
        "output_path": ("-o, --output PATH", "A file such as a.srt, a folder, or - to print"),
        "formats": ("-f, --format LIST", "Write files: txt,srt,vtt,json ... or all"),
        "word_timestamps": ("--word-timestamps", "Find the times of words"),
        "subtitle_rules": ("--subtitle-rules NAME", "netflix, bbc, youtube, or plain"),
        "diarize": ("--diarize", "Find out who speaks"),
        "initial_prompt": ("--initial-prompt TEXT", "Names and terms that are spoken"),
        "clip_timestamps": ("--clip-timestamps X,X", "A part only: 60,90 are start and end in s"),
        "device": ("--device NAME", "cpu, cuda, or auto"),
        "resume": ("--resume", "Skip what is done, as folders always do"),
        "json_lines": ("--json-lines", "Print the result as lines of JSON"),
    }
)
"""The arguments on the short page, in their order: how they are written, and what they do."""

_SENTENCE: Final = re.compile(r"(.+?)(?:[.;](?:\s|$)|$)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Flag:
    """A flag, an argument or a command on a help page.

    Attributes:
        name: of the parameter; empty if no other command has it.
        names: as users write it, with the form of its value: "-f, --format TEXT".
        text: what it does.
        group: its heading.
    """

    name: str
    names: str
    text: str
    group: str = UNGROUPED


def print_page(
    usage: str,
    description: str,
    flags: Sequence[Flag],
    *,
    brief: bool,
    ending: str | None = None,
) -> None:
    """Print the help page of a command.

    Args:
        usage: the line after "Usage: ".
        description: paragraphs; indented lines keep their form.
        flags: of the command.
        brief: show the flags of `COMMON`, and those without group, on a line each.
        ending: the last lines; None for the usual line, or none.
    """
    if ending is None:
        ending = MORE if brief else ""
    width = min(shutil.get_terminal_size().columns, MAX_WIDTH)
    lines = [("", line) for line in _paragraphs(f"Usage: {usage}\n{description}", width)]
    lines += _brief(flags, width) if brief else _complete(flags, width)
    lines += [("", line) for line in _paragraphs(f"\n{ending}", width)] if ending else []
    _print(lines)


def _print(lines: Sequence[tuple[str, str]]) -> None:
    """Print lines, each with its style; without colours if Rich is not installed."""
    try:
        from rich.console import Console  # noqa: PLC0415 - an extra
    except ImportError:
        for _, line in lines:
            print(line)  # noqa: T201 - a page of the command line
        return
    console = Console(file=sys.stdout, highlight=False)
    for style, line in lines:
        console.print(line, style=style or None, markup=False, soft_wrap=True)


def _paragraphs(text: str, width: int) -> Iterator[str]:
    """Yield the lines of a description."""
    for line in text.splitlines():
        yield from [line] if not line or line.startswith(" ") else _wrap(line, width)


def _brief(flags: Sequence[Flag], width: int) -> Iterator[tuple[str, str]]:
    """Yield a line for each flag that most people need."""
    shown = [flag for flag in flags if flag.name in COMMON or flag.group == UNGROUPED]
    order = [*COMMON]
    shown.sort(key=lambda flag: order.index(flag.name) if flag.name in COMMON else -1)
    rows = [
        COMMON.get(flag.name) or (flag.names.partition(" / ")[0], _first_sentence(flag.text))
        for flag in shown
    ]
    column = min(max((len(names) for names, _ in rows), default=0) + 4, MAX_COLUMN)
    yield "", ""
    for names, text in rows:
        first = f"  {names}".ljust(column)
        if len(first) > column:
            yield "", first
            first = " " * column
        lines = _wrap(text, width, first, " " * column)
        yield from (("", line) for line in lines)


def _first_sentence(text: str) -> str:
    match = _SENTENCE.match(text)
    return match[1] if match else text


def _complete(flags: Sequence[Flag], width: int) -> Iterator[tuple[str, str]]:
    """Yield the flags of each group, each above its description."""
    groups: dict[str, list[Flag]] = {name: [] for name in GROUPS}
    for flag in flags:
        groups.setdefault(flag.group, []).append(flag)
    for heading, members in groups.items():
        if members:
            yield from (("", ""), ("bold", heading))
        for flag in members:
            yield "cyan", f"  {flag.names}"
            indent = " " * 6
            for line in _wrap(flag.text, width, indent, indent):
                yield "", line


def _wrap(text: str, width: int, first: str = "", indent: str = "") -> list[str]:
    """Divide a text into lines, but no flag at its hyphens."""
    return textwrap.wrap(
        text, width, initial_indent=first, subsequent_indent=indent, break_on_hyphens=False
    )
