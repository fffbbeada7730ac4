"""The number of frames that the header frame of an MP3 file states (Xing, Info or VBRI).

Source: "MP3 Info Tag revision 1" of LAME; Fraunhofer's VBRI header.
"""

from dataclasses import dataclass
from typing import Final

from whisperbatch.audio.extent.parts import Parts

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


def stated_seconds(parts: Parts) -> float | None:
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
