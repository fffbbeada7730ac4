"""File names of outputs: of URLs, and short enough for every file system.

"z" * 251 + ".mp3"   ->   "z" * 233 + "~" + 16 hexadecimal digits + ".json"
"""

import hashlib
import re
from pathlib import PurePosixPath
from typing import Final
from urllib.parse import unquote, urlsplit

from whisperbatch.addresses import HIDDEN, without_secrets
from whisperbatch.text.control_characters import CONTROLS

MAX_NAME: Final = 255
"""Bytes of a file name in UTF-8: the limit of ext4, XFS, Btrfs and ZFS. NTFS and APFS allow as many
UTF-16 units or characters, which are never more than the bytes."""

HASH_BYTES: Final = 8  # 16 hexadecimal digits; of a billion names, two have the same with 1:40

_NOT_IN_NAMES: Final = re.compile(f"[/\\\\{CONTROLS}]+")


def output_name(name: str, suffix: str) -> str:
    """Return the name of an output: the name and the suffix, shortened if they are too long.

    A hash of the whole name takes the place of the end of a long name. The result depends on
    nothing else, so that a later run on any machine finds the output.

    Args:
        name: without suffix.
        suffix: with the dot.
    """
    encoded = _encoded(name)
    if len(encoded) + len(_encoded(suffix)) <= MAX_NAME:
        return name + suffix
    ending = f"~{hashlib.blake2b(encoded, digest_size=HASH_BYTES).hexdigest()}{suffix}"
    return _cut(name, MAX_NAME - len(_encoded(ending))) + ending


def name_of_url(url: str) -> str:
    """Return the file name in a URL, or its host, without characters that a name cannot have.

    Passwords and signatures are left out.
    """
    try:
        parts = urlsplit(without_secrets(url, whole=True))
    except ValueError:  # FFmpeg will report the malformed URL
        return "recording"
    path = PurePosixPath(parts.path.replace(f";{HIDDEN}", "").removesuffix(HIDDEN))
    name = unquote(path.name) or parts.netloc.rpartition("@")[2]
    name = _NOT_IN_NAMES.sub("_", name)
    return name if name.strip(".") else "recording"


def _cut(text: str, limit: int) -> str:
    """Return the longest beginning of the text whose UTF-8 has at most `limit` bytes."""
    length = 0
    for index, character in enumerate(text):
        length += len(_encoded(character))
        if length > limit:
            return text[:index]
    return text


def _encoded(text: str) -> bytes:
    """Return a file name in UTF-8; bytes that are not UTF-8 stay as they are."""
    return text.encode("utf-8", "surrogateescape")
