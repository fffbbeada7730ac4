"""The size that a sound file of SoX states. Source: `soxformat(7)`, "sox"."""

import struct
from typing import Final

from whisperbatch.audio.extent.parts import Parts

SAMPLE: Final = 4  # bytes of a sample


def stated_bytes(parts: Parts) -> tuple[int, int] | None:
    """Return the stated content of a file of SoX.

    Returns:
        The position of the first byte of the content, and its stated size in bytes. None if no size
        is stated.
    """
    head = parts.at(0, 16)
    if len(head) < 16 or head[:4] not in (b".SoX", b"XoS."):  # noqa: PLR2004 - of the two sizes
        return None
    order = "<" if head[:4] == b".SoX" else ">"
    size, samples = struct.unpack_from(f"{order}IQ", head, 4)
    return (4 + size, samples * SAMPLE) if samples else None
