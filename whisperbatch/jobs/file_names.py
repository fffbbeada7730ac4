"""File names of outputs: of URLs, and short enough for every file system.

"z" * 251 + ".mp3"   ->   "z" * 233 + "~" + 16 hexadecimal digits + ".json"
"""

import hashlib
import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from pathlib import PurePath, PurePosixPath
from typing import Final
from urllib.parse import unquote, urlsplit

from whisperbatch.addresses import HIDDEN, without_secrets
from whisperbatch.text.messages import CONTROLS

MAX_NAME: Final = 255
"""Bytes of a file name in UTF-8: the limit of ext4, XFS, Btrfs and ZFS. NTFS and APFS allow as many
UTF-16 units or characters, which are never more than the bytes."""

HASH_BYTES: Final = 8  # 16 hexadecimal digits; of a billion names, two have the same with 1:40

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
    return hashlib.blake2b(_encode(text), digest_size=HASH_BYTES).hexdigest()


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
