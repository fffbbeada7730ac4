"""The functions of faster_whisper.utils that programs use."""

import logging
import os
from typing import Final

from whisperbatch.boundary import hide_secrets
from whisperbatch.compat.faster_whisper._values import originals
from whisperbatch.errors import ModelError, OptionError
from whisperbatch.limits import MAX_DURATION
from whisperbatch.models import HUB_FILES, REPOSITORIES, packaged_model
from whisperbatch.options import checks, plain
from whisperbatch.text import shown
from whisperbatch.writers import clock

MAX_NAME: Final = 1000  # characters of the name of a repository, a revision or a token

__all__ = ["available_models", "download_model", "format_timestamp", "get_logger"]

_MODELS = REPOSITORIES
__getattr__ = originals(__name__, "disabled_tqdm", "get_assets_path", "get_end")


def get_logger() -> logging.Logger:
    """Return whisperbatch's logger, which is called "whisperbatch"."""
    return logging.getLogger("whisperbatch")


def available_models() -> list[str]:
    """Return the names of the models."""
    return list(REPOSITORIES)


def download_model(
    size_or_id: str,
    output_dir: str | None = None,
    local_files_only: bool = False,
    cache_dir: str | None = None,
    revision: str | None = None,
    use_auth_token: str | bool | None = None,
) -> str:
    """Return the directory of a model's weights; download them from the Hugging Face hub if needed.

    Weights that are installed as a package are used without a download, unless `output_dir` or
    `revision` is given.

    Args:
        size_or_id: a name from `available_models()`, or a repository of the hub.
        output_dir: directory for the files; by default they stay in the hub's cache.
        local_files_only: do not download anything.
        cache_dir: the directory of the hub's cache, instead of the default directory.
        revision: branch, tag or commit.
        use_auth_token: the hub's token, or True for the stored token.

    Raises:
        OptionError: the name is unknown.
        ModelError: the weights cannot be downloaded, or are not there with `local_files_only`.
    """
    checks.text("size_or_id", plain(size_or_id), max_length=MAX_NAME)
    _check_hub_arguments(
        output_dir=output_dir,
        local_files_only=local_files_only,
        cache_dir=cache_dir,
        revision=revision,
        use_auth_token=use_auth_token,
    )
    repository = REPOSITORIES.get(size_or_id, size_or_id)
    if "/" not in repository:
        raise OptionError(
            f"size_or_id={shown(size_or_id)} is not a model; choose one of "
            f"{', '.join(REPOSITORIES)}"
        )
    if not output_dir and not revision and (installed := packaged_model(size_or_id)):
        return str(installed)
    import huggingface_hub  # noqa: PLC0415 - slow to import, and only needed here

    try:
        return str(
            huggingface_hub.snapshot_download(
                repository,
                allow_patterns=list(HUB_FILES),
                local_dir=output_dir,
                local_files_only=local_files_only,
                cache_dir=cache_dir,
                revision=revision,
                token=use_auth_token,
            )
        )
    except Exception as error:  # the hub's client raises many types
        hide_secrets(error)
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        raise ModelError(f"model {size_or_id}: cannot get {repository}: {reason}") from error


def _check_hub_arguments(
    *, local_files_only: object, revision: object, use_auth_token: object, **directories: object
) -> None:
    if local_files_only is not None:
        checks.boolean("local_files_only", plain(local_files_only))
    for name, directory in directories.items():
        if directory is not None:
            checks.path(name, directory)
    if revision is not None:
        checks.text("revision", plain(revision), max_length=MAX_NAME)
    token = plain(use_auth_token)
    if token is not None and type(token) is not bool:
        checks.text("use_auth_token", token, max_length=MAX_NAME)


def model_to_load(
    name: str | os.PathLike[str],
    *,
    download_root: str | None,
    local_files_only: bool,
    revision: str | None,
    use_auth_token: str | bool | None,
) -> str:
    """Return the name or directory that `whisperbatch.load` loads for these arguments."""
    checks.path("model_size_or_path", name)
    _check_hub_arguments(
        download_root=download_root,
        local_files_only=local_files_only,
        revision=revision,
        use_auth_token=use_auth_token,
    )
    text = os.fspath(name)
    if revision and os.path.isdir(text):  # noqa: PTH112 - see below
        raise OptionError(
            f"revision={shown(revision)} selects a version on the Hugging Face hub, but {text} is "
            "a directory; leave revision out"
        )
    hub_arguments = download_root or local_files_only or revision or use_auth_token
    if os.path.isdir(text) or not hub_arguments:  # noqa: PTH112 - returned unchanged
        return text
    return download_model(
        text,
        local_files_only=local_files_only,
        cache_dir=download_root,
        revision=revision,
        use_auth_token=use_auth_token,
    )


def format_timestamp(
    seconds: float, always_include_hours: bool = False, decimal_marker: str = "."
) -> str:
    """Return a time as [HH:]MM:SS.mmm.

    Raises:
        OptionError: the time is negative, or not a number.
    """
    limit = MAX_DURATION
    checks.number("seconds", plain(seconds), minimum=-limit, maximum=limit)
    if seconds < 0:
        raise OptionError(f"seconds={seconds} is negative; give a time from 0")
    text = clock(round(float(seconds) * 1000), decimal_marker)
    return text if always_include_hours else text.removeprefix("00:")
