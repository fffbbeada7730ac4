"""Makes the links and the long description of the package from one address.

`repository` in [tool.hatch.metadata.hooks.custom] of pyproject.toml is the address of the
repository, without a slash at the end. While it is empty, the package has no links, and README.md
is its description unchanged. With an address, README's relative links and pictures become absolute,
so that they also work on a package index.
"""

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

PAGES = {
    "Homepage": "",
    "Documentation": "/blob/main/docs/index.md",
    "Changelog": "/blob/main/CHANGELOG.md",
    "Issues": "/issues",
    "Source": "",
}


class CustomMetadataHook(MetadataHookInterface):
    """Fills in the fields that pyproject.toml lists as dynamic."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Set the description and, if the address is known, the links."""
        repository = str(self.config.get("repository", ""))
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {
            "content-type": "text/markdown",
            "text": absolute_links(text, repository) if repository else text,
        }
        metadata["urls"] = project_urls(repository)


def project_urls(repository: str) -> dict[str, str]:
    """Return the name and the address of each link; none if the address is empty."""
    return {name: f"{repository}{path}" for name, path in PAGES.items()} if repository else {}


def absolute_links(text: str, repository: str) -> str:
    """Return a page of the root folder with absolute links to the files of the repository."""

    def replace(match: re.Match[str]) -> str:
        mark, label, target = match.groups()
        if "://" in target or target.startswith("#"):
            return match[0]
        kind = "raw" if mark else "blob"
        return f"{mark}[{label}]({repository}/{kind}/main/{target})"

    return re.sub(r"(!?)\[([^\]]*)\]\(([^)\s]+)\)", replace, text)
