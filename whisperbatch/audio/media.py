"""Media -> blocks of mono samples at 16 kHz, by PyAV (FFmpeg).

A block's place in the recording is exact. What a decoder cannot give, because frames are damaged
or missing or the sound begins later than the picture, is filled with silence:

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

RATES: Final = (1_000, 768_000)  # Hz: the sampling rates that make sense
JITTER: Final = 0.1  # seconds that a frame's time may be off without there being a gap
LOST: Final = 0.01  # the same after damage: shorter than a frame of most codecs, which last 20 ms
UNSAID_GAP: Final = 60.0  # seconds believed where the container does not say how long it is
LONGEST_GAP: Final = 86_400.0  # seconds believed at all: its length may come of an absurd time
RESTARTS: Final = 1000  # in a row
LOUDEST: Final = 4.0  # 12 dB over full scale; damaged frames decode to anything, 1e37 was seen

if TYPE_CHECKING:
    from av.packet import Packet

log = logging.getLogger(__name__)


class MediaDecoder:
    """One audio track of a media file, decoded as it is asked for.

    Args:
        name: of the recording, for messages.
        file: a path, a URL, or an open binary file or pipe, which is left open.
        options: which track, which channel.

    Raises:
        AudioError: it cannot be read, has no such track, or no frame that can be decoded.
        OptionError: it has no such channel.
    """

    def __init__(self, name: str, file: str | BinaryIO, options: AudioOptions) -> None:
        self._name = name
        self._damaged = 0  # packets that could not be decoded
        self._missing = 0.0  # seconds of silence that stand for them and for what is not there
        self._damaged_at: float | None = None  # where the first of either lies, in seconds
        self._doubtful = False  # whether frames may be missing before the next
        self._cut_off: av.FFmpegError | None = None  # why nothing more can be read
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
        """Mono samples at 16 kHz, in order, none empty.

        Damaged frames are passed over; one warning says where the first is, and how many.
        """
        for block in self._blocks():
            # a burst beyond all bounds would hide the speech beside it; NaN and inf are reported
            yield np.clip(block, -LOUDEST, LOUDEST, out=block, where=np.isfinite(block))

    def close(self) -> None:
        """Close the container. Safe to call twice."""
        self._container.close()

    def _blocks(self) -> Iterator[Samples]:
        decoded = 0.0  # seconds of the recording that frames and gaps have filled
        given = 0  # samples
        for frame in chain((self._first,), self._frames):
            gap, decoded = self._gap(frame, decoded)
            for block in self._silence(decoded, given) if gap else ():
                given += len(block)
                yield block
            decoded += frame.samples / frame.sample_rate
            for block in self._resampler.push(frame):
                given += len(block)
                yield block
        yield from self._resampler.flush()
        self._warn(decoded)

    def _decode(self) -> Iterator[AudioFrame]:
        """Frames that can be decoded, up to where the file ends or is cut off."""
        lost = LostTime() if self._container.format.name in elementary_streams.FORMATS else None
        for packet in self._packets():
            try:
                frames = packet.decode()
            except (av.FFmpegError, ValueError):  # ValueError: an impossible rate or layout
                frames = None
            at = self._start
            if lost:
                self._start -= lost.at(packet, damaged=frames is None)
            if frames is None and not (lost and lost.in_tag):
                self._note(packet, at)
                self._doubtful = True
            if packet.size and packet.pts is None:  # FFmpeg had to search for a frame
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
                # PyAV 18: a track that was not there at first; FFmpeg: go on with the next packet
                restarts += 1
                if restarts > RESTARTS:
                    raise AudioError(f"cannot be read: {error}", source=self._name) from error
                packets = self._container.demux(self._stream)
                continue
            except Exception as error:  # a caller's file may raise anything
                if not isinstance(error, av.FFmpegError) or isinstance(error, OSError):
                    raise AudioError(f"cannot be read: {error}", source=self._name) from error
                self._cut_off = error
                return
            if packet is None:
                return
            restarts = 0
            yield packet

    def _silence(self, until: float, given: int) -> Iterator[Samples]:
        """What the resampler has left, then silence, so that `until` seconds are filled."""
        for block in self._resampler.flush():
            given += len(block)
            yield block
        while (left := to_samples(until) - given) > 0:
            given += min(left, BLOCK)
            yield np.zeros(min(left, BLOCK), np.float32)

    def _no_sound(self) -> str:
        """Why there is not one frame, and the mend."""
        if self._cut_off and "mp4" in self._container.format.name:
            return (
                "its index is missing or, in a pipe, comes too late; give the whole file by its "
                "path, or have it written with the index first (faststart)"
            )
        return (
            "holds no sound that can be decoded; is it damaged, or of another format than its "
            "name says?"
        )

    def _warn(self, decoded: float) -> None:
        if self._damaged_at is not None:
            log.warning(
                "%s: %d damaged frame(s), %.2f s missing, the first at %.2f s: left silent",
                self._name,
                self._damaged,
                self._missing,
                self._damaged_at,
            )
        if self._cut_off:
            log.warning("%s: is cut off or damaged at %.2f s", self._name, decoded)

    def _note(self, packet: "Packet[AudioStream]", start: float) -> None:
        self._damaged += 1
        if self._damaged_at is None:
            at, base = packet.pts if packet.pts is not None else packet.dts, packet.time_base
            self._damaged_at = float(at * base) - start if at is not None and base else 0.0

    def _first_frame(self, channel: Channel) -> AudioFrame:
        """Decoded at once, so that a recording that cannot be is refused before any work."""
        frame = next(self._frames, None)
        if frame is None:
            raise AudioError(self._no_sound(), source=self._name) from self._cut_off
        if not RATES[0] <= frame.sample_rate <= RATES[1]:
            raise AudioError(
                f"states a sampling rate of {frame.sample_rate} Hz; is its header damaged?",
                source=self._name,
            )
        channels = frame.layout.nb_channels
        if channel == "right" and channels < 2:  # noqa: PLR2004 - the second channel
            raise OptionError(f"channel='right': {self._name} has one channel; leave it at 'mix'")
        return frame

    def _gap(self, frame: AudioFrame, decoded: float) -> tuple[float, float]:
        """Seconds of silence before `frame`, and where in the recording it then begins.

        Times that no gap explains are believed no longer: the clock is set by what was decoded.
        """
        if frame.pts is None or frame.time_base is None:
            return 0.0, decoded
        time = float(frame.pts * frame.time_base) - self._start
        gap = time - decoded
        least, self._doubtful = LOST if self._doubtful else JITTER, False
        if -JITTER <= gap <= least:
            return 0.0, decoded
        duration = self._container.duration  # in microseconds
        most = duration / av.time_base + JITTER - decoded if duration else UNSAID_GAP
        if gap < 0 or gap > min(most, LONGEST_GAP):
            self._start += gap
            return 0.0, decoded
        if decoded:  # before the first frame nothing is missing: the sound begins late
            self._missing += gap
            self._damaged_at = decoded if self._damaged_at is None else self._damaged_at
        return gap, time


def open_container(name: str, file: str | BinaryIO) -> InputContainer:
    """What FFmpeg makes of a file.

    Raises:
        AudioError: it cannot be opened, or is no media.
    """
    try:
        # "file:", since FFmpeg takes what precedes a colon for a protocol: "12:30 notes.mp3"
        url = f"file:{file}" if isinstance(file, str) and "://" not in file else file
        return av.open(url, mode="r", metadata_errors="ignore")
    except (av.InvalidDataError, av.EOFError) as error:
        hint = "" if isinstance(file, str) else "; if it was read before, seek(0) first"
        raise AudioError(
            f"is not media that FFmpeg can read, or is cut off at its start{hint}", source=name
        ) from error
    except Exception as error:  # a caller's file may raise anything
        reason = getattr(error, "strerror", None) or error
        raise AudioError(f"cannot be opened: {reason}", source=name) from error


def find_track(name: str, container: InputContainer, track: int) -> AudioStream:
    """One audio track, from 0.

    Raises:
        AudioError: there is none such.
    """
    tracks = container.streams.audio
    if not tracks:
        raise AudioError("has no audio track; give a recording with sound", source=name)
    if track >= len(tracks):
        raise AudioError(
            f"track={track}, but it has {len(tracks)} audio track(s), counted from 0", source=name
        )
    return tracks[track]


def stated_duration(path: str) -> float | None:
    """Seconds that a file says it has; None where it does not, or cannot be opened."""
    try:
        with open_container(path, path) as container:
            return container.duration / av.time_base if container.duration else None
    except AudioError:
        return None


def start_time(container: InputContainer) -> float:
    """When the container begins, in seconds: players count from there."""
    return container.start_time / av.time_base if container.start_time is not None else 0.0
