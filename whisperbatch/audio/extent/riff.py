"""The sizes that WAV, RF64, Wave64 and AVI files state.

Sources: Microsoft "Multimedia Programming Interface and Data Specifications 1.0"; EBU Tech 3306
(RF64, BW64); Sony Wave64 as written by libsndfile.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal

from whisperbatch.audio.extent.parts import Parts

MAX_CHUNKS: Final = 1000
WINDOW: Final = 2**24  # bytes; programs write such sizes and less the size of the header
PLACEHOLDERS: Final = (2**31, 2**32, 2**63, 2**64)
"""Programs that cannot seek state the largest number of 31 or 32 bits (sox 0x7ffff000, arecord
0x7fffffff, FFmpeg and gstreamer 0xffffffff), or -1 in 64 bits."""
W64_RIFF: Final = bytes.fromhex("726966662e91cf11a5d628db04c10000")
W64_DATA: Final = bytes.fromhex("64617461f3acd3118cd100c04f8edb8a")
W64_FORMAT: Final = bytes.fromhex("666d7420f3acd3118cd100c04f8edb8a")


@dataclass(frozen=True, slots=True)
class Chunk:
    """A chunk: its name, the position of its content, and its stated size, all in bytes."""

    name: bytes
    start: int
    size: int


def stated_bytes(parts: Parts) -> tuple[int, int] | None:
    """Return the stated content of a file of the RIFF family.

    Returns:
        The position of the first byte of the content, and its stated size in bytes: the sound of a
        WAV file, or an AVI file as a whole. None if no size is stated.
    """
    head = parts.at(0, 16)
    if head == W64_RIFF:
        return _sound(_w64_chunks(parts), W64_FORMAT, W64_DATA, None)
    if head[:4] in (b"RF64", b"BW64") and head[8:12] == b"WAVE":
        return _sound(_chunks(parts, "little"), b"fmt ", b"data", _ds64(parts))
    if head[:4] not in (b"RIFF", b"RIFX"):
        return None
    order: Literal["little", "big"] = "little" if head[:4] == b"RIFF" else "big"
    whole = int.from_bytes(head[4:8], order)
    if not is_size(whole):
        return None
    if head[8:12] == b"AVI ":
        return 8, whole
    found = _sound(_chunks(parts, order), b"fmt ", b"data", None) if head[8:12] == b"WAVE" else None
    # A program that completes only one of the two sizes leaves a header that contradicts itself.
    return found if found and sum(found) <= whole + 9 else None


def second_sound(parts: Parts) -> int:
    """Return the size of further chunks of sound in a WAV file, in bytes.

    FFmpeg reads only the first one of a file that can seek.
    """
    head = parts.at(0, 12)
    if head[:4] != b"RIFF" or head[8:] != b"WAVE":
        return 0
    sizes = [chunk.size for chunk in _chunks(parts, "little") if chunk.name == b"data"]
    return sum(size for size in sizes[1:] if is_size(size))


def is_size(size: int) -> bool:
    """Return whether a number is a size, and not one that stands for an unknown size."""
    return size > 0 and not any(limit - WINDOW <= size <= limit for limit in PLACEHOLDERS)


def _sound(
    chunks: Iterator[Chunk], fmt: bytes, data: bytes, ds64: int | None
) -> tuple[int, int] | None:
    seen = False
    for chunk in chunks:
        seen = seen or chunk.name == fmt
        if chunk.name == data:
            unknown = chunk.size in (0, 2**32 - 1)
            size = ds64 if ds64 is not None and unknown else chunk.size
            return (chunk.start, size) if seen and is_size(size) else None
    return None


def _ds64(parts: Parts) -> int:
    """Return the size of the sound that the chunk of 64-bit sizes states; 0 if there is none."""
    chunk = parts.at(12, 24)
    return int.from_bytes(chunk[16:24], "little") if chunk[:4] == b"ds64" else 0


def _chunks(parts: Parts, order: Literal["little", "big"]) -> Iterator[Chunk]:
    position = 12
    for _ in range(MAX_CHUNKS):
        header = parts.at(position, 8)
        if len(header) < 8:  # noqa: PLR2004 - name and size
            return
        size = int.from_bytes(header[4:], order)
        yield Chunk(header[:4], position + 8, size)
        position += 8 + size + size % 2


def _w64_chunks(parts: Parts) -> Iterator[Chunk]:
    position = 40
    for _ in range(MAX_CHUNKS):
        header = parts.at(position, 24)
        size = int.from_bytes(header[16:], "little") - 24
        if len(header) < 24 or size < 0:  # noqa: PLR2004 - name and size
            return
        yield Chunk(header[:16], position + 24, size)
        position += 24 + size + -size % 8
