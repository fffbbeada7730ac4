"""Run faster-whisper's own tests on faster-whisper and on the drop-in, with the same weights.

    python -m benchmarks.drop_in CHECKOUT -k stereo

CHECKOUT is a directory with faster-whisper's repository, of which `tests` is read. The tests are
copied to a temporary directory, where "tiny" becomes the base model, and for the drop-in also the
imports change. Nothing is downloaded. Further arguments are pytest's. The status is 1 if a test
fails with the drop-in that passes with faster-whisper.
"""

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from xml.etree import ElementTree as ET

from whisperbatch.models import find_model

PACKAGES = ("faster_whisper", "whisperbatch.compat.faster_whisper")
MODELS = {"tiny": "base", "tiny.en": "tiny.en"}
"""The model of a test, and the model that is installed as a package."""


def adapt(source: str, package: str) -> str:
    """Return a test's source for a package, with directories instead of the names of models."""
    for name, installed in MODELS.items():
        source = source.replace(f'WhisperModel("{name}"', f'WhisperModel("{find_model(installed)}"')
    return source.replace("from faster_whisper", f"from {package}")


def run_tests(checkout: Path, package: str, pytest_arguments: list[str]) -> dict[str, bool]:
    """Return the names of the tests, and whether each test passes."""
    with TemporaryDirectory() as directory:
        tests = Path(directory) / "tests"
        shutil.copytree(checkout / "tests", tests)
        for path in tests.glob("*.py"):
            path.write_text(adapt(path.read_text(encoding="utf-8"), package), encoding="utf-8")
        report = Path(directory) / "report.xml"
        environment = {
            **os.environ,
            "HF_HUB_OFFLINE": "1",
            "PYTHONPATH": str(Path(__file__).parents[1]),
        }
        command = [sys.executable, "-m", "pytest", "-q", f"--rootdir={tests}", str(tests)]
        subprocess.run(
            [*command, f"--junit-xml={report}", *pytest_arguments],
            cwd=directory,
            env=environment,
            check=False,
        )
        if not report.is_file():
            sys.exit(f"{package}: pytest wrote no report")
        cases = ET.parse(report).getroot().iter("testcase")  # noqa: S314 - written above
        failures = ("failure", "error")
        return {
            f"{case.get('classname')}.{case.get('name')}": not any(map(case.findall, failures))
            for case in cases
        }


def main() -> None:
    """Print which tests pass with each package."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("checkout", type=Path, help="directory of faster-whisper's repository")
    arguments, pytest_arguments = parser.parse_known_args()
    if not (arguments.checkout / "tests").is_dir():
        parser.error(f"{arguments.checkout} has no directory tests")
    theirs, ours = (run_tests(arguments.checkout, name, pytest_arguments) for name in PACKAGES)
    print("| test | faster-whisper | drop-in |\n|---|---|---|")
    for name in sorted(theirs | ours):
        results = ("passes" if tests.get(name) else "fails" for tests in (theirs, ours))
        print(f"| {name} | {' | '.join(results)} |")
    print(f"| all {len(theirs)} | {sum(theirs.values())} pass | {sum(ours.values())} pass |")
    if lost := [name for name, passes in theirs.items() if passes and not ours.get(name)]:
        sys.exit(f"only with faster-whisper: {', '.join(lost)}")


if __name__ == "__main__":
    main()
