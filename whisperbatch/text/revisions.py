"""Names of revisions on the Hugging Face hub: commits, branches and tags."""

import re
from typing import Final

from whisperbatch.errors import OptionError
from whisperbatch.text.messages import shown

MAX_REVISION: Final = 255  # characters: git's limit for the name of a branch on most systems

_NAME: Final = re.compile(r"(?!.*\.\.)[\w+@-][\w.+@-]*(/[\w+@-][\w.+@-]*)*")


def check_revision(revision: object) -> None:
    """Check that a value is the name of a commit, branch or tag, or None.

    Raises:
        OptionError: the value is something else.
    """
    if revision is None:
        return
    if type(revision) is not str or len(revision) > MAX_REVISION or not _NAME.fullmatch(revision):
        raise OptionError(
            f"revision={shown(revision)} is not the name of a commit, branch or tag of the Hugging "
            "Face hub"
        )
