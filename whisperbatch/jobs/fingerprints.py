"""Hashes of everything that an output or a result depends on, and ids that are such hashes.

They are stored in ledgers and plans. If one of them changed, finished recordings would be
transcribed again (tests/unit/jobs/test_stored_jobs.py).
"""

import hashlib
from dataclasses import fields
from os import PathLike, fspath
from pathlib import Path
from typing import Final

from whisperbatch.boundary import describe
from whisperbatch.errors import AudioError
from whisperbatch.options import Options
from whisperbatch.text.messages import shown

BLOCK: Final = 2**20  # bytes
HASH_BYTES: Final = 16
NOT_HASHED: Final = ("batch_size", "known_speakers")
NEW_OPTIONS: Final[frozenset[str]] = frozenset()
"""Options that are hashed only if they are set. A new option belongs here: then the hashes of jobs
and plans that older versions have made stay as they are."""


def digest(*parts: object) -> str:
    """Return a hash of the values that an output depends on.

    The batch size is left out of `Options`, because it does not change the text. The recordings of
    known speakers are left out, too: add their `references_fingerprint`.
    """
    values = [_hashed(part) if isinstance(part, Options) else part for part in parts]
    return _hash(repr(values).encode())


def _hashed(options: Options) -> list[tuple[str, object]]:
    """Return the names and values of options that are hashed, in the order of their declaration."""
    values = [
        (field.name, getattr(options, field.name), field.default) for field in fields(options)
    ]
    return [
        (name, value)
        for name, value, default in values
        if name not in NOT_HASHED and (name not in NEW_OPTIONS or value != default)
    ]


def make_id(*parts: object) -> str:
    """Return the id of a recording, span or task of a plan: a hash of these parts."""
    return _hash(repr(parts).encode())


def references_fingerprint(options: Options) -> str | None:
    """Return a hash of the names and of the contents of the files in `known_speakers`.

    None if a recording is not a file: a URL, a pipe or an array may change without a trace.

    Raises:
        AudioError: a file cannot be read; the message names the speaker.
    """
    contents = b""
    for name, source in sorted((options.known_speakers or {}).items()):
        if not isinstance(source, str | PathLike) or source == "-" or "://" in fspath(source):
            return None
        path = Path(source)
        try:
            if path.exists() and not path.is_file():
                return None
            content = _hash_of_file(path)
        except (OSError, ValueError) as error:  # ValueError: a NUL in the path
            problem = "there is no such file; check the path"
            if not isinstance(error, FileNotFoundError):
                problem = f"cannot be read: {describe(error)}"
            raise AudioError(f"known_speakers[{shown(name)}]: {path}: {problem}") from error
        contents += repr((name, content)).encode()
    return _hash(contents)


def _hash(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=HASH_BYTES).hexdigest()


def _hash_of_file(path: Path) -> bytes:
    content = hashlib.blake2b(digest_size=HASH_BYTES)
    with path.open("rb") as file:
        while block := file.read(BLOCK):
            content.update(block)
    return content.digest()
