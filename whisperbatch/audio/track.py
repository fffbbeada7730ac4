"""An audio track of a media file, opened by PyAV (FFmpeg).

All calls of FFmpeg that open, demux, seek and decode are here. Errors of FFmpeg become AudioError,
or mark a damaged packet.
"""

from collections.abc import Iterator
from contextlib import closing, nullcontext
from itertools import starmap
from typing import TYPE_CHECKING, Final, TypeAlias

import av
from av.audio.frame import AudioFrame
from av.container import InputContainer

from whisperbatch.audio.file_objects import FileObject
from whisperbatch.audio.inputs.big_endian import RifxFile, open_rifx
from whisperbatch.audio.inputs.http_answers import PLAYLISTS, HttpAnswer, is_http
from whisperbatch.audio.timing.clock import RESETTING, OtherTracks
from whisperbatch.audio.tracks.info import TrackInfo, info_of, listed, preferred
from whisperbatch.audio.tracks.pyav import open_ignoring_metadata, tags_of
from whisperbatch.boundary import describe
from whisperbatch.errors import AudioError

if TYPE_CHECKING:
    from av.audio.stream import AudioStream
    from av.packet import Packet

OwnFile: TypeAlias = RifxFile | HttpAnswer | None
SHARED_CLOCKS: Final = RESETTING | {"asf", "flv", "matroska,webm"}
"""FFmpeg's names of formats in which the times of other tracks tell a gap or a complete file."""
MAX_RESTARTS: Final = 1000  # of demuxing, in a row
NOTHING_ELSE: Final = {"protocol_whitelist": "none"}  # FFmpeg opens only the given file
# Headers of the next stream in a chained Ogg file; FFmpeg 7 gives them to the decoder.
OGG_HEADERS: Final = (b"OpusHead", b"OpusTags", b"\x01vorbis", b"\x03vorbis", b"\x05vorbis")


class Track:
    """An audio track of an open media file.

    Args:
        name: name of the recording, for messages.
        file: a path, a URL, or a file object.
        number: number of the track, counted from 0; None for the preferred track (`tracks.info`).

    Attributes:
        all_tracks: the audio tracks of the file.
        number: number of this track.
        format: FFmpeg's names of the container's format, separated by commas.
        codec: FFmpeg's name of the decoder; empty if there is none.
        start: time stamp at which the container starts, in seconds: players count from it.
        duration: duration in seconds that the container states or FFmpeg estimates; 0 if unknown.
        file: the path, URL or file object that FFmpeg reads.
        cut_off: the error of FFmpeg that ended `packets` early; None before.
        others: the times of the packets of all other tracks.

    Raises:
        AudioError: the file cannot be opened, is not media, or has no such track.
    """

    def __init__(self, name: str, file: str | FileObject, number: int | None = None) -> None:
        self._name = name
        self._container, self.file, self._own_file = _open(name, file)
        try:
            streams = self._container.streams.audio
            self.all_tracks = tuple(starmap(info_of, enumerate(streams)))
            self._stream = self._find(number)
            self.format: str = self._container.format.name
            context = getattr(self._stream, "codec_context", None)
            self.codec: str = context.name if context else ""
            start = self._container.start_time
            self.start = start / av.time_base if start is not None else 0.0
            self.duration = (self._container.duration or 0) / av.time_base
        except BaseException:
            self.close()
            raise
        self.cut_off: av.FFmpegError | None = None
        self.others = OtherTracks()
        # Packets of the picture cost time; in MP4, for example, each track has its own duration.
        self._sees_others = len(self._container.streams) > 1 and self.format in SHARED_CLOCKS

    @property
    def broken(self) -> bool:
        """Whether the connection to a server ended before its answer did."""
        return isinstance(self._own_file, HttpAnswer) and self._own_file.broken

    @property
    def sound_end(self) -> float | None:
        """The end of the track by its own duration, in seconds; None if it has none."""
        stream = self._stream
        if not stream.duration or stream.time_base is None:
            return None
        first = float((stream.start_time or 0) * stream.time_base)
        return max(first - self.start, 0.0) + float(stream.duration * stream.time_base)

    @property
    def tagged_end(self) -> float | None:
        """The end of the track by its tag DURATION (Matroska), in seconds; None if it has none."""
        for key, value in tags_of(self._stream).items():
            if key.startswith("duration"):
                return _seconds(value)
        return None

    @property
    def frame_count(self) -> int:
        """The number of frames that the header states; 0 if it is unknown."""
        return self._stream.frames

    @property
    def rate(self) -> int:
        """The sampling rate that the header states, in Hz; 0 if it is unknown."""
        context = getattr(self._stream, "codec_context", None)
        return (context.sample_rate or 0) if context else 0

    @property
    def byte_rate(self) -> float:
        """The bytes of a second of the track that the header states; 0 if they are unknown."""
        context = getattr(self._stream, "codec_context", None)
        return (context.bit_rate or 0) / 8 if context else 0.0

    def packets(self) -> Iterator["Packet[AudioStream]"]:
        """Yield the packets from the current position on, until the file ends or is cut off.

        Raises:
            AudioError: reading failed.
        """
        packets = self._demux()
        restarts = 0
        while True:
            try:
                packet = next(packets, None)
            except (IndexError, av.BlockingIOError) as error:
                # IndexError: PyAV 18 met a track that did not exist at the start of the file.
                # BlockingIOError: FFmpeg asks to continue with the next packet.
                self.check()
                restarts += 1
                if restarts > MAX_RESTARTS:
                    raise self._cannot_be_read(error) from error
                packets = self._demux()
                continue
            except Exception as error:
                self.check()
                if not isinstance(error, av.FFmpegError) or isinstance(error, OSError):
                    raise self._cannot_be_read(error) from error
                self.cut_off = error
                return
            self.check()
            if packet is None:
                return
            restarts = 0
            if not self._sees_others or packet.stream.index == self._stream.index:
                yield packet
            elif packet.pts is not None and packet.time_base:
                base = packet.time_base.numerator / packet.time_base.denominator
                self.others.add(packet.pts * base - self.start, (packet.duration or 0) * base)

    def _demux(self) -> Iterator["Packet[AudioStream]"]:
        """Return the packets of the track, or of all tracks if the times of the others matter."""
        if not self._sees_others:
            return self._container.demux(self._stream)
        packets: Iterator[Packet[AudioStream]] = self._container.demux()  # type: ignore[assignment]
        return packets

    def seek(self, seconds: float) -> bool:
        """Continue at the packet before a time; return whether that is possible."""
        try:
            self._container.seek(int((seconds + self.start) * av.time_base))
        except (av.FFmpegError, ValueError, OverflowError):  # the time is not in the file
            self.check()
            return False
        self.check()
        return True

    def close(self) -> None:
        """Close the container; a file object of the caller stays open. Safe to call twice."""
        self._container.close()
        if self._own_file:
            self._own_file.close()

    def check(self) -> None:
        """Raise the exception of the file object, if there was one; see `FileObject.check`."""
        if isinstance(self.file, FileObject):
            self.file.check()

    def _cannot_be_read(self, error: Exception) -> AudioError:
        return AudioError(f"cannot be read: {describe(error)}", source=self._name)

    def _find(self, number: int | None) -> "AudioStream":
        tracks = self._container.streams.audio
        if not tracks:
            raise AudioError("has no audio track; give a recording with sound", source=self._name)
        self.number = preferred(self.all_tracks)[0].number if number is None else number
        if self.number >= len(tracks):
            names = listed(self.all_tracks)
            raise AudioError(
                f"track={number} does not exist: the file has {len(tracks)} audio track(s), "
                f"counted from 0{names and f' ({names})'}",
                source=self._name,
            )
        return tracks[self.number]


def frames_of(packet: "Packet[AudioStream]") -> list[AudioFrame] | None:
    """Return the frames of a packet that have samples; None if the packet is damaged."""
    # without a decoder for the codec, PyAV has no codec context; PyAV 14 to 16.0 then crashes
    if getattr(packet.stream, "codec_context", None) is None:
        return None
    try:
        frames = packet.decode()
    except (av.FFmpegError, ValueError, RuntimeError):  # ValueError: an impossible rate or layout
        return [] if bytes(packet).startswith(OGG_HEADERS) else None
    return [
        frame
        for frame in frames
        if isinstance(frame, AudioFrame) and frame.samples and frame.sample_rate
    ]


def stated_duration(path: str) -> float | None:
    """Return the duration that a file states, in seconds; None if it is unknown or unreadable."""
    try:
        container, _, own_file = _open(path, path)
    except AudioError:
        return None
    with closing(own_file) if own_file else nullcontext(), container:
        return container.duration / av.time_base if container.duration else None


def _seconds(text: str) -> float | None:
    """Return the seconds of "01:02:03.456"; None if the text is no such time."""
    try:
        hours, minutes, seconds = map(float, text.split(":"))
    except ValueError:
        return None
    return hours * 3600 + minutes * 60 + seconds


def _open(name: str, file: str | FileObject) -> tuple[InputContainer, str | FileObject, OwnFile]:
    """Open a media file as `_open_container`.

    Returns:
        The container, the file that FFmpeg reads, and a file of our own that must be closed.
    """
    if isinstance(file, FileObject):
        return _open_container(name, file), file, None
    if rifx := open_rifx(file):
        try:
            converted = FileObject(name, rifx)
            return _open_container(name, converted), converted, rifx
        except BaseException:
            rifx.close()
            raise
    container = _open_container(name, file)
    if not is_http(file) or (container.size or 0) > 0 or container.format.name in PLAYLISTS:
        return container, file, None
    container.close()  # a server may answer one request at a time only
    if answer := HttpAnswer.get(file):
        try:
            body = FileObject(name, answer)
            return _open_container(name, body), body, answer
        except AudioError:  # FFmpeg uses the type that the server states, too
            answer.close()
    return _open_container(name, file), file, None


def list_tracks(path: str) -> tuple[TrackInfo, ...]:
    """Return the audio tracks of a file.

    Raises:
        AudioError: the file cannot be opened or is not media.
    """
    with _open_container(path, path) as container:
        return tuple(starmap(info_of, enumerate(container.streams.audio)))


def _open_container(name: str, file: str | FileObject) -> InputContainer:
    """Open a media file with FFmpeg.

    A file object may come from another person. FFmpeg must not open the files and network addresses
    that its contents name: a playlist (HLS, concat) or a session description (SDP).

    Raises:
        AudioError: the file cannot be opened or is not media.
    """
    try:
        # "file:", because FFmpeg takes the text before a colon for a protocol: "12:30 notes.mp3"
        url = f"file:{file}" if isinstance(file, str) and "://" not in file else file
        rules = {} if isinstance(file, str) else NOTHING_ELSE
        container = open_ignoring_metadata(url, rules)
    except Exception as error:
        if isinstance(file, FileObject):
            file.check()
        if isinstance(error, av.InvalidDataError | av.EOFError):
            hint = "; if the file was read before, call seek(0) first"
            raise AudioError(
                "is not media that FFmpeg can read, or is cut off at its start"
                f"{'' if isinstance(file, str) else hint}",
                source=name,
            ) from error
        raise AudioError(f"cannot be opened: {describe(error)}", source=name) from error
    try:
        if isinstance(file, FileObject):
            file.check()
    except BaseException:
        container.close()
        raise
    return container
