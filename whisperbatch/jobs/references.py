"""The recordings of known speakers as a part of the settings that an output depends on."""

import hashlib
from os import PathLike, fspath
from pathlib import Path
from typing import Final

from whisperbatch.boundary import describe
from whisperbatch.errors import AudioError
from whisperbatch.options import Options
from whisperbatch.text.messages import shown

BLOCK: Final = 2**20  # bytes


def references_fingerprint(options: Options) -> str | None:
    """Return a hash of the names and of the contents of the files in `known_speakers`.

    None if a recording is not a file: a URL, a pipe or an array may change without a trace.

    Raises:
        AudioError: a file cannot be read; the message names the speaker.
    """
    key = hashlib.blake2b(digest_size=16)
    for name, source in sorted((options.known_speakers or {}).items()):
        if not isinstance(source, str | PathLike) or source == "-" or "://" in fspath(source):
            return None
        path = Path(source)
        try:
            if path.exists() and not path.is_file():
                return None
            content = _hash(path)
        except (OSError, ValueError) as error:  # ValueError: a NUL in the path
            problem = "there is no such file; check the path"
            if not isinstance(error, FileNotFoundError):
                problem = f"cannot be read: {describe(error)}"
            raise AudioError(f"known_speakers[{shown(name)}]: {path}: {problem}") from error
        key.update(repr((name, content)).encode())
    return key.hexdigest()


def _hash(path: Path) -> bytes:
    content = hashlib.blake2b(digest_size=16)
    with path.open("rb") as file:
        while block := file.read(BLOCK):
            content.update(block)
    return content.digest()
