"""Names of outputs, and the hashes that tell whether an output or a result is still valid.

    "z" * 251 + ".mp3"   ->   "z" * 233 + "~" + 16 hexadecimal digits + ".json"

Names are short enough for every file system. Ledgers and plans store the hashes. If one of them
changed, finished recordings would be transcribed again (tests/unit/jobs/test_stored_jobs.py).
"""

import hashlib
import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from dataclasses import fields
from os import PathLike, fspath
from pathlib import Path, PurePath, PurePosixPath
from typing import Final
from urllib.parse import unquote, urlsplit

from whisperbatch.addresses import HIDDEN, without_secrets
from whisperbatch.boundary import describe
from whisperbatch.errors import AudioError
from whisperbatch.options import Options
from whisperbatch.text.messages import CONTROLS, shown
from whisperbatch.writers import SubtitleOptions

MAX_NAME: Final = 255
"""Bytes of a file name in UTF-8: the limit of ext4, XFS, Btrfs and ZFS. NTFS and APFS allow as many
UTF-16 units or characters, which are never more than the bytes."""

NAME_HASH_BYTES: Final = 8  # 16 hexadecimal digits; of a billion names, two have the same with 1:40

WITH_KEYS: Final = ("s3", "s3a", "gs", "gcs", "abfs", "abfss", "az", "memory", "file")
"""Stores whose URLs end with the name of an object as it is, with "#", "?", "%" and "::"."""

_NOT_IN_NAMES: Final = re.compile(f"[/\\\\{CONTROLS}]+")


def output_name(name: str, suffix: str) -> str:
    """Return the name of an output: the name and the suffix, shortened if they are too long.

    A hash of the whole name takes the place of the end of a long name. The result depends on
    nothing else, so that a later run on any machine finds the output.

    Args:
        name: without suffix.
        suffix: with the dot.
    """
    encoded = _encode(name)
    if len(encoded) + len(_encode(suffix)) <= MAX_NAME:
        return name + suffix
    ending = f"~{hash_of(name)}{suffix}"
    return _cut(name, MAX_NAME - len(_encode(ending))) + ending


def name_of_url(url: str) -> str:
    """Return the file name in a URL, or its host, without characters that a name cannot have.

    Passwords and signatures are left out.
    """
    shown = without_secrets(url, whole=True)
    if has_key(url):
        name = shown.replace(HIDDEN, "").rstrip("/").rpartition("/")[2]
    else:
        try:
            parts = urlsplit(shown)
        except ValueError:  # FFmpeg will report the malformed URL
            return "recording"
        path = PurePosixPath(parts.path.replace(f";{HIDDEN}", "").removesuffix(HIDDEN))
        name = unquote(path.name) or parts.netloc.rpartition("@")[2]
    name = _NOT_IN_NAMES.sub("_", name)
    return name if name.strip(".") else "recording"


def has_key(url: str) -> bool:
    """Return whether a URL names an object of one of the stores `WITH_KEYS`."""
    return url.partition("://")[0] in WITH_KEYS


def distinct_names(files: Sequence[PurePath], hashes: Sequence[str]) -> list[str]:
    """Return the path of each recording's outputs without their suffix; no two are equal.

    Files whose paths differ only in the suffix keep it. If two paths are still equal, whatever the
    case or the Unicode form of their letters, the hashes are added to both.

    Args:
        files: for each recording, the folder of the outputs and the file name of the recording.
        hashes: for each recording, a text that no other recording has.
    """
    stems = [
        str(file.parent / (file.stem if file.stem.strip(".") else file.name)) for file in files
    ]
    stems = _unless_unique(stems, [str(file) for file in files])
    hashed = [f"{stem}~{hash_}" for stem, hash_ in zip(stems, hashes, strict=True)]
    return _unless_unique(stems, hashed)


def hash_of(text: str) -> str:
    """Return 16 hexadecimal digits for a path or URL."""
    return _hash(_encode(text), NAME_HASH_BYTES)


def _unless_unique(names: list[str], longer: list[str]) -> list[str]:
    keys = list(map(_without_variants, names))
    counts = Counter(keys)
    return [
        long if counts[key] > 1 else name
        for key, name, long in zip(keys, names, longer, strict=True)
    ]


def _without_variants(name: str) -> str:
    """Return a text that is equal for names that a file system can take for the same name.

    NTFS and APFS take letters of both cases for equal, and APFS takes "é" for "e" with an accent.
    """
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).casefold())


def _cut(text: str, limit: int) -> str:
    """Return the longest beginning of the text whose UTF-8 has at most `limit` bytes."""
    length = 0
    for index, character in enumerate(text):
        length += len(_encode(character))
        if length > limit:
            return text[:index]
    return text


def _encode(text: str) -> bytes:
    """Return a file name in UTF-8; bytes that are not UTF-8 stay as they are."""
    return text.encode("utf-8", "surrogateescape")


BLOCK: Final = 2**20  # bytes
HASH_BYTES: Final = 16
NOT_HASHED: Final = ("batch_size", "readers", "reader_processes", "known_speakers")
NEW_OPTIONS: Final[frozenset[str]] = frozenset()
"""Options that are hashed only if they are set. A new option belongs here: then the hashes of jobs
and plans that older versions have made stay as they are."""


def digest(*parts: object) -> str:
    """Return a hash of the values that an output depends on.

    The batch size, and the number and the processes of readers, are left out of `Options`, because
    they do not change the text. The recordings of known speakers are left out, too: add their
    `references_fingerprint`.
    """
    return _hash(f"[{', '.join(map(_text, parts))}]".encode())


def _text(part: object) -> str:
    """Return a value as `repr` writes it; options as they were written in the first version."""
    if isinstance(part, Options):
        return repr(_hashed(part))
    if isinstance(part, SubtitleOptions):
        return part.key
    if type(part) is list:
        return f"[{', '.join(map(_text, part))}]"
    if type(part) is tuple:
        return f"({', '.join(map(_text, part))}{',' if len(part) == 1 else ''})"
    return repr(part)


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


def _hash(data: bytes, size: int = HASH_BYTES) -> str:
    return hashlib.blake2b(data, digest_size=size).hexdigest()


def _hash_of_file(path: Path) -> bytes:
    content = hashlib.blake2b(digest_size=HASH_BYTES)
    with path.open("rb") as file:
        while block := file.read(BLOCK):
            content.update(block)
    return content.digest()
