"""Decoding of media to blocks of mono samples at 16 kHz, by PyAV (FFmpeg).

Every block keeps its exact place in the recording. Audio that the decoder cannot return becomes
silence: damaged frames, missing frames, and the time before the sound if the sound starts later
than the picture.

    frames by their times   [f0][f1][f2]      [f5][f6]
    blocks                  [f0][f1][f2][sile][f5][f6]

`MediaDecoder` can begin at a later sample, with exactly the samples of a reading from the start.

    recording   |----------------|----------------------------
    decoded                  [=1 s=][===============  from a whole second on
    yielded                        [===============  from the requested sample on

A decoder of a lossy format keeps state, so its samples after a seek differ from those of a reading
from the start. Only uncompressed and lossless formats, whose time stamps are exact, are therefore
read by seeking. All others are decoded from their start, which takes little time.

The resampler begins at a whole second, because the sampling rates of a second always fit. Its
first 30 samples depend on earlier audio, so it begins a second early.
"""

import logging
from collections.abc import Iterator, Sequence
from contextlib import closing
from itertools import chain, islice
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any, BinaryIO, Final

import numpy as np
from av.audio.frame import AudioFrame

from whisperbatch.audio import clock
from whisperbatch.audio.clips import check_separate, with_channels
from whisperbatch.audio.clock import Clock, LostTime, Placed, Stamped, usable
from whisperbatch.audio.extent import Ended, Parts, report_missing
from whisperbatch.audio.file_objects import FileObject, given_name, reads_out_of_order
from whisperbatch.audio.mixing import Mixer
from whisperbatch.audio.random_access import open_track
from whisperbatch.audio.resampling import BLOCK, MAX_LEVEL, ChannelBlock, Delivery, open_resampler
from whisperbatch.audio.track import ChooseTrack, Track, frames_of, listed
from whisperbatch.errors import AudioError, OptionError
from whisperbatch.options import MAX_SAMPLING_RATE, MIN_SAMPLING_RATE, Channel, Options
from whisperbatch.types import SAMPLING_RATE, Notices, Samples, to_samples

if TYPE_CHECKING:
    from av.audio.stream import AudioStream
    from av.packet import Packet

log = logging.getLogger(__name__)

LEAD: Final = 1  # seconds that are read before the requested sample and left out
EXACT_FORMATS: Final = frozenset({"wav", "flac"})  # FFmpeg's names of containers
MAX_CHANNELS: Final = 7  # PyAV cannot fill frames with more


def whole_second(sample: int) -> int:
    """Return the second from which reading begins, so that a sample at 16 kHz is exact."""
    return max(sample // SAMPLING_RATE - LEAD, 0)


def seeks_exactly(track: Track, file: str | FileObject) -> bool:
    """Return whether a seek gives exactly the samples of a reading from the start.

    True for uncompressed WAV and for FLAC, in a regular file or a file object that can seek.
    """
    exact = track.codec == "flac" or track.codec.startswith("pcm_")
    in_exact_format = exact and track.format in EXACT_FORMATS and not track.start
    return in_exact_format and reads_out_of_order(file)


def frames_after(frames: Iterator[Stamped], second: int) -> Iterator[Stamped] | None:
    """Return the frames from exactly a second on; the first is cut there.

    Returns:
        None if the frames begin later or end before, or cannot be cut.
    """
    for stamped in frames:
        frame = stamped.frame
        if frame.pts is None or frame.time_base is None or frame.layout.nb_channels > MAX_CHANNELS:
            return None
        first = round(frame.pts * frame.time_base * frame.sample_rate)
        skipped = second * frame.sample_rate - first
        if skipped < 0:
            return None
        if skipped < frame.samples:
            return chain((Stamped(_cut(frame, skipped), float(second)),), frames)
    return None


def _cut(frame: AudioFrame, skipped: int) -> AudioFrame:
    if not skipped:
        return frame
    values = skipped if frame.format.is_planar else skipped * frame.layout.nb_channels
    samples: Any = np.ascontiguousarray(frame.to_ndarray()[:, values:])
    cut = AudioFrame.from_ndarray(samples, format=frame.format.name, layout=frame.layout.name)
    cut.sample_rate = frame.sample_rate
    return cut


class MediaDecoder:
    """Decoder of one audio track of a media file. Frames are decoded when blocks are requested.

    Args:
        name: name of the recording, for messages.
        file: a path, a URL, or a file object, which stays open.
        options: the track and the channel.
        notices: of the recording; facts that its user must know are added.
        start: sample of the recording that is needed first. If possible, decoding begins a little
            before this sample (`seeks_exactly`), and otherwise at the start of the file.
        choose: chooses the track if the options name none; None takes the preferred track.

    Attributes:
        position: the first sample of `blocks`, counted in the recording; at most `start`.
        track: number of the audio track.
        duration: seconds that the container states; None if it states none.
        is_pcm: whether the track is uncompressed.

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
        self.duration = self._track.duration or None
        self.is_pcm = self._track.codec.startswith("pcm_")
        self._parts = Parts(self._track.file)
        self._clock = Clock(self._track, self._parts, notices)
        channel: Delivery = "each" if options.separates_channels else options.channel
        self._resampler = open_resampler(name, channel)
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
            if not (block.min() >= -MAX_LEVEL and block.max() <= MAX_LEVEL):  # true for NaN
                np.clip(block, -MAX_LEVEL, MAX_LEVEL, out=block, where=np.isfinite(block))
            yield block

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
        elementary = self._track.format in clock.FORMATS
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
            raise OptionError(
                f"`channel='right'`: {self._name} has one channel; leave `channel` out"
            )
        return first

    def _note_gap(self, placed: Placed) -> None:
        """Note missing audio; silence before the first frame is none: the sound starts late."""
        before = placed.start - placed.gap
        if before:
            self._missing += placed.gap
            self._damaged_at = before if self._damaged_at is None else self._damaged_at


def decode_audio(
    file: str | PathLike[str] | BinaryIO,
    channels: Sequence[Channel] = ("mix",),
    sampling_rate: int = SAMPLING_RATE,
) -> list[Samples]:
    """Decode the first audio track of a file completely into memory.

    Args:
        file: a path, or an open binary file; the file stays open.
        channels: the channels to return. At 16 kHz, "mix" keeps the speech of all channels as
            `AudioReader.blocks` does; at other rates, it is the plain mix. If the
            recording has only one channel, "left" and "right" both return this channel.
        sampling_rate: sampling rate of the returned samples, in Hz.

    Returns:
        One array for each of `channels`: float32 samples of shape (n_samples,).

    Raises:
        AudioError: the file cannot be read or has no audio track.
    """
    path = fspath(file) if isinstance(file, PathLike) else file
    name = path if isinstance(path, str) else str(given_name(path) or "<file>")
    opened = path if isinstance(path, str) else FileObject(name, path)
    resamplers = [open_resampler(name, channel, sampling_rate) for channel in channels]
    blocks: list[list[Samples | ChannelBlock]] = [[] for _ in channels]
    for frame in _frames(name, opened):
        for channel_blocks, resampler in zip(blocks, resamplers, strict=True):
            channel_blocks.extend(resampler.push(frame))
    for channel_blocks, resampler in zip(blocks, resamplers, strict=True):
        channel_blocks.extend(resampler.flush())
    empty = np.zeros(0, np.float32)
    return [np.concatenate([empty, *Mixer(None)(part)]) for part in blocks]


def _frames(name: str, file: str | FileObject) -> Iterator["AudioFrame"]:
    """Yield the frames of the first audio track; frames that cannot be decoded are skipped."""
    with closing(Track(name, file)) as track:
        for packet in track.packets():
            yield from frames_of(packet) or ()


PACKETS: Final = 20
# Damaged packets for each packet that decodes. FFmpeg takes some programs for MPEG streams: of
# 1,066 programs, five had a packet that decodes, and none passed this limit.
MAX_DAMAGED: Final = 0.25


def is_recording(name: str, file: BinaryIO) -> bool:
    """Return whether FFmpeg can read sound from a file.

    Args:
        name: name of the file; the formats of some files are known only from their suffix.
        file: opened for reading; FFmpeg opens no other file or address.
    """
    decoded = damaged = 0
    try:
        with closing(Track(name, FileObject(name, file))) as track:
            for packet in islice(track.packets(), PACKETS):
                frames = frames_of(packet)
                damaged += frames is None
                decoded += bool(frames)
    except AudioError:
        return False
    return decoded > 0 and damaged <= MAX_DAMAGED * decoded
