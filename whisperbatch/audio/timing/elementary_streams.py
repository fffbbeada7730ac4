"""Lost time in elementary streams: formats of frames without time stamps (mp3, AC-3).

FFmpeg numbers the frames of these formats without a gap, even if it skipped damaged bytes between
two frames. All sound after the damage would then come too early. The byte positions of the frames
show how long the skipped stretch was:

    bytes   [f0][f1][f2][..damaged...][f3][f4]
    FFmpeg  [f0][f1][f2][f3][f4]
    true    [f0][f1][f2]              [f3][f4]

Bare AAC (ADTS) has the same problem, but FFmpeg does not report which bytes it skipped there.
"""

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from av.audio.stream import AudioStream
    from av.packet import Packet

FORMATS: Final = frozenset({"mp3", "ac3", "eac3"})  # FFmpeg's names
TAG_HEADER: Final = 10  # bytes of an ID3v2 tag that its size field does not count


class LostTime:
    """Estimate of the time that damage removed, packet by packet, from the mean bit rate so far.

    Attributes:
        in_tag: whether the last packet was part of an ID3v2 tag instead of sound.
    """

    def __init__(self) -> None:
        self.in_tag = False
        self._end: int | None = None  # first byte after the last packet
        self._tag_end = 0  # first byte after the last tag, whose bytes are not lost sound
        self._bytes = 0  # total size of the good packets
        self._seconds = 0.0  # total duration of the good packets

    def at(self, packet: "Packet[AudioStream]", *, damaged: bool) -> float:
        """Return the seconds that were lost at `packet` and that its time stamp does not show.

        Args:
            packet: the next packet of the stream; every packet must be passed, in order.
            damaged: whether the packet could not be decoded.

        Returns:
            Seconds; negative if the time stamp is too late.
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
        return seconds - duration if damaged else seconds  # FFmpeg counted the packet as a frame

    def _skip_tag(self, packet: "Packet[AudioStream]") -> None:
        """Note an ID3v2 tag (a cover picture); tags occur where two files were joined."""
        header = bytes(packet)[:TAG_HEADER]
        if packet.pos is not None and header[:3] == b"ID3" and len(header) == TAG_HEADER:
            size = 0
            for byte in header[6:]:
                size = size << 7 | byte & 0x7F
            self._tag_end = packet.pos + TAG_HEADER + size
