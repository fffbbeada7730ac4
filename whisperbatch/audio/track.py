"""An audio track of a media file, opened by PyAV (FFmpeg).

All calls of FFmpeg that open, demux, seek and decode are here. Errors of FFmpeg become AudioError,
or mark a damaged packet.
"""

from collections.abc import Iterator
from itertools import starmap
from typing import TYPE_CHECKING, Final

import av
from av.audio.frame import AudioFrame
from av.container import InputContainer

from whisperbatch.audio.file_objects import FileObject
from whisperbatch.audio.tracks.info import TrackInfo, info_of, listed, preferred
from whisperbatch.boundary import describe
from whisperbatch.errors import AudioError

if TYPE_CHECKING:
    from av.audio.stream import AudioStream
    from av.packet import Packet

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
        cut_off: the error of FFmpeg that ended `packets` early; None before.

    Raises:
        AudioError: the file cannot be opened, is not media, or has no such track.
    """

    def __init__(self, name: str, file: str | FileObject, number: int | None = None) -> None:
        self._name = name
        self._file = file
        self._container = _open_container(name, file)
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

    def packets(self) -> Iterator["Packet[AudioStream]"]:
        """Yield the packets from the current position on, until the file ends or is cut off.

        Raises:
            AudioError: reading failed.
        """
        packets = self._container.demux(self._stream)
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
                packets = self._container.demux(self._stream)
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
            yield packet

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
        """Close the container; a file object stays open. Safe to call twice."""
        self._container.close()

    def check(self) -> None:
        """Raise the exception of the file object, if there was one; see `FileObject.check`."""
        if isinstance(self._file, FileObject):
            self._file.check()

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
        with _open_container(path, path) as container:
            return container.duration / av.time_base if container.duration else None
    except AudioError:
        return None


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
        container = av.open(url, mode="r", metadata_errors="ignore", container_options=rules)
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
