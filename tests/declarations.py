"""Write the tables of options and settings in docs/reference/.

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
from whisperbatch.options import Options, documented_fields, documented_sections
from whisperbatch.server.settings import ServerSettings
from whisperbatch.writers import SubtitleOptions, TableOptions

ROOT: Final = Path(__file__).parents[1]
PAGES: Final = tuple(
    ROOT / f"docs/reference/{page}.md" for page in ("options", "writers", "server")
)

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


def with_tables(page: str) -> str:
    """Return a page with the tables that its comments name."""

    def table(match: re.Match[str]) -> str:
        name = match[2]
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
