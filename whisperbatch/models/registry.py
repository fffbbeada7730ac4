"""From a model's name to a directory of its weights, checked before it is used.

A name is looked for, in this order, as

    a directory        of the user's own
    a package          that ships the weights and is installed: see packaged.py
    a cached snapshot  in the local Hugging Face cache
    the hub            unless HF_HUB_OFFLINE is set
"""

import difflib
import json
import logging
import os
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final, Literal

from whisperbatch.errors import ModelError
from whisperbatch.models.model_bin import check_weights
from whisperbatch.models.packages import PACKAGES, package_folders, packaged_model

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

SAVED_FILES: Final = (
    "model.safetensors",
    "model.safetensors.index.json",
    "model-*.safetensors",
    "generation_config.json",
)
"""What a repository in transformers' form has, beside its config.json and tokenizer.json."""

LAST_TOKEN: Final = b"<|30.00|>"  # the end of Whisper's window


def available_models() -> tuple[str, ...]:
    """The names that `load` knows, sorted. A directory or a hub repository will do as well."""
    return tuple(sorted(REPOSITORIES))


def where_is(name: str) -> tuple[Literal["installed", "cached", "hub"], Path | None]:
    """Where a model of the list would come from, and its directory if it is here already.

    A packaged one is put together when it is first loaded; it has a directory of its own then.
    """
    if name in PACKAGES and package_folders(PACKAGES[name]) is not None:
        return "installed", None
    import huggingface_hub  # noqa: PLC0415 - slow to import, and needed here alone

    found = huggingface_hub.try_to_load_from_cache(REPOSITORIES[name], "model.bin")
    if isinstance(found, str):
        return "cached", Path(found).parent
    return "hub", None


def find_model(
    name: str | os.PathLike[str], *, cache_dir: Path | None = None, transformers: bool = False
) -> Path:
    """A directory with model.bin, config.json, tokenizer.json and vocabulary.json or .txt.

    Args:
        name: a directory, a name out of `available_models()`, or a repository of the hub. Of a
            name out of the list, a directory without a model.bin does not stand in the way.
        cache_dir: where packaged weights are put together; by default $WHISPERBATCH_CACHE,
            $XDG_CACHE_HOME/whisperbatch or ~/.cache/whisperbatch.
        transformers: whether one with *.safetensors, config.json and tokenizer.json, as
            transformers saves it, will do as well.

    Raises:
        ModelError: it is not to be found, or one of its files is missing or damaged; the message
            names the file and the mend.
    """
    text = os.fspath(name) if isinstance(name, str | os.PathLike) else ""
    if not isinstance(text, str) or not text or "\0" in text:
        raise ModelError(f"model={name!r} is no name; give one such as 'base', or a directory")
    try:
        if (own := _directory(name, Path(text))) is not None:
            log.info("model %s: a directory", text)
            return check_directory(own, transformers=transformers)
        if (installed := packaged_model(text, cache_dir)) is not None:
            log.info("model %s: installed as a package, in %s", text, installed)
            return check_directory(installed)
    except OSError as error:  # a folder that may not be entered, a name that is too long
        raise ModelError(f"model={text!r} cannot be read: {error.strerror or error}") from error
    return _from_hub(text, transformers=transformers)


def _directory(name: str | os.PathLike[str], path: Path) -> Path | None:
    """The directory that the user has named; None where it is a name to look for elsewhere."""
    if path.parts[:1] == ("~",):
        path = path.expanduser()
    if path.is_file():
        raise ModelError(f"{path}: is a file; give the directory that it lies in")
    if path.is_dir():
        known = isinstance(name, str) and name in REPOSITORIES
        return None if known and not (path / "model.bin").exists() else path
    if not isinstance(name, str) or path.is_absolute() or name.startswith((".", "~")):
        raise ModelError(f"model={str(path)!r}: there is no such directory")
    return None


def check_directory(directory: Path, *, transformers: bool = False) -> Path:
    """The directory, if it holds whole CTranslate2 weights and what goes with them.

    With `transformers`, also one in its form, the weights of which are not looked at here.

    Raises:
        ModelError: it does not.
    """
    weights = directory / "model.bin"
    if not weights.is_file():
        saved = any(directory.glob("model*.safetensors"))
        if transformers and saved:
            _check_json(directory / "config.json", dict)
            _check_json(directory / "tokenizer.json", dict)
            return directory
        if saved or any(directory.glob("pytorch_model*.bin")):
            either = 'load them with engine="torch", or ' if saved else ""
            raise ModelError(
                f"{directory}: holds weights for transformers; {either}convert them: "
                f"ct2-transformers-converter --model {directory} --output_dir {directory}-ct2 "
                "--copy_files tokenizer.json preprocessor_config.json"
            )
        raise ModelError(f"{weights}: is missing; a model is a directory of CTranslate2 weights")
    check_weights(weights)
    _check_json(directory / "config.json", dict)
    _check_json(directory / "tokenizer.json", dict)
    if (directory / "vocabulary.json").exists():
        _check_json(directory / "vocabulary.json", list)
    elif (directory / "vocabulary.txt").is_file():
        # nothing else tells whether it is whole: the converter writes the timestamps last
        if LAST_TOKEN not in (directory / "vocabulary.txt").read_bytes():
            raise ModelError(f"{directory / 'vocabulary.txt'}: is cut short; fetch it again")
    else:
        raise ModelError(f"{directory / 'vocabulary.json'}: is missing; fetch the model again")
    return directory


def _check_json(path: Path, kind: type) -> None:
    try:
        found = json.loads(path.read_bytes())
    except FileNotFoundError as error:
        raise ModelError(f"{path}: is missing; copy it from where the model comes from") from error
    except (OSError, ValueError, RecursionError) as error:
        raise ModelError(f"{path}: is damaged ({error}); fetch it again") from error
    if not isinstance(found, kind):
        raise ModelError(f"{path}: holds something else than it should; fetch it again")


def _from_hub(name: str, *, transformers: bool) -> Path:
    """A snapshot of the hub's repository: the one in the local cache, else it is fetched."""
    repository = REPOSITORIES.get(name, name)
    if "/" not in repository:
        raise _unknown(name)
    from huggingface_hub import constants  # noqa: PLC0415 - slow to import, and needed here alone
    from huggingface_hub.errors import (  # noqa: PLC0415
        HFValidationError,
        LocalEntryNotFoundError,
    )

    offline = constants.HF_HUB_OFFLINE
    try:
        found = _snapshot(repository, transformers=transformers, local=True)
        log.info("model %s: %s in the Hugging Face cache", name, repository)
        return _check_snapshot(found, transformers=transformers)
    except ModelError as error:  # an interrupted download can be completed
        if offline:
            raise
        log.warning("%s", error)
    except LocalEntryNotFoundError as error:
        if offline:
            raise ModelError(
                f"model {name} is not in the Hugging Face cache and HF_HUB_OFFLINE is set; "
                + (_extra(name) or "unset it, or fetch the model where there is a network")
            ) from error
    except HFValidationError as error:
        raise ModelError(f"model={name!r} is neither a directory nor a repository") from error
    except Exception as error:
        raise ModelError(f"model {name}: Hugging Face cache: {_reason(error)}") from error
    log.info("model %s: fetching %s from the Hugging Face hub", name, repository)
    try:
        found = _snapshot(repository, transformers=transformers, local=False)
    except Exception as error:
        mend = _extra(name) or "check the name and the network"
        raise ModelError(
            f"model {name}: {repository} cannot be fetched: {_reason(error)}; {mend}"
        ) from error
    return _check_snapshot(found, transformers=transformers)


def _snapshot(repository: str, *, transformers: bool, local: bool) -> Path:
    import huggingface_hub  # noqa: PLC0415

    wanted = [*HUB_FILES, *(SAVED_FILES if transformers else ())]
    return Path(
        huggingface_hub.snapshot_download(repository, allow_patterns=wanted, local_files_only=local)
    )


def _check_snapshot(snapshot: Path, *, transformers: bool) -> Path:
    """As `check_directory`; the hub's cache never replaces a file it has, so that is the mend."""
    try:
        return check_directory(snapshot, transformers=transformers)
    except ModelError as error:
        raise ModelError(f"{error} (delete {snapshot.parents[1]} first)") from error


def _unknown(name: str) -> ModelError:
    near = difflib.get_close_matches(name.lower(), REPOSITORIES, n=3)
    mean = f"did you mean {' or '.join(near)}? " if near else ""
    return ModelError(
        f"model={name!r} is neither a directory nor a known name; {mean}"
        f"There are {', '.join(available_models())}"
    )


def _extra(name: str) -> str | None:
    return f'pip install "whisperbatch[models]" brings {name}' if name in PACKAGES else None


def _reason(error: Exception) -> str:
    """A dependency's message, cut to its first line."""
    return next(iter(str(error).strip().splitlines()), type(error).__name__)
