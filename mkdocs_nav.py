"""The navigation of the site: the pages that docs/index.md links to, in its sections and order."""

import re
from pathlib import Path
from typing import Any

SECTION = re.compile(r"^## (.+)$", re.MULTILINE)
PAGE = re.compile(r"\]\(([^)#:]+\.md)")


def navigation(index: str) -> list[dict[str, Any]]:
    """Return the first page, and the pages of each section of the index."""
    _, *parts = SECTION.split(index)
    sections = zip(parts[::2], parts[1::2], strict=True)
    pages = [{title: list(dict.fromkeys(PAGE.findall(text)))} for title, text in sections]
    return [{"Start": "index.md"}, *pages]


def on_config(config: Any) -> Any:  # noqa: ANN401 - mkdocs is not there when types are checked
    """Set the navigation; mkdocs calls this function."""
    index = Path(config["docs_dir"], "index.md").read_text(encoding="utf-8")
    config["nav"] = navigation(index)
    return config
