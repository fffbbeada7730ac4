"""Checks of the folders that whisperbatch writes to: two caches, and the temporary files.

Missing rights or space are warnings: with its weights at hand, whisperbatch transcribes without
writing. If the weights cannot be stored, the check of the weights reports a problem.
"""

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from whisperbatch.doctor.findings import Finding
from whisperbatch.doctor.processes import run_probe

MIN_FREE: Final = {"huggingface": 1_000_000_000, "whisperbatch": 300_000_000, "temporary": 10**8}
"""Bytes. The weights of small take 490 MB in the Hugging Face cache. In whisperbatch's own cache,
the weights of base take 144 MB, and its graphs of OpenVINO 79 MB."""
PURPOSES: Final = {
    "huggingface": "the cache of downloaded models",
    "whisperbatch": "the cache of whisperbatch",
    "temporary": "the folder for temporary files",
}
VARIABLES: Final = {
    "huggingface": "HF_HUB_CACHE",
    "whisperbatch": "WHISPERBATCH_CACHE",
    "temporary": "TMPDIR",
}
"""The environment variable that chooses another folder."""


def check_storage(time_limit: float) -> Iterator[Finding]:
    """Check the rights and the free space of all folders.

    Args:
        time_limit: seconds to find the folders.
    """
    result = run_probe("find_folders", time_limit=time_limit)
    if result.failure:
        yield Finding(
            "warning", "storage", f"the caches are not found: {result.failure}", result.fix
        )
    for kind, folder in result.values.items():
        yield check_folder(kind, Path(folder))
    try:
        temporary = Path(tempfile.gettempdir())
    except OSError as error:  # no folder is writable
        yield Finding(
            "warning",
            "storage",
            f"no folder for temporary files is writable ({error.strerror or error})",
            "free space on the disk, or set TMPDIR to a writable directory",
        )
    else:
        yield check_folder("temporary", temporary)


def check_folder(kind: str, folder: Path) -> Finding:
    """Check that files can be created in a folder, or in the parent that it will be created in.

    Args:
        kind: key of `PURPOSES`.
        folder: the folder, which need not exist.
    """
    name = f"{PURPOSES[kind]}, {folder},"
    other = f"set {VARIABLES[kind]} to a directory on another disk"
    parent = next(path for path in (folder, *folder.parents) if os.path.lexists(path))
    try:
        with tempfile.TemporaryFile(dir=parent) as file:
            file.write(bytes(1 << 16))
            file.flush()
            os.fsync(file.fileno())
        free = shutil.disk_usage(parent).free
    except OSError as error:
        return Finding(
            "warning",
            "storage",
            f"{name} cannot be written ({error.strerror or error})",
            f"make {parent} writable and free space on its disk, or {other}",
        )
    measured = {"free_bytes": float(free)}
    if free < MIN_FREE[kind]:
        return Finding(
            "warning",
            "storage",
            f"{name} has only {free / 1e6:.0f} MB of free space",
            f"free space, or {other}",
            measured=measured,
        )
    message = f"{name} is writable and has {free / 1e9:.1f} GB of free space"
    return Finding("ok", "storage", message, measured=measured)
