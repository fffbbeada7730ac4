"""The navigation of the site: the pages that docs/index.md links to, in its sections and order."""

import re
from pathlib import Path
from typing import Any

PAGE = re.compile(r"\]\(([^)#:]+\.md)")


def navigation(index: str) -> list[dict[str, Any]]:
    """Return the first page, and the pages of each section of the index."""
    sections = [part for part in parts(index, 2) if isinstance(part, dict)]
    return [{"Start": "index.md"}, *sections]


def parts(text: str, level: int) -> list[Any]:
    """Return the pages that a text links to; those below a heading of the level are its part."""
    before, *found = re.split(rf"^{'#' * level} (.+)$", text, flags=re.MULTILINE)
    pages = list(dict.fromkeys(PAGE.findall(before)))
    titled = zip(found[::2], found[1::2], strict=True)
    return [*pages, *({title: parts(below, level + 1)} for title, below in titled)]


def on_config(config: Any) -> Any:  # noqa: ANN401 - mkdocs is not there when types are checked
    """Set the navigation; mkdocs calls this function."""
    index = Path(config["docs_dir"], "index.md").read_text(encoding="utf-8")
    config["nav"] = navigation(index)
    return config
