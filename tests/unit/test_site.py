"""The site: built without a network, with all pages, and without files of other hosts."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from mkdocs_nav import navigation

ROOT = Path(__file__).parents[2]
INDEX = """# A

[x](a/x.md)

## B

- [y](b/y.md#z), [y](b/y.md)
- [w](https://b/w.md)

## C

[v](v.md)

### D

- [u](u.md)

### E

## F
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("material", reason="make installs the extra docs")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    variables = {**os.environ, "NO_MKDOCS_2_WARNING": "1", "https_proxy": "http://127.0.0.1:9"}
    done = subprocess.run(
        command, cwd=ROOT, env=variables, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return folder


def test_the_navigation_is_that_of_the_index() -> None:
    assert navigation(INDEX) == [
        {"Start": "index.md"},
        {"B": ["b/y.md"]},
        {"C": ["v.md", {"D": ["u.md"]}, {"E": []}]},
        {"F": []},
    ]


def test_the_index_has_the_four_parts() -> None:
    parts = navigation((ROOT / "docs/index.md").read_text())
    titles = [title for part in parts for title in part]
    assert titles == ["Start", "Tutorials", "How to", "Reference", "Explanation"]


def test_every_page_is_built(site: Path) -> None:
    for page in (ROOT / "docs").rglob("*.md"):
        assert (site / page.relative_to(ROOT / "docs").with_suffix(".html")).is_file()


def test_pages_load_nothing_from_other_hosts(site: Path) -> None:
    for page in site.rglob("*.html"):
        loaded = re.findall(
            r"<(?:script|img|link|iframe)[^>]+(?:src|href)=\"?([^\" >]+)", page.read_text()
        )
        assert loaded
        foreign = [address for address in loaded if re.match(r"(https?:)?//", address)]
        assert not foreign, page.name
    for sheet in site.rglob("*.css"):
        assert not re.findall(r"url\(['\"]?https?:", sheet.read_text()), sheet.name
