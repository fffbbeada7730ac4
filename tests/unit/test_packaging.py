"""The metadata of the package: links, the long description, extras."""

import re
import subprocess
import sys
from importlib.metadata import metadata
from pathlib import Path
from typing import Any

import pytest
import yaml

from hatch_build import CustomMetadataHook, absolute_links
from tests.newest import VERSIONS

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[2]
ADDRESS = "https://host.example/group/project"


def made(**config: str) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    CustomMetadataHook(str(ROOT), config).update(fields)
    return fields


def project() -> dict[str, Any]:
    fields: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return fields


def test_names_of_files_have_only_normal_characters() -> None:
    """Other characters come from a mistake in a shell, and some systems cannot write them."""
    listed = subprocess.run(
        ["git", "ls-files", "-z"],  # noqa: S607 - the user's git
        cwd=ROOT,
        capture_output=True,
        check=False,
    )
    if listed.returncode:
        pytest.skip("the tests do not run in a clone")
    names = listed.stdout.decode().split("\0")
    assert [name for name in names if not re.fullmatch(r"[\w./+@-]*", name, re.ASCII)] == []


@pytest.mark.parametrize("config", [{}, {"repository": ""}])
def test_without_an_address_there_are_no_links_and_readme_is_unchanged(
    config: dict[str, str],
) -> None:
    fields = made(**config)
    assert fields["urls"] == {}
    assert fields["readme"]["text"] == (ROOT / "README.md").read_text()


def test_with_an_address_all_links_lead_to_the_repository() -> None:
    fields = made(repository=ADDRESS)
    assert fields["urls"]["Documentation"] == f"{ADDRESS}/blob/main/docs/index.md"
    for address in fields["urls"].values():
        _, _, path = address.removeprefix(ADDRESS).partition("/blob/main/")
        assert not path or (ROOT / path).is_file()
    targets = re.findall(r"\]\(([^)]+)\)", fields["readme"]["text"])
    assert len(targets) > 20
    for target in targets:
        kind = "raw" if target.endswith(".png") else "blob"
        path, _, _ = target.removeprefix(f"{ADDRESS}/{kind}/main/").partition("#")
        assert (ROOT / path).is_file(), target


@pytest.mark.parametrize(
    ("link", "absolute"),
    [
        ("[a](docs/b.md#c)", f"[a]({ADDRESS}/blob/main/docs/b.md#c)"),
        ("![a](b.png)", f"![a]({ADDRESS}/raw/main/b.png)"),
        ("[a](#c)", "[a](#c)"),
        ("[a](https://b.example/c)", "[a](https://b.example/c)"),
    ],
)
def test_relative_links_become_absolute(link: str, absolute: str) -> None:
    assert absolute_links(f"see {link}.", ADDRESS) == f"see {absolute}."


def test_classifiers_name_the_versions_of_python_that_are_tested() -> None:
    named = re.findall(r"Python :: (3\.\d+)", " ".join(project()["classifiers"]))
    assert f">={named[0]}" == project()["requires-python"]
    assert set(named) <= set(VERSIONS)


def test_every_extra_adds_a_package_to_the_core() -> None:
    core = {re.split(r"[>=\[]", line)[0] for line in project()["dependencies"]}
    for name, lines in project()["optional-dependencies"].items():
        added = {re.split(r"[>=\[]", line)[0] for line in lines} - core
        assert added, name


def test_every_extra_for_users_is_in_the_table_of_readme() -> None:
    section = (ROOT / "README.md").read_text().split("## Install\n")[1].split("\n## ")[0]
    cells = re.findall(r"^\| (`.*?) \|", section, re.MULTILINE)
    named = set(re.findall(r"`(\w+)`", " ".join(cells)))
    others = {"all", "eval", "test", "docs"}  # for everything, benchmarks, tests, the site
    assert (
        named == {name for name in project()["optional-dependencies"] if "-" not in name} - others
    )


def test_the_workflow_runs_targets_of_the_makefile_on_every_python() -> None:
    jobs = yaml.safe_load((ROOT / ".github/workflows/tests.yml").read_text())["jobs"]
    makefile = (ROOT / "Makefile").read_text()
    lines = [step["run"] for job in jobs.values() for step in job["steps"] if "run" in step]
    targets = {match[1] for line in lines if (match := re.match(r"make (\w+)", line))}
    assert targets >= {"test", "check", "newest", "oldest", "release"}
    assert all(re.search(rf"^{target}:", makefile, re.MULTILINE) for target in targets)
    assert tuple(jobs["newest"]["strategy"]["matrix"]["python"]) == VERSIONS


def test_the_installed_package_has_its_description() -> None:
    found = metadata("whisperbatch")
    assert found["Description-Content-Type"] == "text/markdown"
