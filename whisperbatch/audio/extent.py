"""How long a recording states to be, and whether it was read up to there.

    header    |------------------ stated: 60 s ------------------|
    file      |------- read: 24 s -------|        incomplete: 36 s

Only a statement of the file counts: a number of samples, frames or bytes in a header, the length of
an HTTP answer, or a page that breaks off. A duration that FFmpeg estimates from the bit rate is no
statement, and neither are the sizes 0 and -1 that programs write if they cannot seek.

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
from typing import TYPE_CHECKING, Final, Literal

from whisperbatch.audio.file_objects import FileObject, regular_file
from whisperbatch.types import Notices

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
        return regular_file(self._file) is not None

    def size(self) -> int | None:
        """Return the size of the file in bytes; None if it is unknown.

        Call this at the end of the file only.
        """
        if isinstance(self._file, FileObject):
            return self._file.size()
        path = regular_file(self._file)
        return path.stat().st_size if path else None

    def at(self, position: int, length: int) -> bytes:
        """Return bytes of the file; fewer, or none, if they are unknown or beyond its end."""
        if position < 0:
            return b""
        if isinstance(self._file, FileObject):
            return self._file.at(position, length)
        path = regular_file(self._file)
        if path is None:
            return b""
        with path.open("rb") as opened:
            opened.seek(position)
            return opened.read(length)

    def tail(self) -> bytes:
        """Return up to `TAIL` bytes of the end; none if they are unknown."""
        size = self.size() or 0
        return self.at(max(size - TAIL, 0), min(size, TAIL))


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
    while size := tag_size(parts.at(position, ID3_HEADER)):
        position += size
    return position


def tag_size(data: bytes) -> int:
    """Return the size of the ID3v2 tag that the bytes begin with; 0 if they begin with none."""
    header = data[:ID3_HEADER]
    if header[:3] != b"ID3" or len(header) < ID3_HEADER:
        return 0
    size = 0
    for byte in header[6:]:
        size = size << 7 | byte & 0x7F
    return ID3_HEADER + size


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


if TYPE_CHECKING:
    from whisperbatch.audio.track import Track

TOLERANCE: Final = 1.0  # seconds: encoder delay, padding, rounded durations, a last damaged frame
SHARE: Final = 0.001  # of the duration: rates in headers are rounded
TRACK_FORMATS: Final = frozenset(
    (
        *("aiff", "ape", "apm", "ast", "au", "flac", "kvag", "mov,mp4,m4a,3gp,3g2,mj2", "mpc"),
        *("mpc8", "mxf", "nistsphere", "rm", "smjpeg", "tak", "tta", "wv", "wve"),
    )
)
"""FFmpeg's names of formats in which FFmpeg reads the duration of the track from a header."""
FILE_FORMATS: Final = frozenset({"matroska,webm", "flv"})  # the duration is that of all tracks
SIZED_FORMATS: Final = frozenset({"avi", "sox", "w64", "wav"})  # the size of the sound is stated
ENDS_WITH_ERROR: Final = frozenset({"wv"})  # FFmpeg searches for tags after the end of a pipe

CUT: Final = (
    "the recording ends before the end that it states: it was cut off, or is still being written; "
    "copy or download it again"
)
SECOND: Final = (
    "the file has a second part of sound, which is not read; give it through a pipe, or convert it"
)
BROKEN_OFF: Final = (
    "the recording breaks off, and an unknown part is missing; copy or download it again"
)
CONNECTION: Final = (
    "the connection broke before the end of the recording, and an unknown part is missing; try "
    "again"
)


@dataclass(frozen=True, slots=True)
class Ended:
    """Where the reading of a recording ended.

    Attributes:
        time: in seconds of the recording.
        stamp: the same by the time stamps of the file, which may have jumped.
        last: the last packet of the track.
    """

    time: float
    stamp: float
    last: bytes


def report_missing(track: "Track", parts: Parts, notices: Notices, ended: Ended) -> None:
    """Add a notice if the recording ends before its stated end, or breaks off.

    Call this at the end of the recording.

    Args:
        track: the open track.
        parts: the bytes of the recording.
        notices: of the recording.
        ended: where the recording ended.
    """
    end = stated_end(track, parts, ended)
    missing = 0.0 if end is None else end - ended.stamp
    if missing <= max(TOLERANCE, SHARE * ended.stamp):
        missing = 0.0
    second = second_sound(parts) if track.format == "wav" and not missing else 0
    if second and parts.size() and track.byte_rate and parts.can_seek():
        length = second / track.byte_rate
        notices.add("incomplete", ended.time, ended.time + length, SECOND)
    if track.broken:
        notices.add("incomplete", ended.time, ended.time + missing, CONNECTION)
    elif missing:
        notices.add("incomplete", ended.time, ended.time + missing, CUT)
    elif end is None and _breaks_off(track, parts):
        notices.add("incomplete", ended.time, ended.time, BROKEN_OFF)


def _breaks_off(track: "Track", parts: Parts) -> bool:
    """Return whether a recording without a stated end ends within a piece of its format."""
    if track.format == "ogg":
        return track.cut_off is not None or ends_within_page(parts.tail())
    return track.cut_off is not None and track.format not in ENDS_WITH_ERROR


def stated_end(track: "Track", parts: Parts, ended: Ended) -> float | None:
    """Return the end of the sound that a recording states, in seconds, by its time stamps.

    Args:
        track: see `report_missing`.
        parts: see `report_missing`.
        ended: see `report_missing`.

    Returns:
        None if no end is stated, or if the recording is complete although its sound ends earlier.
    """
    if track.format in SIZED_FORMATS:
        end = _by_bytes(parts, ended.stamp)
    elif track.format == "mp3":
        end = xing_seconds(parts) if ends_within_frame(ended.last) else None
    elif track.format in TRACK_FORMATS:
        end = _of_track(track)
    elif track.format in FILE_FORMATS:
        end = _of_file(track)
    elif track.format == "asf":
        end = _of_asf(track, parts)
    elif track.format == "caf" and track.frame_count and track.rate:
        end = track.frame_count / track.rate
    else:
        end = None
    return end


def _by_bytes(parts: Parts, decoded: float) -> float | None:
    """Return the end by the stated number of bytes and the bytes that exist."""
    stated, size = riff_bytes(parts) or sox_bytes(parts), parts.size()
    if stated is None or size is None or size <= stated[0]:
        return None
    present = size - stated[0]
    return decoded * max(stated[1] / present, 1.0)


def _of_track(track: "Track") -> float | None:
    """Return the end of the track by its own duration."""
    if track.sound_end is None:
        return None
    # a size that stands for an unknown one gives a duration, too
    known = is_size(round(track.sound_end * track.byte_rate)) if track.byte_rate else True
    return track.sound_end if known or track.format not in ("aiff", "au") else None


def _of_file(track: "Track") -> float | None:
    """Return the end of the track by the duration of the file.

    The duration is that of the longest track. If another track is complete, the file is complete.
    """
    # the duration may count from zero, although the stamps of a live recording start later
    if track.tagged_end is not None and track.duration:
        return min(track.duration, track.tagged_end) - max(track.start, 0.0)
    return _unless_reached(track, track.duration - max(track.start, 0.0))


def _of_asf(track: "Track", parts: Parts) -> float | None:
    """Return the end of the track by the header; FFmpeg's duration is that of a cut file."""
    stated, size = asf_extent(parts), parts.size()
    if stated is None or size is None or size >= stated.size:
        return None
    return _unless_reached(track, stated.seconds)


def _unless_reached(track: "Track", end: float) -> float | None:
    return end if end > 0 and track.others.end < end - TOLERANCE else None
