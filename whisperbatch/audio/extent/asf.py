"""The size and the duration that an ASF file (WMA, WMV) states.

Source: Microsoft "Advanced Systems Format (ASF) Specification", section 3.2.
"""

from dataclasses import dataclass
from typing import Final

from whisperbatch.audio.extent.parts import Parts

HEADER: Final = bytes.fromhex("3026b2758e66cf11a6d900aa0062ce6c")
PROPERTIES: Final = bytes.fromhex("a1dcab8c47a9cf118ee400c00c205365")
SEARCHED: Final = 65_536  # bytes of the header in which the properties are
BROADCAST: Final = 1  # flag: size and duration are unknown


@dataclass(frozen=True, slots=True)
class Stated:
    """The size of the file in bytes, and its duration in seconds."""

    size: int
    seconds: float


def stated(parts: Parts) -> Stated | None:
    """Return what the header states; None if it states nothing, as that of a live stream."""
    header = parts.at(0, SEARCHED)
    found = header.find(PROPERTIES)
    if header[:16] != HEADER or found < 0 or len(header) < found + 92:
        return None
    size, duration, preroll = (
        int.from_bytes(header[found + first : found + first + 8], "little")
        for first in (40, 64, 80)
    )
    flags = int.from_bytes(header[found + 88 : found + 92], "little")
    seconds = duration / 1e7 - preroll / 1000
    return Stated(size, seconds) if not flags & BROADCAST and size and seconds > 0 else None
