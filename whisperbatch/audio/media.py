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
from typing import TYPE_CHECKING, BinaryIO, Final

import av
import numpy as np
from av.audio.frame import AudioFrame
from av.audio.stream import AudioStream
from av.container import InputContainer

from whisperbatch.audio import elementary_streams
from whisperbatch.audio.elementary_streams import LostTime
from whisperbatch.audio.resampling import BLOCK, Resampler
from whisperbatch.errors import AudioError, OptionError
from whisperbatch.options import AudioOptions, Channel
from whisperbatch.types import Samples, to_samples

MIN_RATE: Final = 1_000  # Hz: a lower sampling rate is an error
MAX_RATE: Final = 768_000  # Hz: a higher sampling rate is an error
JITTER: Final = 0.1  # seconds: a smaller deviation of a frame's time is not a gap
JITTER_AFTER_DAMAGE: Final = 0.01  # seconds: less than a frame, which lasts 20 ms in most codecs
MAX_GAP: Final = 86_400.0  # seconds: a larger gap comes from an absurd time stamp
MAX_GAP_UNTIMED: Final = 60.0  # seconds, if the container states no duration
MAX_RESTARTS: Final = 1000  # of demuxing, in a row
MAX_LEVEL: Final = 4.0  # 12 dB above full scale; damaged frames decoded to values up to 1e37

if TYPE_CHECKING:
    from av.packet import Packet

log = logging.getLogger(__name__)


class MediaDecoder:
    """Decoder of one audio track of a media file. Frames are decoded when blocks are requested.

    Args:
        name: name of the recording, for messages.
        file: a path, a URL, or an open binary file or pipe, which stays open.
        options: the track and the channel.

    Raises:
        AudioError: the file cannot be read, or lacks the track, or no frame can be decoded.
        OptionError: the file lacks the channel.
    """

    def __init__(self, name: str, file: str | BinaryIO, options: AudioOptions) -> None:
        self._name = name
        self._decoded = 0.0  # seconds of the recording that frames and gaps have filled
        self._damaged = 0  # number of packets that could not be decoded
        self._missing = 0.0  # seconds of silence that replace damaged and missing frames
        self._damaged_at: float | None = None  # time of the first damaged or missing frame
        self._doubtful = False  # frames may be missing before the next frame
        self._cut_off: av.FFmpegError | None = None  # the error that ended reading
        self._container = open_container(name, file)
        try:
            self._stream = find_track(name, self._container, options.track)
            self._resampler = Resampler(options.channel)
            self._start = start_time(self._container)
            self._frames = self._decode()
            self._first = self._first_frame(options.channel)
        except BaseException:
            self.close()
            raise

    def blocks(self) -> Iterator[Samples]:
        """Yield mono samples at 16 kHz, in order; no block is empty.

        Damaged frames become silence. One warning at the end states how many frames are
        damaged, and the time of the first.
        """
        for block in self._blocks():
            # A burst of 1e37 would hide the speech next to it, so the level is limited. NaN and
            # infinite samples stay, because the reader reports them.
            yield np.clip(block, -MAX_LEVEL, MAX_LEVEL, out=block, where=np.isfinite(block))

    def close(self) -> None:
        """Close the container. Safe to call twice."""
        self._container.close()

    def _blocks(self) -> Iterator[Samples]:
        yielded = 0  # samples
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

    def _decode(self) -> Iterator[AudioFrame]:
        """Yield all frames that can be decoded, until the file ends or is cut off."""
        elementary = self._container.format.name in elementary_streams.FORMATS
        lost_time = LostTime() if elementary else None
        for packet in self._packets():
            try:
                frames = packet.decode()
            except (av.FFmpegError, ValueError):  # ValueError: an impossible rate or layout
                frames = None
            start = self._start
            if lost_time:
                self._start -= lost_time.at(packet, damaged=frames is None)
            if frames is None and not (lost_time and lost_time.in_tag):
                self._note_damage(packet, start)
                self._doubtful = True
            if packet.size and packet.pts is None:  # FFmpeg had to search for the next frame
                self._doubtful = True
            for frame in frames or ():
                if isinstance(frame, AudioFrame) and frame.samples and frame.sample_rate:
                    yield frame

    def _packets(self) -> Iterator["Packet[AudioStream]"]:
        packets = self._container.demux(self._stream)
        restarts = 0
        while True:
            try:
                packet = next(packets, None)
            except (IndexError, av.BlockingIOError) as error:
                # IndexError: PyAV 18 met a track that did not exist at the start of the file.
                # BlockingIOError: FFmpeg asks to continue with the next packet.
                restarts += 1
                if restarts > MAX_RESTARTS:
                    raise AudioError(f"cannot be read: {error}", source=self._name) from error
                packets = self._container.demux(self._stream)
                continue
            except Exception as error:  # a file object of the caller may raise anything
                if not isinstance(error, av.FFmpegError) or isinstance(error, OSError):
                    raise AudioError(f"cannot be read: {error}", source=self._name) from error
                self._cut_off = error
                return
            if packet is None:
                return
            restarts = 0
            yield packet

    def _silence(self, end: float, yielded: int) -> Iterator[Samples]:
        """Yield the samples left in the resampler, then silence up to `end` (in seconds)."""
        for block in self._resampler.flush():
            yielded += len(block)
            yield block
        while (missing := to_samples(end) - yielded) > 0:
            yielded += min(missing, BLOCK)
            yield np.zeros(min(missing, BLOCK), np.float32)

    def _no_sound(self) -> str:
        """Return the message for a file without any frame: the reason and the remedy."""
        if self._cut_off and "mp4" in self._container.format.name:
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
        if self._cut_off:
            log.warning("%s: is cut off or damaged at %.2f s", self._name, self._decoded)

    def _note_damage(self, packet: "Packet[AudioStream]", start: float) -> None:
        self._damaged += 1
        if self._damaged_at is None:
            time, base = packet.pts if packet.pts is not None else packet.dts, packet.time_base
            stamped = float(time * base) - start if time is not None and base else None
            self._damaged_at = self._decoded if stamped is None else stamped

    def _first_frame(self, channel: Channel) -> AudioFrame:
        """Decode the first frame early, so that an unusable recording is refused at once."""
        frame = next(self._frames, None)
        if frame is None:
            raise AudioError(self._no_sound(), source=self._name) from self._cut_off
        if not MIN_RATE <= frame.sample_rate <= MAX_RATE:
            raise AudioError(
                f"states a sampling rate of {frame.sample_rate} Hz, which is not between "
                f"{MIN_RATE} and {MAX_RATE} Hz; check whether the header is damaged",
                source=self._name,
            )
        channels = frame.layout.nb_channels
        if channel == "right" and channels < 2:  # noqa: PLR2004 - the second channel
            raise OptionError(f"channel='right': {self._name} has one channel; leave channel out")
        return frame

    def _gap(self, frame: AudioFrame, decoded: float) -> tuple[float, float]:
        """Find a gap in the time stamps before `frame`.

        A time stamp that no gap can explain is ignored: the clock is set to the decoded time.

        Args:
            frame: the next frame.
            decoded: seconds of the recording before the frame by the decoded samples.

        Returns:
            The seconds of silence before the frame, and the frame's start in seconds.
        """
        if frame.pts is None or frame.time_base is None:
            return 0.0, decoded
        time = float(frame.pts * frame.time_base) - self._start
        gap = time - decoded
        tolerance = JITTER_AFTER_DAMAGE if self._doubtful else JITTER
        self._doubtful = False
        if -JITTER <= gap <= tolerance:
            return 0.0, decoded
        duration = self._container.duration  # in microseconds
        limit = duration / av.time_base + JITTER - decoded if duration else MAX_GAP_UNTIMED
        if gap < 0 or gap > min(limit, MAX_GAP):
            self._start += gap
            return 0.0, decoded
        if decoded:  # a gap before the first frame is not damage: the sound starts late
            self._missing += gap
            self._damaged_at = decoded if self._damaged_at is None else self._damaged_at
        return gap, time


def open_container(name: str, file: str | BinaryIO) -> InputContainer:
    """Open a media file with FFmpeg.

    Raises:
        AudioError: the file cannot be opened or is not media.
    """
    try:
        # "file:", because FFmpeg takes the text before a colon for a protocol: "12:30 notes.mp3"
        url = f"file:{file}" if isinstance(file, str) and "://" not in file else file
        return av.open(url, mode="r", metadata_errors="ignore")
    except (av.InvalidDataError, av.EOFError) as error:
        hint = "" if isinstance(file, str) else "; if the file was read before, call seek(0) first"
        raise AudioError(
            f"is not media that FFmpeg can read, or is cut off at its start{hint}", source=name
        ) from error
    except Exception as error:  # a file object of the caller may raise anything
        reason = getattr(error, "strerror", None) or error
        raise AudioError(f"cannot be opened: {reason}", source=name) from error


def find_track(name: str, container: InputContainer, track: int) -> AudioStream:
    """Return an audio track by its number, counted from 0.

    Raises:
        AudioError: the container has no audio track of this number.
    """
    tracks = container.streams.audio
    if not tracks:
        raise AudioError("has no audio track; give a recording with sound", source=name)
    if track >= len(tracks):
        raise AudioError(
            f"track={track} does not exist: the file has {len(tracks)} audio track(s), "
            "counted from 0",
            source=name,
        )
    return tracks[track]


def stated_duration(path: str) -> float | None:
    """Return the duration that a file states, in seconds; None if it is unknown or unreadable."""
    try:
        with open_container(path, path) as container:
            return container.duration / av.time_base if container.duration else None
    except AudioError:
        return None


def start_time(container: InputContainer) -> float:
    """Return the time stamp at which the container starts, in seconds: players count from it."""
    return container.start_time / av.time_base if container.start_time is not None else 0.0
