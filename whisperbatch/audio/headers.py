"""What the headers of media files state: their size, their number of samples, their duration.

WAV, RF64, Wave64, AVI   the sizes of their parts: Microsoft "Multimedia Programming Interface and
                         Data Specifications 1.0"; EBU Tech 3306 (RF64, BW64); Sony Wave64 as
                         written by libsndfile
MP3                      the number of frames (Xing, Info, VBRI): "MP3 Info Tag revision 1" of LAME;
                         Fraunhofer's VBRI header
Ogg                      where a page breaks off (RFC 3533). Many programs that write live streams
                         never mark a last page, so a missing mark proves nothing. But no program
                         leaves half a page: the rest of the file is missing there
ASF (WMA, WMV)           size and duration: Microsoft "Advanced Systems Format (ASF) Specification",
                         section 3.2
SoX                      the number of samples: `soxformat(7)`, "sox"
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from whisperbatch.audio.file_objects import FileObject

TAIL: Final = 131_072  # bytes of the end: more than the longest page of Ogg, 65,307 bytes


class Parts:
    """Read access to the bytes of a recording that FFmpeg has open or has read.

    Of a pipe only the start is known, and the number of its bytes after its end. Of a URL nothing
    is known.

    Args:
        file: a path, a URL or a file object.
    """

    def __init__(self, file: str | FileObject) -> None:
        self._file = file

    def can_seek(self) -> bool:
        """Return whether FFmpeg can read the file out of order."""
        if isinstance(self._file, FileObject):
            return self._file.seekable()
        return _regular(self._file) is not None

    def size(self) -> int | None:
        """Return the size of the file in bytes; None if it is unknown.

        Call this at the end of the file only.
        """
        if isinstance(self._file, FileObject):
            return self._file.size()
        path = _regular(self._file)
        return path.stat().st_size if path else None

    def at(self, position: int, length: int) -> bytes:
        """Return bytes of the file; fewer, or none, if they are unknown or beyond its end."""
        if position < 0:
            return b""
        if isinstance(self._file, FileObject):
            return self._file.at(position, length)
        path = _regular(self._file)
        if path is None:
            return b""
        with path.open("rb") as opened:
            opened.seek(position)
            return opened.read(length)

    def tail(self) -> bytes:
        """Return up to `TAIL` bytes of the end; none if they are unknown."""
        size = self.size() or 0
        return self.at(max(size - TAIL, 0), min(size, TAIL))


def _regular(file: str) -> Path | None:
    if "://" in file:
        return None
    try:
        path = Path(file)
        return path if path.is_file() else None
    except (OSError, ValueError):
        return None


MAX_CHUNKS: Final = 1000
WINDOW: Final = 2**24  # bytes; programs write such sizes and less the size of the header
PLACEHOLDERS: Final = (2**31, 2**32, 2**63, 2**64)
"""Programs that cannot seek state the largest number of 31 or 32 bits (sox 0x7ffff000, arecord
0x7fffffff, FFmpeg and gstreamer 0xffffffff), or -1 in 64 bits."""
W64_RIFF: Final = bytes.fromhex("726966662e91cf11a5d628db04c10000")
W64_DATA: Final = bytes.fromhex("64617461f3acd3118cd100c04f8edb8a")
W64_FORMAT: Final = bytes.fromhex("666d7420f3acd3118cd100c04f8edb8a")


@dataclass(frozen=True, slots=True)
class RiffChunk:
    """A chunk: its name, the position of its content, and its stated size, all in bytes."""

    name: bytes
    start: int
    size: int


def riff_bytes(parts: Parts) -> tuple[int, int] | None:
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
    chunks: Iterator[RiffChunk], fmt: bytes, data: bytes, ds64: int | None
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


def _chunks(parts: Parts, order: Literal["little", "big"]) -> Iterator[RiffChunk]:
    position = 12
    for _ in range(MAX_CHUNKS):
        header = parts.at(position, 8)
        if len(header) < 8:  # noqa: PLR2004 - name and size
            return
        size = int.from_bytes(header[4:], order)
        yield RiffChunk(header[:4], position + 8, size)
        position += 8 + size + size % 2


def _w64_chunks(parts: Parts) -> Iterator[RiffChunk]:
    position = 40
    for _ in range(MAX_CHUNKS):
        header = parts.at(position, 24)
        size = int.from_bytes(header[16:], "little") - 24
        if len(header) < 24 or size < 0:  # noqa: PLR2004 - name and size
            return
        yield RiffChunk(header[:16], position + 24, size)
        position += 24 + size + -size % 8


ID3_HEADER: Final = 10  # bytes that the size of an ID3v2 tag does not count
SEARCHED: Final = 4096  # bytes after the tags in which the first frame begins
RATES: Final = (44_100, 48_000, 32_000)  # Hz, of MPEG 1; halved in MPEG 2, again in MPEG 2.5
BIT_RATES: Final = {  # kbit/s of layer III: MPEG 1, and MPEG 2 and 2.5
    1: (0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320),
    2: (0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160),
}


@dataclass(frozen=True, slots=True)
class FrameHeader:
    """The header of a frame of layer III.

    Attributes:
        samples: of the frame, for each channel.
        rate: sampling rate in Hz.
        size: of the frame in bytes; 0 in the free format.
        side: bytes of the side information after the header.
    """

    samples: int
    rate: int
    size: int
    side: int


def frame_header(data: bytes) -> FrameHeader | None:
    """Read the header of a frame; None if the bytes are no header of layer III."""
    if len(data) < 4 or data[0] != 0xFF or data[1] & 0xE6 != 0xE2:  # noqa: PLR2004
        return None
    version, rate, bits = data[1] >> 3 & 3, data[2] >> 2 & 3, data[2] >> 4
    if version == 1 or rate == 3 or bits == 15:  # noqa: PLR2004 - reserved
        return None
    is_first, mono = version == 3, data[3] >> 6 == 3  # noqa: PLR2004
    hertz = RATES[rate] // {3: 1, 2: 2, 0: 4}[version]
    samples = 1152 if is_first else 576
    kilobits = BIT_RATES[1 if is_first else 2][bits]
    size = samples // 8 * kilobits * 1000 // hertz + (data[2] >> 1 & 1) if kilobits else 0
    side = (17 if mono else 32) if is_first else (9 if mono else 17)
    return FrameHeader(samples, hertz, size, side)


def xing_seconds(parts: Parts) -> float | None:
    """Return the seconds of sound that the header frame states; None if there is no such frame."""
    start = _after_tags(parts)
    data = parts.at(start, SEARCHED)
    for first in range(len(data) - 4):
        header = frame_header(data[first : first + 4])
        if header:
            frames = _frames(data[first + 4 :], header)
            return frames * header.samples / header.rate if frames else None
    return None


def ends_within_frame(last: bytes) -> bool:
    """Return whether a file was cut within its last frame.

    A transfer that breaks off ends within a frame. An editor that shortens a file and keeps its
    header frame ends it after a frame.
    """
    header = frame_header(last)
    return header is None or header.size > len(last)


def _after_tags(parts: Parts) -> int:
    """Return the position after all ID3v2 tags at the start."""
    position = 0
    while (tag := parts.at(position, ID3_HEADER))[:3] == b"ID3" and len(tag) == ID3_HEADER:
        size = 0
        for byte in tag[6:]:
            size = size << 7 | byte & 0x7F
        position += ID3_HEADER + size
    return position


def _frames(data: bytes, header: FrameHeader) -> int:
    """Return the number of frames of sound; 0 if it is not stated."""
    xing = data[header.side :]
    if xing[:4] in (b"Xing", b"Info"):
        return int.from_bytes(xing[8:12], "big") if len(xing) >= 12 and xing[7] & 1 else 0  # noqa: PLR2004
    vbri = data[32:]
    if vbri[:4] == b"VBRI":
        return int.from_bytes(vbri[14:18], "big")
    return 0


CAPTURE: Final = b"OggS\0"  # the start of a page, with the version of the format
PAGE_HEADER: Final = 27  # bytes before the table of segments
FIRST: Final = 2  # flag of the first page of a stream
LAST: Final = 4  # flag of the last page of a stream


def ends_within_page(tail: bytes) -> bool:
    """Return whether the file breaks off within a page.

    Args:
        tail: the end of the file; at least as long as the longest page, or the whole file.
    """
    start = tail.rfind(CAPTURE)
    if start < 0:
        return False
    size = _page_size(tail[start:])
    if size is None or start + size > len(tail):
        return True
    # bytes after a complete page are the start of the next page, or no Ogg at all
    rest, is_last = tail[start + size :], bool(tail[start + 5] & LAST)
    return bool(rest) and not is_last and CAPTURE.startswith(rest[: len(CAPTURE)])


def begins_stream(pages: bytes) -> bool:
    """Return whether one of the pages is the first of a stream, after which its times restart."""
    start = pages.find(CAPTURE)
    while 0 <= start < len(pages) - len(CAPTURE):
        if pages[start + 5] & FIRST:
            return True
        start = pages.find(CAPTURE, start + 1)
    return False


def _page_size(page: bytes) -> int | None:
    """Return the size of a page in bytes; None if its header is incomplete."""
    if len(page) < PAGE_HEADER or len(page) < PAGE_HEADER + page[26]:
        return None
    return PAGE_HEADER + page[26] + sum(page[PAGE_HEADER : PAGE_HEADER + page[26]])


ASF_HEADER: Final = bytes.fromhex("3026b2758e66cf11a6d900aa0062ce6c")
PROPERTIES: Final = bytes.fromhex("a1dcab8c47a9cf118ee400c00c205365")
ASF_SEARCHED: Final = 65_536  # bytes of the header in which the properties are
BROADCAST: Final = 1  # flag: size and duration are unknown


@dataclass(frozen=True, slots=True)
class AsfExtent:
    """The size of the file in bytes, and its duration in seconds."""

    size: int
    seconds: float


def asf_extent(parts: Parts) -> AsfExtent | None:
    """Return what the header states; None if it states nothing, as that of a live stream."""
    header = parts.at(0, ASF_SEARCHED)
    found = header.find(PROPERTIES)
    if header[:16] != ASF_HEADER or found < 0 or len(header) < found + 92:
        return None
    size, duration, preroll = (
        int.from_bytes(header[found + first : found + first + 8], "little")
        for first in (40, 64, 80)
    )
    flags = int.from_bytes(header[found + 88 : found + 92], "little")
    seconds = duration / 1e7 - preroll / 1000
    return AsfExtent(size, seconds) if not flags & BROADCAST and size and seconds > 0 else None


SAMPLE: Final = 4  # bytes of a sample


def sox_bytes(parts: Parts) -> tuple[int, int] | None:
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
