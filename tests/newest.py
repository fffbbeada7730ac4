"""Test the newest versions of all dependencies on each Python of this machine.

    python -m tests.newest                 each interpreter from 3.10 to 3.14
    python -m tests.newest 3.12 3.13       these only

An interpreter is looked for on PATH, then among the versions of pyenv. Each gets a new environment
`.venv-newest-X.Y`, in which pip chooses the newest version of each package that has a build for
this Python: nothing is capped, and no list of versions is kept. (The newest versions differ: PyAV
19 needs Python 3.12, so 3.11 gets PyAV 18.) There run the unit tests, which include those of the
audio, and `whisperbatch doctor`, which transcribes a recording with real weights on each engine.

The exit status is 1 if a step fails, or if there is no interpreter. Versions that were skipped are
named, and so are packages that are newer than whisperbatch/dependencies.py says.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from packaging.version import Version

from whisperbatch.dependencies import NEWEST

ROOT = Path(__file__).parents[1]
VERSIONS = ("3.10", "3.11", "3.12", "3.13", "3.14")
PARALLEL = ("-q", "-n", "2", "--dist", "loadfile")
MARKERS = "not kaldi and not torch and not ray and not slow"
TESTS = ("tests/unit",)
DOCTOR = ("doctor", "--model", "tiny.en", "--device", "cpu")


def find_interpreter(version: str) -> Path | None:
    """Return an interpreter of a version that starts; None if there is none.

    pyenv puts programs on PATH for versions that are installed but not selected: they fail.
    """
    home = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    candidates: list[str | Path | None] = [shutil.which(f"python{version}")]
    candidates += sorted(home.glob(f"versions/{version}.*/bin/python"))
    check = f"import sys, venv, ensurepip; sys.exit(sys.version_info[:2] != {_numbers(version)})"
    for path in candidates:
        if path is not None and not _run([path, "-c", check], quiet=True):
            return Path(path)
    return None


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


def check_newest(interpreter: Path, version: str) -> str:
    """Install the newest versions and run the tests; return the step that failed, or "".

    Args:
        interpreter: of the new environment.
        version: its version, such as "3.13".
    """
    folder = ROOT / f".venv-newest-{version}"
    python = folder / "bin/python"
    pip: list[str | Path] = [python, "-m", "pip", "--disable-pip-version-check", "-q", "install"]
    newest = ("--upgrade", "--upgrade-strategy", "eager")
    steps: dict[str, list[str | Path]] = {
        "the environment": [interpreter, "-m", "venv", "--clear", folder],
        "the installation": [*pip, *newest, "-e", f"{ROOT}[test]"],
        "the tests": [python, "-m", "pytest", *PARALLEL, "-m", MARKERS, *TESTS],
        "the transcription": [python, "-m", "whisperbatch", *DOCTOR],
    }
    for step, command in steps.items():
        if _run(command):
            return step
    report_versions(_installed(python))
    return ""


def report_versions(installed: Iterable[tuple[str, str]]) -> None:
    """Print the versions that are newer than those in whisperbatch/dependencies.py.

    Args:
        installed: names and versions of packages.
    """
    for name, number in installed:
        tested = NEWEST.get(name.lower().replace("_", "-"))
        if tested and Version(number) > Version(tested):
            print(f"{name} {number} passed: write it into whisperbatch/dependencies.py")  # noqa: T201 - a program


def _installed(python: Path) -> list[tuple[str, str]]:
    pip = [str(python), "-m", "pip", "--disable-pip-version-check"]
    command = [*pip, "list", "--format=json"]
    items = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    return [(item["name"], item["version"]) for item in items]


def _run(command: list[str | Path], *, quiet: bool = False) -> int:
    """Return the exit status of a command, which runs in the root of the project."""
    output = subprocess.DEVNULL if quiet else None
    environment = {**os.environ, "HF_HUB_OFFLINE": "1"}
    # pip and pytest must find their own packages
    environment.pop("PYTHONPATH", None)
    done = subprocess.run(
        command, cwd=ROOT, env=environment, stdout=output, stderr=output, check=False
    )
    return done.returncode


def main(versions: list[str]) -> int:
    """Test each version, and return the exit status."""
    outcomes: dict[str, str] = {}
    for version in versions or VERSIONS:
        interpreter = find_interpreter(version)
        if interpreter is None:
            outcomes[version] = "skipped: there is no interpreter"
            continue
        print(f"Python {version}: {interpreter}", flush=True)  # noqa: T201 - a program
        failed = check_newest(interpreter, version)
        outcomes[version] = f"{failed} failed" if failed else "passed"
    for version, outcome in outcomes.items():
        print(f"newest dependencies on Python {version}: {outcome}")  # noqa: T201 - a program
    results = set(outcomes.values())
    return int("passed" not in results or any(result.endswith("failed") for result in results))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
