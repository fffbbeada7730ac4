"""Decoding of media to blocks of mono samples at 16 kHz, by PyAV (FFmpeg).

Every block keeps its exact place in the recording. Audio that the decoder cannot return becomes
silence: damaged frames, missing frames, and the time before the sound if the sound starts later
than the picture.

    frames by their times   [f0][f1][f2]      [f5][f6]
    blocks                  [f0][f1][f2][sile][f5][f6]
"""

import logging
from collections.abc import Iterator
from itertools import chain
from typing import TYPE_CHECKING, Final

import numpy as np

from whisperbatch.audio.channels import check_separate, with_channels
from whisperbatch.audio.extent.parts import Parts
from whisperbatch.audio.extent.stated import Ended, report_missing
from whisperbatch.audio.file_objects import FileObject
from whisperbatch.audio.mixing.blocks import ChannelBlock, ChannelResampler
from whisperbatch.audio.mixing.mixer import Mixer
from whisperbatch.audio.resampling import BLOCK, Resampler
from whisperbatch.audio.seeking import frames_after, seeks_exactly, whole_second
from whisperbatch.audio.timing import elementary_streams
from whisperbatch.audio.timing.clock import Clock, Placed, Stamped, usable
from whisperbatch.audio.timing.elementary_streams import LostTime
from whisperbatch.audio.track import frames_of
from whisperbatch.audio.tracks.info import ChooseTrack, listed
from whisperbatch.audio.tracks.opening import open_track
from whisperbatch.errors import AudioError, OptionError
from whisperbatch.options import MAX_SAMPLING_RATE, MIN_SAMPLING_RATE, Options
from whisperbatch.types import Notices, Samples, to_samples

MAX_LEVEL: Final = 4.0  # 12 dB above full scale; damaged frames decoded to values up to 1e37

if TYPE_CHECKING:
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
        choose: chooses the track if the options name none; None takes the preferred track.

    Attributes:
        position: the first sample of `blocks`, counted in the recording; at most `start`.
        track: number of the audio track.

    Raises:
        AudioError: the file cannot be read, or lacks the track, or no frame can be decoded.
        OptionError: the file lacks the channel.
    """

    def __init__(
        self,
        name: str,
        file: str | FileObject,
        options: Options,
        notices: Notices,
        start: int = 0,
        *,
        choose: ChooseTrack | None = None,
    ) -> None:
        self._name = name
        self._notices = notices
        self._damaged = 0  # number of packets that could not be decoded
        self._missing = 0.0  # seconds of silence that replace damaged and missing frames
        self._damaged_at: float | None = None  # time of the first damaged or missing frame
        self._last: Packet[AudioStream] | None = None
        self._needed = start
        self._track = open_track(name, file, options.track, notices, choose)
        self.track = self._track.number
        self._parts = Parts(self._track.file)
        self._clock = Clock(self._track, self._parts, notices)
        self._resampler: ChannelResampler | Resampler
        if options.separates_channels or options.channel != "mix":
            each = "each" if options.separates_channels else options.channel
            self._resampler = Resampler(name, each)
        else:
            self._resampler = ChannelResampler(name)
        self._shape: tuple[int, ...] = ()  # of a sample: its channels, if they are separate
        try:
            self._frames = self._from_second(whole_second(start))
            self.position = to_samples(self._clock.decoded)
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
        for block in self._mixed_blocks():
            if self._shape and block.shape[1:] != self._shape:
                block = with_channels(block, *self._shape)  # noqa: PLW2901 - the track changed
            # A burst of 1e37 would hide the speech next to it, so the level is limited. NaN and
            # infinite samples stay, because the reader reports them.
            yield np.clip(block, -MAX_LEVEL, MAX_LEVEL, out=block, where=np.isfinite(block))

    def close(self) -> None:
        """Close the container. Safe to call twice."""
        self._track.close()

    def _mixed_blocks(self) -> Iterator[Samples]:
        """Yield the samples, of the mix unless a channel was chosen or all are separate."""
        return Mixer(self._notices, self.position, self._needed)(self._blocks())

    def _blocks(self) -> Iterator[ChannelBlock | Samples]:
        yielded = self.position  # samples, and those that were left out
        for placed in self._clock.place(chain((self._first,), self._frames)):
            if placed.gap:
                self._note_gap(placed)
                for silence in self._silence(placed.start, yielded):
                    yielded += len(silence)
                    yield silence
            for block in self._resampler.push(placed.frame):
                yielded += len(block)
                yield block
        yield from self._resampler.flush()
        self._warn()
        last = bytes(self._last) if self._last else b""
        ended = Ended(self._clock.decoded, self._clock.reached, last)
        report_missing(self._track, self._parts, self._notices, ended)

    def _from_second(self, second: int) -> Iterator[Stamped]:
        """Return the frames from a second on, or all frames if a seek would change samples."""
        if second and seeks_exactly(self._track, self._track.file):
            found = self._track.seek(second)
            frames = frames_after(self._decode(), second) if found else None
            if frames:
                self._clock.decoded = float(second)
                return frames
            self._track.seek(0)
            self._damaged, self._damaged_at = 0, None
            self._track.cut_off = None
        return self._decode()

    def _decode(self) -> Iterator[Stamped]:
        """Yield all frames that can be decoded, until the file ends or is cut off."""
        elementary = self._track.format in elementary_streams.FORMATS
        lost_time = LostTime() if elementary else None
        origin = self._track.start  # the stamp at which the recording starts
        doubtful = False  # frames may be missing before the next frame
        for packet in self._track.packets():
            self._last = packet if packet.size else self._last
            frames = frames_of(packet)
            before = origin
            if lost_time:
                origin -= lost_time.at(packet, damaged=frames is None)
            if frames is None and not (lost_time and lost_time.in_tag):
                self._note_damage(packet, before)
                doubtful = True
            if packet.size and packet.pts is None:  # FFmpeg had to search for the next frame
                doubtful = True
            for frame in frames or ():
                stamp = usable(frame.time)
                time = None if stamp is None else stamp - origin
                yield Stamped(frame, time, doubtful, packet.pos)
                doubtful = False

    def _silence(self, end: float, yielded: int) -> Iterator[ChannelBlock | Samples]:
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
        message = (
            "contains no sound that can be decoded; check whether the file is damaged or its "
            "name has the wrong extension"
        )
        names = listed(self._track.all_tracks)
        return (
            f"{message}. Track {self._track.number} of several was read: {names}"
            if names
            else message
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

    def _note_damage(self, packet: "Packet[AudioStream]", start: float) -> None:
        self._damaged += 1
        if self._damaged_at is None:
            time, base = packet.pts if packet.pts is not None else packet.dts, packet.time_base
            stamped = float(time * base) - start if time is not None and base else None
            self._damaged_at = self._clock.decoded if stamped is None else stamped

    def _first_frame(self, options: Options) -> Stamped:
        """Decode the first frame early, so that an unusable recording is refused at once."""
        first = next(self._frames, None)
        if first is None:
            raise AudioError(self._no_sound(), source=self._name) from self._track.cut_off
        frame = first.frame
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
        return first

    def _note_gap(self, placed: Placed) -> None:
        """Note missing audio; silence before the first frame is none: the sound starts late."""
        before = placed.start - placed.gap
        if before:
            self._missing += placed.gap
            self._damaged_at = before if self._damaged_at is None else self._damaged_at
