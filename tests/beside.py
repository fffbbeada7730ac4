"""Check that the core installs beside other libraries. pip resolves versions and installs nothing.

    python -m tests.beside whisperx transformers

Each library must resolve to the same version with the core and without it: pip would choose an old
version of the library rather than fail.
"""

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]


def resolve(*requirements: str) -> dict[str, str]:
    """Return the versions that pip would install, by name. Exit if there are none."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.json")
        options = ("--dry-run", "--ignore-installed", "--report", str(report))
        done = subprocess.run(
            [sys.executable, "-m", "pip", "-q", "install", *options, *requirements],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            sys.exit(f"{' + '.join(requirements)}:\n{done.stderr}")
        items = json.loads(report.read_text())["install"]
    packages = (item["metadata"] for item in items)
    return {canonicalize_name(package["name"]): package["version"] for package in packages}


def main() -> None:
    """Compare the version of each library with the core and without it."""
    started = time.monotonic()
    libraries = sys.argv[1:]
    with_core = resolve(str(ROOT), *libraries)
    without_core = resolve(*libraries)
    for name in map(canonicalize_name, libraries):
        if with_core[name] != without_core[name]:
            sys.exit(f"{name} {with_core[name]} with the core, {without_core[name]} without it")
    versions = ", ".join(f"{name} {with_core[canonicalize_name(name)]}" for name in libraries)
    print(f"whisperbatch beside {versions}: {time.monotonic() - started:.0f} s")  # noqa: T201 - a program's output


if __name__ == "__main__":
    main()
