"""Revisions of models on the Hugging Face hub: a commit, a branch or a tag of a repository.

The hub's cache has a folder for each commit that was loaded:

    models--Systran--faster-whisper-base/snapshots/ebe41f70d5b6dfa9166e2c581c45c9c0cfc57b66/
"""

import re
from pathlib import Path
from typing import Final

from whisperbatch.errors import OptionError

_COMMIT: Final = re.compile("[0-9a-f]{40}|[0-9a-f]{64}")


def loaded_revision(directory: Path) -> str | None:
    """Return the commit of a model in the hub's cache; None if the model is somewhere else."""
    parts = directory.parts[-3:]
    if len(parts) < 3 or parts[1] != "snapshots" or not parts[0].startswith("models--"):  # noqa: PLR2004 - repository, "snapshots" and commit
        return None
    return parts[2] if _COMMIT.fullmatch(parts[2]) else None


def refuse_revision(revision: str | None, place: str) -> None:
    """Refuse a revision for a model that does not come from the hub.

    Args:
        revision: as given; None is accepted.
        place: where the model is, and what to do.

    Raises:
        OptionError: there is a revision.
    """
    if revision is not None:
        raise OptionError(
            f"revision={revision!r} selects a version on the Hugging Face hub, but {place}"
        )
