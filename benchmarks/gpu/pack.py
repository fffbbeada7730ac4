"""The folder to bring to a machine without network; `wheels` runs from such a folder.

    FOLDER/wheels/*.whl     packages for the machine's Python, compressed again
    FOLDER/speech.flac      some minutes of speech

PyPI's wheels of CTranslate2 and PyAV together are larger than 64 MiB. A wheel is a zip file, and
LZMA, which Python's own zipfile and pip read, makes these two a third smaller. Silero's weights
are in faster-whisper's wheel. PyTorch, NumPy, onnxruntime, onnx and tokenizers must be there.
"""

import subprocess
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from benchmarks import recordings
from benchmarks.gpu.wheels import SPEECH, WHEELS

LIMIT: Final = 64 << 20  # bytes of all files
PYTHON: Final = "3.12"
PACKAGES: Final = ("ctranslate2", "av", "faster-whisper")
PLATFORMS: Final = tuple(
    f"{name}_x86_64"
    for name in ("manylinux_2_28", "manylinux_2_27", "manylinux_2_17", "manylinux2014")
)
SPEECH_SECONDS: Final = 180.0


class PackError(RuntimeError):
    """The folder cannot be made; the message says why."""


def pack(folder: Path, packages: Sequence[str] = PACKAGES, python: str = PYTHON) -> int:
    """Write the folder, and return its size in bytes.

    Args:
        folder: must not exist, or be empty.
        packages: names of the packages to bring.
        python: version of the machine's Python.

    Raises:
        PackError: a package cannot be downloaded, or the files are larger than `LIMIT`.
    """
    if folder.exists() and any(folder.iterdir()):
        raise PackError(f"{folder} is not empty; give a new folder")
    wheels = folder / WHEELS
    wheels.mkdir(parents=True, exist_ok=True)
    download(wheels, packages, python)
    for wheel in sorted(wheels.glob("*.whl")):
        compress(wheel)
    recordings.write(recordings.prompts("en", SPEECH_SECONDS), folder / SPEECH)
    return check_size(folder)


def download(wheels: Path, packages: Sequence[str], python: str) -> None:
    """Download wheels for Linux on x86-64, without their dependencies.

    Raises:
        PackError: pip failed.
    """
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
    command += ["--disable-pip-version-check", "--only-binary=:all:", "--implementation=cp"]
    command += [f"--python-version={python}", *(f"--platform={name}" for name in PLATFORMS)]
    done = subprocess.run(
        [*command, f"--dest={wheels}", *packages], capture_output=True, text=True, check=False
    )
    if done.returncode:
        lines = done.stderr.strip().splitlines() or ["pip failed"]
        raise PackError(lines[-1])


def compress(wheel: Path) -> None:
    """Compress a wheel with LZMA; pip and `wheels` read it as before."""
    part = wheel.with_suffix(".part")
    with zipfile.ZipFile(wheel) as old, zipfile.ZipFile(part, "w", zipfile.ZIP_LZMA) as new:
        for entry in old.infolist():
            new.writestr(entry.filename, old.read(entry))
    part.replace(wheel)


def check_size(folder: Path, limit: int = LIMIT) -> int:
    """Return the size of all files in bytes.

    Raises:
        PackError: it is above the limit; the message names the largest files.
    """
    sizes = {path: path.stat().st_size for path in folder.rglob("*") if path.is_file()}
    total = sum(sizes.values())
    if total > limit:
        largest = sorted(sizes, key=sizes.__getitem__, reverse=True)[:3]
        names = ", ".join(f"{path.name} ({sizes[path] / (1 << 20):.1f} MiB)" for path in largest)
        raise PackError(
            f"{folder} has {total / (1 << 20):.1f} MiB, more than {limit / (1 << 20):.0f}; the "
            f"largest files: {names}"
        )
    return total
