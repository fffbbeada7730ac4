"""The lower bounds in pyproject.toml are the versions that `make oldest` tests."""

from importlib.metadata import requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

OLDEST = {
    pin.name: Version(next(iter(pin.specifier)).version)
    for line in (Path(__file__).parents[1] / "oldest.txt").read_text().splitlines()
    if not line.startswith("#")
    for pin in [Requirement(line)]
}
REQUIREMENTS = [Requirement(line) for line in requires("whisperbatch") or ()]
CORE = [requirement for requirement in REQUIREMENTS if requirement.marker is None]
EXTRAS = [r for r in REQUIREMENTS if r.marker is not None and r.name in OLDEST]


@pytest.mark.parametrize("requirement", [*CORE, *EXTRAS], ids=str)
def test_each_lower_bound_is_tested(requirement: Requirement) -> None:
    (bound,) = requirement.specifier
    assert bound.operator == ">="
    assert Version(bound.version) == OLDEST[requirement.name]


def test_the_core_does_not_require_pytorch() -> None:
    assert {"numpy", "ctranslate2", "faster-whisper"} <= {r.name for r in CORE}
    assert "torch" not in {r.name for r in CORE}
