"""Decoding of media to blocks of mono samples at 16 kHz, by PyAV (FFmpeg).

Every block keeps its exact place in the recording. Audio that the decoder cannot return becomes
silence: damaged frames, missing frames, and the time before the sound if the sound starts later
than the picture.

    frames by their times   [f0][f1][f2]      [f5][f6]
    blocks                  [f0][f1][f2][sile][f5][f6]
"""

import logging
import math
from collections.abc import Iterator
from itertools import chain
from typing import TYPE_CHECKING, Final

import numpy as np

from whisperbatch.audio import elementary_streams
from whisperbatch.audio.channels import check_separate, with_channels
from whisperbatch.audio.elementary_streams import LostTime
from whisperbatch.audio.file_objects import FileObject
from whisperbatch.audio.resampling import BLOCK, Resampler
from whisperbatch.audio.seeking import frames_after, seeks_exactly, whole_second
from whisperbatch.audio.track import Track, frames_of
from whisperbatch.errors import AudioError, OptionError
from whisperbatch.options import MAX_SAMPLING_RATE, MIN_SAMPLING_RATE, AudioOptions
from whisperbatch.types import Notices, Samples, to_samples

JITTER: Final = 0.1  # seconds: a smaller deviation of a frame's time is not a gap
JITTER_AFTER_DAMAGE: Final = 0.01  # seconds: less than a frame, which lasts 20 ms in most codecs
MAX_GAP: Final = 86_400.0  # seconds: a larger gap comes from an absurd time stamp
MAX_GAP_UNTIMED: Final = 60.0  # seconds, if the container states no duration
MAX_LEVEL: Final = 4.0  # 12 dB above full scale; damaged frames decoded to values up to 1e37

if TYPE_CHECKING:
    from av.audio.frame import AudioFrame
    from av.audio.stream import AudioStream
    from av.packet import Packet

log = logging.getLogger(__name__)


class MediaDecoder:
    """Decoder of one audio track of a media file. Frames are decoded when blocks are requested.

    Args:
        name: name of the recording, for messages.
        file: a path, a URL, or a file object, which stays open.
        options: the track and the channel.
        notices: of the recording; facts that its user must know are added.
        start: sample of the recording that is needed first. If possible, decoding begins a little
            before this sample (`seeking`), and otherwise at the start of the file.

    Attributes:
        position: the first sample of `blocks`, counted in the recording; at most `start`.

    Raises:
        AudioError: the file cannot be read, or lacks the track, or no frame can be decoded.
        OptionError: the file lacks the channel.
    """

    def __init__(
        self,
        name: str,
        file: str | FileObject,
        options: AudioOptions,
        notices: Notices,
        start: int = 0,
    ) -> None:
        self._name = name
        self._notices = notices
        self._decoded = 0.0  # seconds of the recording that frames and gaps have filled
        self._damaged = 0  # number of packets that could not be decoded
        self._missing = 0.0  # seconds of silence that replace damaged and missing frames
        self._damaged_at: float | None = None  # time of the first damaged or missing frame
        self._doubtful = False  # frames may be missing before the next frame
        self._track = Track(name, file, options.track)
        self._start = self._track.start
        self._resampler = Resampler(name, "each" if options.separates_channels else options.channel)
        self._shape: tuple[int, ...] = ()  # of a sample: its channels, if they are separate
        try:
            self._frames = self._from_second(whole_second(start), file)
            self.position = to_samples(self._decoded)
            self._first = self._first_frame(options)
        except BaseException:
            self.close()
            raise

    def blocks(self) -> Iterator[Samples]:
        """Yield samples at 16 kHz, in order; no block is empty.

        They are mono, or have the shape (n_samples, n_channels) if the channels are separate.

        Damaged frames become silence. One warning at the end states how many frames are
        damaged, and the time of the first.
        """
        for block in self._blocks():
            if self._shape and block.shape[1:] != self._shape:
                block = with_channels(block, *self._shape)  # noqa: PLW2901 - the track changed
            # A burst of 1e37 would hide the speech next to it, so the level is limited. NaN and
            # infinite samples stay, because the reader reports them.
            yield np.clip(block, -MAX_LEVEL, MAX_LEVEL, out=block, where=np.isfinite(block))

    def close(self) -> None:
        """Close the container. Safe to call twice."""
        self._track.close()

    def _blocks(self) -> Iterator[Samples]:
        yielded = self.position  # samples, and those that were left out
        for frame in chain((self._first,), self._frames):
            gap, self._decoded = self._gap(frame, self._decoded)
            for block in self._silence(self._decoded, yielded) if gap else ():
                yielded += len(block)
                yield block
            self._decoded += frame.samples / frame.sample_rate
            for block in self._resampler.push(frame):
                yielded += len(block)
                yield block
        yield from self._resampler.flush()
        self._warn()

    def _from_second(self, second: int, file: str | FileObject) -> Iterator["AudioFrame"]:
        """Return the frames from a second on, or all frames if a seek would change samples."""
        if second and seeks_exactly(self._track, file):
            found = self._track.seek(second)
            frames = frames_after(self._decode(), second) if found else None
            if frames:
                self._decoded = float(second)
                return frames
            self._track.seek(0)
            self._damaged, self._damaged_at, self._doubtful = 0, None, False
            self._track.cut_off = None
        return self._decode()

    def _decode(self) -> Iterator["AudioFrame"]:
        """Yield all frames that can be decoded, until the file ends or is cut off."""
        elementary = self._track.format in elementary_streams.FORMATS
        lost_time = LostTime() if elementary else None
        for packet in self._track.packets():
            frames = frames_of(packet)
            start = self._start
            if lost_time:
                self._start -= lost_time.at(packet, damaged=frames is None)
            if frames is None and not (lost_time and lost_time.in_tag):
                self._note_damage(packet, start)
                self._doubtful = True
            if packet.size and packet.pts is None:  # FFmpeg had to search for the next frame
                self._doubtful = True
            yield from frames or ()

    def _silence(self, end: float, yielded: int) -> Iterator[Samples]:
        """Yield the samples left in the resampler, then silence up to `end` (in seconds)."""
        for block in self._resampler.flush():
            yielded += len(block)
            yield block
        while (missing := to_samples(end) - yielded) > 0:
            yielded += min(missing, BLOCK)
            yield np.zeros((min(missing, BLOCK), *self._shape), np.float32)

    def _no_sound(self) -> str:
        """Return the message for a file without any frame: the reason and the remedy."""
        if self._track.cut_off and "mp4" in self._track.format:
            return (
                "the index is missing or, in a pipe, comes too late; give the path of the "
                "complete file, or write the file with the index first (faststart)"
            )
        return (
            "contains no sound that can be decoded; check whether the file is damaged or its "
            "name has the wrong extension"
        )

    def _warn(self) -> None:
        if self._damaged_at is not None:
            log.warning(
                "%s: %d damaged frame(s) and %.2f s of missing audio, the first at %.2f s; "
                "replaced by silence",
                self._name,
                self._damaged,
                self._missing,
                self._damaged_at,
            )
        if self._track.cut_off:
            log.warning("%s: is cut off or damaged at %.2f s", self._name, self._decoded)

    def _note_damage(self, packet: "Packet[AudioStream]", start: float) -> None:
        self._damaged += 1
        if self._damaged_at is None:
            time, base = packet.pts if packet.pts is not None else packet.dts, packet.time_base
            stamped = float(time * base) - start if time is not None and base else None
            self._damaged_at = self._decoded if stamped is None else stamped

    def _first_frame(self, options: AudioOptions) -> "AudioFrame":
        """Decode the first frame early, so that an unusable recording is refused at once."""
        frame = next(self._frames, None)
        if frame is None:
            raise AudioError(self._no_sound(), source=self._name) from self._track.cut_off
        if not MIN_SAMPLING_RATE <= frame.sample_rate <= MAX_SAMPLING_RATE:
            raise AudioError(
                f"states a sampling rate of {frame.sample_rate} Hz, which is not "
                f"between {MIN_SAMPLING_RATE} and {MAX_SAMPLING_RATE} Hz; check whether the header "
                "is damaged",
                source=self._name,
            )
        channels = frame.layout.nb_channels
        if options.separates_channels:
            check_separate(self._name, channels)
            self._shape = (channels,)
        if options.channel == "right" and channels < 2:  # noqa: PLR2004 - the second channel
            raise OptionError(f"channel='right': {self._name} has one channel; leave channel out")
        return frame

    def _gap(self, frame: "AudioFrame", decoded: float) -> tuple[float, float]:
        """Find a gap in the time stamps before `frame`.

        A time stamp that no gap can explain is ignored: the clock is set to the decoded time.

        Args:
            frame: the next frame.
            decoded: seconds of the recording before the frame by the decoded samples.

        Returns:
            The seconds of silence before the frame, and the frame's start in seconds.
        """
        stamp = frame.time
        if stamp is None or not math.isfinite(stamp):  # NaN: there is no time base
            return 0.0, decoded
        time = stamp - self._start
        gap = time - decoded
        tolerance = JITTER_AFTER_DAMAGE if self._doubtful else JITTER
        self._doubtful = False
        if -JITTER <= gap <= tolerance:
            return 0.0, decoded
        duration = self._track.duration
        limit = duration + JITTER - decoded if duration else MAX_GAP_UNTIMED
        if gap < 0 or gap > min(limit, MAX_GAP):
            self._start += gap
            return 0.0, decoded
        if decoded:  # a gap before the first frame is not damage: the sound starts late
            self._missing += gap
            self._damaged_at = decoded if self._damaged_at is None else self._damaged_at
        return gap, time
