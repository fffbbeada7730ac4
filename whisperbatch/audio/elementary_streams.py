"""Time in media that are frames one after the other, without times of their own: mp3, AC-3.

FFmpeg numbers their frames as if the bytes that are no frame had not been there, so that all sound
after a damaged stretch would come too early. The bytes say how long the stretch was:

    bytes   [f0][f1][f2][..damaged...][f3][f4]
    FFmpeg  [f0][f1][f2][f3][f4]
    true    [f0][f1][f2]              [f3][f4]

Bare AAC (ADTS) has the same trouble, but there FFmpeg does not tell which bytes it passed over.
"""

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from av.audio.stream import AudioStream
    from av.packet import Packet

FORMATS: Final = frozenset({"mp3", "ac3", "eac3"})  # FFmpeg's names
TAG_HEADER: Final = 10  # bytes of an ID3v2 tag before what its size counts


class LostTime:
    """Says, packet by packet, how much time was lost. Uses the mean bit rate so far.

    Attributes:
        in_tag: the last packet was no sound but part of a tag.
    """

    def __init__(self) -> None:
        self.in_tag = False
        self._end: int | None = None  # byte after the last packet
        self._tag_end = 0  # byte after the last tag, whose bytes are no lost sound
        self._bytes = 0  # of good packets, and the seconds that they last
        self._seconds = 0.0

    def at(self, packet: "Packet[AudioStream]", *, damaged: bool) -> float:
        """Seconds lost at `packet` that its time does not show; negative if it shows too many.

        Args:
            packet: each of the stream, in order.
            damaged: it could not be decoded.
        """
        self.in_tag = False
        if packet.pos is None or not packet.size:
            return 0.0
        start = packet.pos if self._end is None else min(self._end, packet.pos)
        self._end = packet.pos + packet.size
        duration = float((packet.duration or 0) * packet.time_base)
        if damaged:
            self._skip_tag(packet)
            self.in_tag = start < self._tag_end
            lost = self._end - max(start, self._tag_end)
        else:
            self._bytes += packet.size
            self._seconds += duration
            lost = packet.pos - start
        if not self._bytes:
            return 0.0
        seconds = max(lost, 0) * self._seconds / self._bytes
        return seconds - duration if damaged else seconds  # it has been counted as a frame

    def _skip_tag(self, packet: "Packet[AudioStream]") -> None:
        """An ID3v2 tag, with a cover picture say, lies where two files were joined."""
        head = bytes(packet)[:TAG_HEADER]
        if packet.pos is not None and head[:3] == b"ID3" and len(head) == TAG_HEADER:
            size = 0
            for byte in head[6:]:
                size = size << 7 | byte & 0x7F
            self._tag_end = packet.pos + TAG_HEADER + size
