"""The table of tested versions has each package that whisperbatch requires."""

from importlib.metadata import PackageNotFoundError, requires
from typing import NoReturn

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

from whisperbatch import dependencies
from whisperbatch.dependencies import NEWEST, PACKAGES, installed_version, version_bounds

REQUIRED = [
    requirement
    for requirement in map(Requirement, requires("whisperbatch") or ())
    if requirement.marker is None
]


@pytest.mark.parametrize("requirement", REQUIRED, ids=str)
def test_a_required_package_has_a_newest_tested_version(requirement: Requirement) -> None:
    assert requirement.name in PACKAGES.values()
    oldest, newest = version_bounds(requirement.name)
    assert requirement.specifier.contains(oldest)
    assert Version(oldest) <= Version(newest)


def test_the_table_has_no_other_packages() -> None:
    assert set(NEWEST) <= set(PACKAGES.values())


def test_unknown_versions_are_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    assert version_bounds("no-such-package") == ("", "")
    assert installed_version("no-such-package") == ""

    def fail(_: str) -> NoReturn:
        raise PackageNotFoundError

    monkeypatch.setattr(dependencies, "requires", fail)
    assert version_bounds("av") == ("", NEWEST["av"])
