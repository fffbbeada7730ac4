"""Build the release, and test it alone: python -m tests.release

    dist/whisperbatch-0.1.0.tar.gz             built from the working tree
    dist/whisperbatch-0.1.0-py3-none-any.whl   built from the unpacked sdist
    dist/alone/                                the unpacked sdist, and an environment

The wheel is installed into the new environment with the extra `test`. The unit tests of the sdist
then run with the files of the wheel in place of those of the sdist, so nothing of the working tree
is used, and `whisperbatch doctor` transcribes a recording. The exit status is 1 if a step fails.
"""

import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
DIST = ROOT / "dist"
MARKERS = "not kaldi and not torch and not ray and not slow and not check"
BUILD = "import sys; from hatchling.cli import hatchling; sys.exit(hatchling())"


def build(source: Path, target: str, folder: Path) -> None:
    """Build an "sdist" or a "wheel" of the project in `source` into a folder."""
    command = [sys.executable, "-c", BUILD, "build", "-t", target, "-d", str(folder)]
    subprocess.run(command, cwd=source, check=True)


def unpack(archive: Path, folder: Path) -> Path:
    """Unpack an sdist; return its one folder."""
    with tarfile.open(archive) as content:
        content.extractall(folder, filter="data")
    (unpacked,) = folder.iterdir()
    return unpacked


def main(arguments: list[str]) -> int:
    """Build and test the release; return the exit status. `--build` builds only."""
    shutil.rmtree(DIST, ignore_errors=True)
    build(ROOT, "sdist", DIST)
    (archive,) = DIST.glob("*.tar.gz")
    unpacked = unpack(archive, DIST / "alone")
    build(unpacked, "wheel", DIST)
    (wheel,) = DIST.glob("*.whl")
    if arguments == ["--build"]:
        shutil.rmtree(DIST / "alone")
        return 0
    environment = DIST / "alone" / "environment"
    subprocess.run([sys.executable, "-m", "venv", environment], check=True)
    python = environment / "bin" / "python"
    pip = ("-m", "pip", "--disable-pip-version-check", "-q", "install")
    subprocess.run([python, *pip, f"{wheel}[test]"], check=True)
    (installed,) = environment.glob("lib/python3.*/site-packages/whisperbatch")
    shutil.rmtree(unpacked / "whisperbatch")
    shutil.copytree(installed, unpacked / "whisperbatch")
    variables = {**os.environ, "WHISPERBATCH_SPEECH": str(ROOT / ".cache" / "speech")}
    variables.pop("PYTHONPATH", None)
    steps = {
        "the unit tests": ["pytest", "-q", "-m", MARKERS, "tests/unit"],
        "the transcription": ["whisperbatch", "doctor", "--model", "tiny.en", "--device", "cpu"],
    }
    failed = [
        step
        for step, words in steps.items()
        if subprocess.run(
            [python, "-m", *words], cwd=unpacked, env=variables, check=False
        ).returncode
    ]
    for step in steps:
        print(f"{step}: {'failed' if step in failed else 'passed'}")  # noqa: T201 - a program
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
