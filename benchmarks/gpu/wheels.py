"""Packages out of a folder of wheels, without pip and without the packages themselves."""

import zipfile
from pathlib import Path
from typing import Final

WHEELS: Final = "wheels"
SPEECH: Final = "speech.flac"


class WheelsError(RuntimeError):
    """The folder cannot be used; the message says why."""


def unpack(folder: Path, target: Path) -> None:
    """Unpack the wheels of a folder into a directory for PYTHONPATH.

    Raises:
        WheelsError: the folder has no wheels, or one is damaged.
    """
    wheels = sorted((folder / WHEELS).glob("*.whl"))
    if not wheels:
        raise WheelsError(f"{folder / WHEELS} has no wheels; make the folder with --pack")
    for wheel in wheels:
        try:
            with zipfile.ZipFile(wheel) as file:
                file.extractall(target)
        except (OSError, zipfile.BadZipFile) as error:
            raise WheelsError(f"{wheel}: {error}; make the folder again with --pack") from error


def speech_of(folder: Path) -> Path | None:
    """Return the recording of a folder; None if it has none."""
    path = folder / SPEECH
    return path if path.exists() else None
