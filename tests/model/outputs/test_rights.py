"""The command line without the rights to read or to write. Needs root, who can drop the rights."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.model.command_line import FAST, write_media

PROGRAM = Path(__file__).with_name("without_rights.py")

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can drop rights")


@pytest.fixture(scope="module")
def media(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_media(tmp_path_factory.mktemp("rights"))


@pytest.fixture
def jobs(media: Path) -> Iterator[Path]:
    """A directory with recordings, and the directory `texts`, which everybody may write to.

    Not in pytest's temporary directory, which only root may enter.
    """
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        directory.chmod(0o755)
        shutil.copytree(media / "talks", directory / "talks")
        shutil.copy(media / "talk.mp3", directory / "talks" / "secret.mp3")
        (directory / "texts").mkdir()
        (directory / "texts").chmod(0o777)
        yield directory


def run(*arguments: str, media: Path, cwd: Path) -> tuple[int, list[str]]:
    """Return the status of the command, and the lines of standard error but the model's."""
    result = subprocess.run(
        [sys.executable, str(PROGRAM), str(media / "talk.mp3"), *arguments, *FAST, "--quiet"],
        cwd=cwd,
        capture_output=True,
        check=False,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    return result.returncode, result.stderr.splitlines()


@pytest.mark.slow
def test_unreadable_recordings_and_folders_fail_and_the_others_are_transcribed(
    media: Path, jobs: Path
) -> None:
    (jobs / "talks" / "secret.mp3").chmod(0o600)
    (jobs / "talks" / "monday").chmod(0o700)
    status, lines = run("transcribe", "talks", "-o", "texts", media=media, cwd=jobs)
    assert status == 1
    assert lines[0] == "failed: talks/monday: the folder cannot be searched: Permission denied"
    assert lines[1].startswith("failed: talks/secret.mp3: cannot be opened: ")
    assert "Permission denied" in lines[1]
    assert lines[2].startswith("1 transcribed, 2 failed")
    assert (jobs / "texts" / "a.txt").read_text()
    assert (jobs / "texts" / "a.txt").stat().st_uid != 0
    (jobs / "talks" / "monday").chmod(0o744)  # names can be read, files cannot
    status, lines = run("transcribe", "talks", "-o", "texts", media=media, cwd=jobs)
    assert status == 1
    assert lines[0].startswith("failed: talks/monday/b.wav: ")
    assert lines[2] == "0 transcribed, 2 failed, 1 already done"


@pytest.mark.slow
def test_an_unreadable_directory_is_an_error(media: Path, jobs: Path) -> None:
    (jobs / "talks").chmod(0o700)
    for command in ("transcribe", "detect-language"):
        arguments = [sys.executable, str(PROGRAM), str(media / "talk.mp3"), command, "talks"]
        result = subprocess.run(
            [*arguments, "--model", "tiny.en"],
            cwd=jobs,
            capture_output=True,
            check=False,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        message = "whisperbatch: talks: the folder cannot be searched: Permission denied\n"
        assert (result.returncode, result.stderr) == (1, message)


@pytest.mark.parametrize("mode", [pytest.param(0o755, marks=pytest.mark.slow), 0o700])
def test_a_directory_that_cannot_be_written_is_refused_before_the_model_loads(
    media: Path, jobs: Path, mode: int
) -> None:
    (jobs / "texts").chmod(mode)
    status, lines = run("transcribe", "talks", "-o", "texts", media=media, cwd=jobs)
    assert status == 5
    [line] = lines
    assert "texts/.whisperbatch.db: the ledger of the job cannot be used: " in line
    status, lines = run("transcribe", "talks", "-o", "texts/new", media=media, cwd=jobs)
    assert status == 5
    assert lines == ["whisperbatch: texts/new: the directory cannot be created: Permission denied"]


@pytest.mark.slow
def test_without_a_ledger_each_file_that_cannot_be_written_fails(media: Path, jobs: Path) -> None:
    """Also a file that belongs to somebody else, in a directory that may be written to."""
    (jobs / "texts" / "a.txt").write_text("of root")
    talks = ("talks/a.mp3", "talks/monday/b.wav")
    status, lines = run("transcribe", *talks, "-o", "texts", media=media, cwd=jobs)
    assert status == 1
    assert lines[0] == "failed: texts/a.txt: cannot be written: Permission denied"
    assert lines[1].startswith("1 transcribed, 1 failed")
    assert (jobs / "texts" / "a.txt").read_text() == "of root"
    assert (jobs / "texts" / "b.txt").read_text()
    (jobs / "texts").chmod(0o755)
    status, lines = run("transcribe", *talks, "-o", "texts", media=media, cwd=jobs)
    assert status == 1
    assert lines[2] == "0 transcribed, 2 failed"
    assert sorted(path.name for path in (jobs / "texts").iterdir()) == ["a.txt", "b.txt"]
