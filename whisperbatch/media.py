"""Media -> blocks of mono samples at 16 kHz, by PyAV (FFmpeg): the only file that knows it.

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
import numpy.typing as npt
from av.audio.frame import AudioFrame
from av.audio.resampler import AudioResampler
from av.audio.stream import AudioStream
from av.container import InputContainer

from whisperbatch.errors import AudioError, OptionError
from whisperbatch.options import AudioOptions, Channel
from whisperbatch.types import SAMPLING_RATE, Samples, to_samples

BLOCK: Final = SAMPLING_RATE  # samples of silence given at a time
JITTER: Final = 0.1  # seconds that a frame's time may be off without there being a gap
BARE: Final = frozenset({"mp3", "aac"})  # formats that are frames and nothing else
LONGEST_GAP: Final = 60.0  # seconds believed where the container does not say how long it is

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
        self._damaged_at = 0.0  # where the first of them lies, in seconds
        self._end: int | None = None  # byte after the last packet
        self._container = _open(name, file)
        try:
            self._stream = _track(name, self._container, options.track)
            self._resampler = Resampler(options.channel)
            self._start = _start_time(self._container)
            self._frames = self._decode()
            self._first = self._first_frame(options.channel)
        except BaseException:
            self.close()
            raise

    def blocks(self) -> Iterator[Samples]:
        """Mono samples at 16 kHz, in order, none empty.

        Damaged frames are passed over; one warning says where the first is, and how many.
        """
        decoded = 0.0  # seconds of the recording that blocks have filled
        for frame in chain((self._first,), self._frames):
            gap, decoded = self._gap(frame, decoded)
            if gap:
                yield from self._resampler.flush()
                yield from silence(gap)
            decoded += frame.samples / frame.sample_rate
            yield from self._resampler.push(frame)
        yield from self._resampler.flush()
        if self._damaged:
            log.warning(
                "%s: %d damaged frame(s), the first at %.2f s: silence stands for them",
                self._name,
                self._damaged,
                self._damaged_at,
            )

    def close(self) -> None:
        """Close the container. Safe to call twice."""
        self._container.close()

    def _decode(self) -> Iterator[AudioFrame]:
        """Frames that can be decoded, up to where the file ends or is cut off."""
        for packet in self._packets():
            try:
                frames = packet.decode()
            except (av.FFmpegError, ValueError):  # ValueError: an impossible rate or layout
                frames = None
            lost = self._passed_over(packet, damaged=frames is None)
            if lost or frames is None:
                self._note(packet)
            self._start -= lost
            for frame in frames or ():
                if isinstance(frame, AudioFrame) and frame.samples and frame.sample_rate:
                    yield frame

    def _packets(self) -> Iterator["Packet[AudioStream]"]:
        packets = self._container.demux(self._stream)
        while True:
            try:
                packet = next(packets, None)
            except av.FFmpegError as error:
                log.warning("%s: is cut off or damaged: %s", self._name, error.strerror)
                return
            if packet is None:
                return
            yield packet

    def _passed_over(self, packet: "Packet[AudioStream]", *, damaged: bool) -> float:
        """Seconds lost at `packet` that its time does not show: what else its bytes would hold.

        Bare streams have no times of their own. FFmpeg numbers their frames as if the bytes that
        are no frame had not been there.
        """
        if self._container.format.name not in BARE or packet.pos is None or not packet.size:
            return 0.0
        before = packet.pos - self._end if self._end is not None else 0
        self._end = packet.pos + packet.size
        rate = self._stream.codec_context.bit_rate
        if not rate or not (damaged or before > 0):
            return 0.0
        seconds = (max(before, 0) + packet.size) * 8 / rate
        return max(seconds - float((packet.duration or 0) * packet.time_base), 0.0)

    def _note(self, packet: "Packet[AudioStream]") -> None:
        if not self._damaged:
            at = packet.pts if packet.pts is not None else packet.dts
            base = packet.time_base
            self._damaged_at = float(at * base) - self._start if at is not None and base else 0.0
        self._damaged += 1

    def _first_frame(self, channel: Channel) -> AudioFrame:
        """Decoded at once, so that a recording that cannot be is refused before any work."""
        try:
            frame = next(self._frames, None)
        except OSError as error:  # a file object's own
            raise AudioError(f"cannot be read: {error}", source=self._name) from error
        if frame is None:
            raise AudioError(
                "holds no sound that can be decoded; is it damaged, or of another format than its "
                "name says?",
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
        if abs(gap) <= JITTER:
            return 0.0, decoded
        duration = self._container.duration  # in microseconds
        most = duration / av.time_base + JITTER - decoded if duration else LONGEST_GAP
        if gap < 0 or gap > most:
            self._start += gap
            return 0.0, decoded
        return gap, time


def silence(seconds: float) -> Iterator[Samples]:
    """That much of it, in blocks."""
    left = to_samples(seconds)
    while left:
        yield np.zeros(min(left, BLOCK), np.float32)
        left -= min(left, BLOCK)


class Resampler:
    """Frames of any rate, layout and format -> mono samples at 16 kHz, streamed.

    Args:
        channel: "mix", or the one to take.
    """

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._resampler: AudioResampler | None = None
        self._source: tuple[str, str, int] | None = None

    def push(self, frame: AudioFrame) -> Iterator[Samples]:
        """The samples that `frame` completes."""
        source = (frame.format.name, frame.layout.name, frame.sample_rate)
        if source != self._source:  # the first frame, or the track has changed its format
            yield from self.flush()
            # two channels are averaged here: FFmpeg's own mix of them is 3 dB louder than either
            mixed = self._channel == "mix" and frame.layout.nb_channels > 2  # noqa: PLR2004
            layout = "mono" if mixed else frame.layout
            self._resampler = AudioResampler(format="fltp", layout=layout, rate=SAMPLING_RATE)
            self._source = source
        frame.pts = None  # its place is known already
        yield from self._resample(frame)

    def push_samples(self, samples: Samples, rate: int) -> Iterator[Samples]:
        """The same for mono float32 samples."""
        frame = AudioFrame.from_ndarray(samples[None], format="fltp", layout="mono")
        frame.sample_rate = rate
        yield from self.push(frame)

    def flush(self) -> Iterator[Samples]:
        """What is still held back."""
        yield from self._resample(None)
        self._resampler = self._source = None

    def _resample(self, frame: AudioFrame | None) -> Iterator[Samples]:
        if self._resampler is None:
            return
        for resampled in self._resampler.resample(frame):
            planes = resampled.to_ndarray().astype(np.float32, copy=False)  # (channels, n_samples)
            if planes.size:
                yield self._choose(planes)

    def _choose(self, planes: npt.NDArray[np.float32]) -> Samples:
        if self._channel == "mix" and len(planes) > 1:
            samples: Samples = planes.mean(axis=0, dtype=np.float32)
        else:
            samples = planes[1 if self._channel == "right" and len(planes) > 1 else 0]
        return samples


def _open(name: str, file: str | BinaryIO) -> InputContainer:
    try:
        return av.open(file, mode="r", metadata_errors="ignore")
    except av.InvalidDataError as error:
        raise AudioError(
            "is not media that FFmpeg can read, or is cut off at its start", source=name
        ) from error
    except (av.FFmpegError, OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise AudioError(f"cannot be opened: {reason}", source=name) from error


def _track(name: str, container: InputContainer, track: int) -> AudioStream:
    tracks = container.streams.audio
    if not tracks:
        raise AudioError("has no audio track", source=name)
    if track >= len(tracks):
        raise AudioError(
            f"track={track}, but its audio tracks are 0 to {len(tracks) - 1}", source=name
        )
    return tracks[track]


def _start_time(container: InputContainer) -> float:
    """When the container begins, in seconds: players count from there."""
    return container.start_time / av.time_base if container.start_time is not None else 0.0
