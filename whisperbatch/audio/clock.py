"""The clock of a recording: which jumps of its time stamps are gaps, and which are not.

    stamps    [0][1][2]      [8][9]..     a gap: the later frames go on from there
    stamps    [0][1][2][99][4][5]..       one wrong stamp: the later frames return
    stamps    [0][1][2][0][1][2]..        a joined recording: its clock starts again

A jump is judged by the frames after it, of which a few seconds are held. A gap becomes silence. Any
other jump sets the clock to the sound before it, so that no sound is lost and no hours of silence
are invented. FFmpeg's own reading of jumps (`ffmpeg_demux.c`, `ts_discontinuity_process`; filter
`aresample=async=1`) was the model for the limits.

Elementary streams (mp3, AC-3) have frames without time stamps. FFmpeg numbers their frames without
a gap, even if it skipped damaged bytes between two frames. All sound after the damage would then
come too early. The byte positions of the frames show how long the skipped stretch was:

    bytes   [f0][f1][f2][..damaged...][f3][f4]
    FFmpeg  [f0][f1][f2][f3][f4]
    true    [f0][f1][f2]              [f3][f4]

Bare AAC (ADTS) has the same problem, but FFmpeg does not report which bytes it skipped there.
"""

import math
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from whisperbatch.audio.extent import TAIL, Parts, begins_stream, tag_size
from whisperbatch.types import Notices

if TYPE_CHECKING:
    from av.audio.frame import AudioFrame
    from av.audio.stream import AudioStream
    from av.packet import Packet

    from whisperbatch.audio.track import Track

FORMATS: Final = frozenset({"mp3", "ac3", "eac3"})  # FFmpeg's names


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
        size = tag_size(bytes(packet))
        if packet.pos is not None and size:
            self._tag_end = packet.pos + size


JITTER: Final = 0.1  # seconds: a smaller deviation of a frame's time is not a gap
JITTER_AFTER_DAMAGE: Final = 0.01  # seconds: less than a frame, which lasts 20 ms in most codecs
MAX_GAP: Final = 86_400.0  # seconds: a larger gap comes from an absurd time stamp
MAX_GAP_UNPROVEN: Final = 60.0  # seconds, if the recording ends right after the jump
MAX_GAP_RESET: Final = 10.0  # seconds, in formats whose clock may be reset; FFmpeg's limit, too
SHORT_GAP: Final = 1.0  # seconds: for a gap up to this length, a second of frames is held
PROOF: Final = 1.0  # seconds of frames that must go on from a jump
LOOK_AHEAD: Final = 10.0  # seconds: a wrong stamp may be that of a Matroska cluster, about 5 s
MAX_HELD: Final = 32 * 2**20  # bytes of held frames
MAX_DRIFT: Final = 1.0  # seconds: the sum of small steps back that is reported
RESTART: Final = 5.0  # seconds after the first stamp: the next part of a joined recording begins
RESETTING: Final = frozenset({"mpegts", "mpegtsraw", "mpeg", "hls", "hls,applehttp"})
"""FFmpeg's names of formats in which recorders and editors reset the clock."""

JUMP_BACK: Final = (
    "the time stamps jump back, and the sound goes on: times after the jump are counted on from "
    "the sound before; they differ from the times of a player that follows the stamps"
)
JUMP_AHEAD: Final = (
    "the time stamps jump ahead without a gap in the sound: times after the jump are counted on "
    "from the sound before; they differ from the times of a player that follows the stamps"
)
DRIFT: Final = (
    "the sound lasts longer than its time stamps say: times follow the sound; check the sampling "
    "rate of the recorder"
)

Jump = Literal["gap", "wrong stamp", "back", "ahead"]


@dataclass(frozen=True, slots=True)
class Stamped:
    """A decoded frame and its time stamp.

    Attributes:
        frame: with samples.
        time: seconds from the start of the recording; None if there is no usable stamp.
        doubtful: whether frames may be missing right before this frame.
        position: of its packet in the file, in bytes; None if it is unknown.
    """

    frame: "AudioFrame"
    time: float | None
    doubtful: bool = False
    position: int | None = None

    @property
    def length(self) -> float:
        """Seconds of sound."""
        return self.frame.samples / self.frame.sample_rate


@dataclass(frozen=True, slots=True)
class Placed:
    """A frame with its place in the recording.

    Attributes:
        frame: see `Stamped`.
        start: in seconds of the recording.
        gap: seconds of silence before the frame.
    """

    frame: "AudioFrame"
    start: float
    gap: float


class Clock:
    """Places frames in the recording.

    Args:
        track: the open track: its format, its duration, and the times of other tracks.
        parts: the bytes of the recording.
        notices: of the recording; jumps that make times doubtful are added.

    Attributes:
        decoded: seconds of the recording that frames and gaps have filled.
    """

    def __init__(self, track: "Track", parts: Parts, notices: Notices) -> None:
        self.decoded = 0.0
        self._track = track
        self._parts = parts
        self._positions: deque[int] = deque(maxlen=2)  # of the last two pages or packets
        self._notices = notices
        self._shift = 0.0  # seconds that are added to stamps
        self._origin: float | None = None  # the first stamp
        self._drift = 0.0  # sum of the small steps back, in seconds
        self._doubts: dict[str, float] = {}  # text of a notice: where the times become doubtful

    @property
    def reached(self) -> float:
        """The latest time by the stamps, in seconds: a stated end is a time of this clock."""
        return max(self.decoded, self.decoded - self._shift)

    def place(self, frames: Iterator[Stamped]) -> Iterator[Placed]:
        """Yield all frames in order, each with its place; none is dropped."""
        ahead = _Ahead(frames)
        for stamped in ahead:
            gap = self._gap(stamped, ahead)
            start = self.decoded + gap
            self.decoded = start + stamped.length
            self._note_position(stamped.position)
            yield Placed(stamped.frame, start, gap)
        for text, start in self._doubts.items():
            self._notices.add("time", start, self.decoded, text)

    def _gap(self, stamped: Stamped, ahead: "_Ahead") -> float:
        if stamped.time is None:
            return 0.0
        if self._origin is None:
            self._origin = stamped.time
        gap = stamped.time + self._shift - self.decoded
        tolerance = JITTER_AFTER_DAMAGE if stamped.doubtful else JITTER
        if -JITTER <= gap <= tolerance:
            return 0.0
        if tolerance < gap <= JITTER:
            return gap
        jump = self._judge(stamped, gap, ahead)
        if jump == "gap":
            return gap
        if jump != "wrong stamp":
            self._shift -= gap
            self._report(jump, stamped.time, gap)
        return 0.0

    def _judge(self, stamped: Stamped, gap: float, ahead: "_Ahead") -> Jump:
        """Decide what a jump is, from the frames after it."""
        later = ahead.deviations(
            self.decoded + stamped.length - self._shift,
            PROOF if abs(gap) <= SHORT_GAP else LOOK_AHEAD,
        )
        if any(abs(deviation) <= JITTER for _, deviation in later):
            return "wrong stamp"
        if gap < 0:
            near = [deviation for after, deviation in later if after <= PROOF]
            steady = all(abs(deviation - gap) <= JITTER for deviation in near)
            return "back" if steady else "wrong stamp"
        if any(after <= PROOF and deviation < gap - JITTER for after, deviation in later):
            return "wrong stamp"
        held = max((after for after, _ in later), default=0.0)
        return "gap" if self._is_gap(stamped, gap, held, whole=ahead.ended) else "ahead"

    def _is_gap(self, stamped: Stamped, gap: float, held: float, *, whole: bool) -> bool:
        """Return whether a jump ahead is a gap, if the later frames go on from there.

        Args:
            stamped: the frame after the jump.
            gap: length of the jump in seconds.
            held: seconds of later frames that go on from there.
            whole: whether the recording ends after these frames.
        """
        if gap > MAX_GAP or (gap > MAX_GAP_RESET and self._is_chained(stamped)):
            return False
        start = self.decoded - self._shift  # by the clock of the stamps
        if self._track.format in RESETTING and self.decoded and gap > MAX_GAP_RESET:
            return self._track.others.between(start, start + gap)
        if held < PROOF and whole and gap > MAX_GAP_UNPROVEN:
            return self._track.duration + JITTER >= start + gap
        duration = self._track.duration
        beyond = self.decoded < duration + JITTER < self.decoded + gap and gap > MAX_GAP_UNPROVEN
        return not (beyond and whole and held < LOOK_AHEAD)

    def _is_chained(self, stamped: Stamped) -> bool:
        """Return whether a frame of an Ogg file belongs to another stream than the last frame."""
        this = stamped.position
        # FFmpeg gives the last packet of a stream the position of the next page that it reads
        last = next((position for position in reversed(self._positions) if position != this), None)
        if self._track.format != "ogg" or this is None or last is None:
            return False
        return this > last and begins_stream(self._parts.at(last, min(this - last, TAIL)))

    def _note_position(self, position: int | None) -> None:
        if position is not None and position not in self._positions:
            self._positions.append(position)

    def _report(self, jump: Jump, time: float, gap: float) -> None:
        """Note that times are doubtful from here on; parts of a joined recording are no doubt."""
        text = JUMP_AHEAD if jump == "ahead" else JUMP_BACK
        if jump == "back" and -gap <= MAX_DRIFT:
            self._drift -= gap
            if self._drift <= MAX_DRIFT:
                return
            text = DRIFT
        elif jump == "back" and self._origin is not None and time <= self._origin + RESTART:
            return
        if text not in self._doubts:
            self._doubts[text] = self.decoded
            self._notices.add("time", self.decoded, self.decoded, text)


class _Ahead:
    """An iterator over frames that can look ahead.

    Attributes:
        ended: whether the last look ahead met the end of the recording.
    """

    def __init__(self, frames: Iterator[Stamped]) -> None:
        self._frames = frames
        self._held: deque[Stamped] = deque()
        self.ended = False

    def __iter__(self) -> Iterator[Stamped]:
        return self

    def __next__(self) -> Stamped:
        return self._held.popleft() if self._held else next(self._frames)

    def deviations(self, expected: float, seconds: float) -> list[tuple[float, float]]:
        """Compare the stamps of the next frames with the times that they have without a jump.

        Args:
            expected: the stamp of the next frame without a jump, in seconds.
            seconds: length of the look-ahead.

        Returns:
            For each frame with a stamp: the seconds of sound up to its end, and its deviation.
        """
        found: list[tuple[float, float]] = []
        after = 0.0
        for stamped in self._next(seconds):
            if stamped.time is not None:
                found.append((after + stamped.length, stamped.time - expected - after))
            after += stamped.length
        return found

    def _next(self, seconds: float) -> Iterator[Stamped]:
        """Yield the next frames without removing them; at least one, if there is one."""
        length, size, index = 0.0, 0, 0
        self.ended = False
        while length < seconds and size < MAX_HELD:
            if index == len(self._held):
                stamped = next(self._frames, None)
                if stamped is None:
                    self.ended = True
                    return
                self._held.append(stamped)
            stamped = self._held[index]
            index += 1
            length += stamped.length
            frame = stamped.frame  # `frame.planes` would read beyond the planes of many channels
            size += frame.samples * frame.layout.nb_channels * frame.format.bytes
            yield stamped


def usable(stamp: float | None) -> float | None:
    """Return a stamp; None if it is infinite or NaN, because there is no time base."""
    return stamp if stamp is not None and math.isfinite(stamp) else None


class OtherTracks:
    """The times of the packets of all other tracks, in steps of `STEP`.

    Sound that pauses while the picture goes on is a gap, and no reset of the clock.

    Attributes:
        end: the latest end of a packet, in seconds.
    """

    STEP: Final = 2.0  # seconds
    KEPT: Final = 50_000  # steps: more than a day

    def __init__(self) -> None:
        self.end = 0.0
        self._steps: deque[int] = deque(maxlen=self.KEPT)

    def add(self, start: float, length: float) -> None:
        """Note a packet, in seconds from the start of the recording."""
        self.end = max(self.end, start + length)
        step = int(start // self.STEP)
        if not self._steps or self._steps[-1] != step:
            self._steps.append(step)

    def between(self, start: float, end: float) -> bool:
        """Return whether a packet lies between two times, in seconds, and not close to them."""
        first, last = start // self.STEP + 1, end // self.STEP - 1
        return any(first < step < last for step in self._steps)
