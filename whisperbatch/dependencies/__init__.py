"""The packages that whisperbatch calls: the versions that were tested, and changed interfaces.

    tested.py   the newest version of each package that the tests have run with
    changes.py  finds the package whose interface has changed, from the exception of a call
    names.py    compares the names and keywords that whisperbatch uses with the installed packages

Nothing here imports another part of whisperbatch, and only `names.py` imports the packages.
"""

from whisperbatch.dependencies.changes import (
    changed_package,
    import_failure,
    interface_note,
    interface_text,
)
from whisperbatch.dependencies.names import missing_names
from whisperbatch.dependencies.tested import NEWEST, PACKAGES, installed_version, version_bounds

__all__ = [
    "NEWEST",
    "PACKAGES",
    "changed_package",
    "import_failure",
    "installed_version",
    "interface_note",
    "interface_text",
    "missing_names",
    "version_bounds",
]
