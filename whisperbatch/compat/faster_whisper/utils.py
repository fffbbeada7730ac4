"""The functions of faster_whisper.utils that programs use."""

import os
from typing import Final

from whisperbatch.errors import ModelError, OptionError
from whisperbatch.models import HUB_FILES, REPOSITORIES, packaged_model

SECOND: Final = 1000  # ms
MINUTE: Final = 60 * SECOND
HOUR: Final = 60 * MINUTE

__all__ = ["available_models", "download_model", "format_timestamp"]


def available_models() -> list[str]:
    """The names of models."""
    return list(REPOSITORIES)


def download_model(
    size_or_id: str,
    output_dir: str | None = None,
    local_files_only: bool = False,
    cache_dir: str | None = None,
    revision: str | None = None,
    use_auth_token: str | bool | None = None,
) -> str:
    """A directory of a model's weights, fetched from the Hugging Face hub if need be.

    Weights that are installed as a package are fetched from nowhere, unless `output_dir` or
    `revision` ask for a copy of the hub's.

    Args:
        size_or_id: a name out of `available_models()`, or a repository of the hub.
        output_dir: where to put the files, in place of the cache.
        local_files_only: do not fetch anything.
        cache_dir: the hub's cache, if not the usual one.
        revision: branch, tag or commit.
        use_auth_token: the hub's token, or True for the one that is stored.

    Raises:
        OptionError: there is no such name.
        ModelError: the weights cannot be had.
    """
    repository = REPOSITORIES.get(size_or_id, size_or_id)
    if "/" not in repository:
        raise OptionError(f"{size_or_id!r} is no model; there are {', '.join(REPOSITORIES)}")
    if not output_dir and not revision and (installed := packaged_model(size_or_id)):
        return str(installed)
    import huggingface_hub  # noqa: PLC0415 - slow to import, and needed here alone

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
    except Exception as error:  # the hub's client raises many kinds
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        raise ModelError(f"model {size_or_id}: {repository} cannot be had: {reason}") from error


def find(
    name: str | os.PathLike[str],
    *,
    download_root: str | None,
    local_files_only: bool,
    revision: str | None,
    use_auth_token: str | bool | None,
) -> str:
    """What `whisperbatch.load` is to load for a `WhisperModel` with these arguments."""
    text = os.fspath(name)
    told = download_root or local_files_only or revision or use_auth_token
    if os.path.isdir(text) or not told:  # noqa: PTH112 - as it was given
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
    """Seconds as [HH:]MM:SS.mmm.

    Raises:
        OptionError: they are negative.
    """
    if seconds < 0:
        raise OptionError(f"seconds={seconds} is negative; a time is not")
    total = round(seconds * SECOND)
    hours = f"{total // HOUR:02d}:" if always_include_hours or total >= HOUR else ""
    minutes, rest = total % HOUR // MINUTE, total % MINUTE
    return f"{hours}{minutes:02d}:{rest // SECOND:02d}{decimal_marker}{rest % SECOND:03d}"
