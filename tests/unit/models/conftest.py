"""Fixtures: a model that is installed as packages, and its cache."""

from pathlib import Path

import pytest

from tests.unit.models.model_files import make_packages
from whisperbatch.models import packages


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory with the two packages of "base"."""
    site = tmp_path / "site"
    monkeypatch.syspath_prepend(str(site))
    monkeypatch.setattr(packages, "PACKAGES", {"base": make_packages(site)})
    return site


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    cache = tmp_path / "cache"
    monkeypatch.setenv("WHISPERBATCH_CACHE", str(cache))
    return cache
