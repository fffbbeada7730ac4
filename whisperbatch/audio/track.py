"""The audio tracks of a media file, opened by PyAV (FFmpeg), and which is read by default.

All calls of FFmpeg that open, demux, seek and decode are here, with those that differ between the
versions of PyAV: 14.2 to 19 work. Errors of FFmpeg become AudioError, or mark a damaged packet.

The order in which tracks are preferred: tracks that can be decoded; the main sound before audio
descriptions and commentaries; the default flag of the container; the number.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, nullcontext
from dataclasses import dataclass
from itertools import starmap
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import av
from av.audio.frame import AudioFrame
from av.container import InputContainer

from whisperbatch.audio.clock import RESETTING, OtherTracks
from whisperbatch.audio.file_objects import (
    PLAYLISTS,
    FileObject,
    HttpAnswer,
    RifxFile,
    is_http,
    is_wave,
    open_rifx,
)
from whisperbatch.boundary import describe
from whisperbatch.errors import AudioError
from whisperbatch.types import Notices

if TYPE_CHECKING:
    from av.audio.codeccontext import AudioCodecContext
    from av.audio.stream import AudioStream
    from av.packet import Packet

KINDS: Final = {
    "visual_impaired": "audio description",
    "descriptions": "audio description",
    "comment": "commentary",
    "clean_effects": "without voices",
    "karaoke": "karaoke",
    "dependent": "supplement",
    "hearing_impaired": "for hearing-impaired",
}
"""FFmpeg's dispositions of tracks that are not the main sound."""

VIDEO_SITES: Final = re.compile(
    r"https?://(?:[\w-]+\.)*(?:youtube(?:-nocookie)?\.com|youtu\.be|vimeo\.com|dailymotion\.com|dai\.ly"
    r"|twitch\.tv|tiktok\.com|facebook\.com|fb\.watch|instagram\.com|twitter\.com|x\.com"
    r"|soundcloud\.com|bilibili\.com|rumble\.com|odysee\.com|ted\.com)(?::\d+)?(?:[/?#]|$)",
    re.IGNORECASE,
)
"""Addresses of pages that show a recording. The recording itself has another address."""

TITLES: Final = re.compile(r"comment|descri(ption|bed|ptive)|narrat|audiodes", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class TrackInfo:
    """What a container states about an audio track.

    Attributes:
        number: number of the track, counted from 0: the option `track`.
        codec: FFmpeg's name of the decoder; empty if there is none.
        channels: number of channels; 0 if unknown.
        language: as the container states it, such as "eng"; empty if unknown.
        title: of the track; empty if there is none.
        kind: if it is not the main sound, such as "commentary"; empty otherwise.
        is_default: whether the container has the default flag for this track.
    """

    number: int
    codec: str
    channels: int
    language: str
    title: str
    kind: str
    is_default: bool

    def __str__(self) -> str:
        """Return all facts in one line."""
        facts = (
            self.codec or "no decoder",
            f"{self.channels} channel{'s' * (self.channels > 1)}" if self.channels else "",
            self.language,
            f'"{self.title}"' if self.title else "",
            self.kind,
            "default" if self.is_default else "",
        )
        return f"track {self.number}: {', '.join(filter(None, facts))}"

    @property
    def preference(self) -> tuple[bool, bool, bool, int]:
        """A key: the preferred track has the lowest."""
        return (not self.codec, bool(self.kind), not self.is_default, self.number)


ChooseTrack: TypeAlias = Callable[[Sequence[TrackInfo]], int]
"""Takes all tracks of a file, at least two, and returns the number of the track that is read."""


def info_of(number: int, stream: "AudioStream") -> TrackInfo:
    """Return what the container states about a track."""
    context = _context(stream)
    title = " ".join(_tag(stream, "title").split())
    language = _tag(stream, "language")
    flags = {flag.name for flag in type(stream.disposition) if flag in stream.disposition}
    kinds = [kind for name, kind in KINDS.items() if name in flags]
    if not kinds and TITLES.search(title):
        kinds = ["commentary or description"]
    return TrackInfo(
        number,
        context.name if context else "",
        context.layout.nb_channels if context else 0,
        "" if language == "und" else language,
        title[:80],
        kinds[0] if kinds else "",
        "default" in flags,
    )


def preferred(tracks: Sequence[TrackInfo]) -> list[TrackInfo]:
    """Return the tracks, the preferred track first."""
    return sorted(tracks, key=lambda track: track.preference)


def listed(tracks: Sequence[TrackInfo]) -> str:
    """Return several tracks for a message; an empty string for fewer than two."""
    return "; ".join(map(str, tracks)) if len(tracks) > 1 else ""


def name_others(
    read: TrackInfo, tracks: Sequence[TrackInfo], notices: Notices, *, certain: bool
) -> None:
    """Add a notice with the tracks that were not read and may have other speech.

    Args:
        read: the track that is read.
        tracks: all tracks.
        notices: get the notice.
        certain: whether `read` has speech. Then dubbed versions are no other speech: tracks in
            other languages, descriptions and commentaries.
    """
    others = [track for track in tracks if track.codec and track.number != read.number]
    if certain:
        others = [
            track
            for track in others
            if not track.kind and (not track.language or track.language == read.language)
        ]
    if others:
        names = "; ".join(map(str, sorted(others, key=lambda track: track.number)))
        notices.add("track", 0.0, 0.0, f"only track {read.number} was read; there is also {names}")


def _context(stream: "AudioStream") -> "AudioCodecContext | None":
    """Return the codec context of a track; None if FFmpeg has no decoder for its codec."""
    return getattr(stream, "codec_context", None)


def _tag(stream: "AudioStream", name: str) -> str:
    return tags_of(stream).get(name, "").strip()


IGNORED: Final = "metadata_errors"


def open_ignoring_metadata(file: object, options: Mapping[str, str]) -> InputContainer:
    """Open a media file, whatever the encoding of its titles and other metadata.

    Before version 19, PyAV raises UnicodeDecodeError for metadata that are not UTF-8, unless it is
    told to ignore such bytes. Version 19 has no such parameter: it never raises, and the metadata
    may contain surrogates (U+DC80 to U+DCFF).

    Args:
        file: a URL or a file object with `read`.
        options: options of FFmpeg for the container.
    """
    open_container: Any = av.open  # the types of each version know its own parameters only
    arguments = {"mode": "r", "container_options": dict(options)}
    try:
        container: InputContainer = open_container(file, **arguments, **{IGNORED: "ignore"})
    except TypeError as error:  # raised before the file is read
        if IGNORED not in str(error):
            raise
        container = open_container(file, **arguments)
    return container


def tags_of(stream: "AudioStream") -> dict[str, str]:
    """Return the metadata of a track by lower-case name, without bytes that are not UTF-8.

    They would be surrogates from PyAV 19 on, which no output can contain.
    """
    return {
        name.lower(): value.encode(errors="ignore").decode()
        for name, value in stream.metadata.items()
    }


OwnFile: TypeAlias = RifxFile | HttpAnswer | None
SHARED_CLOCKS: Final = RESETTING | {"asf", "flv", "matroska,webm"}
"""FFmpeg's names of formats in which the times of other tracks tell a gap or a complete file."""
MAX_RESTARTS: Final = 1000  # of demuxing, in a row
NOTHING_ELSE: Final = {"protocol_whitelist": "none"}  # FFmpeg opens only the given file
# Packets of a WAV file have 64 kB; by default, each has 64 ms. Of a pipe, they would come too late.
# FFmpeg looks for compressed sound in the first packets of PCM: with 2,500 packets, 0.15 s.
LARGE_PACKETS: Final = {"max_size": str(2**16), "max_probe_packets": "2"}
# Headers of the next stream in a chained Ogg file; FFmpeg 7 gives them to the decoder.
OGG_HEADERS: Final = (b"OpusHead", b"OpusTags", b"\x01vorbis", b"\x03vorbis", b"\x05vorbis")


class Track:
    """An audio track of an open media file.

    Args:
        name: name of the recording, for messages.
        file: a path, a URL, or a file object.
        number: number of the track, counted from 0; None for the preferred track (`preferred`).

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
            self.codec = self.all_tracks[self.number].codec
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
        context = _context(self._stream)
        return (context.sample_rate or 0) if context else 0

    @property
    def byte_rate(self) -> float:
        """The bytes of a second of the track that the header states; 0 if they are unknown."""
        context = _context(self._stream)
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
                f"`track={number}` does not exist: the file has {len(tracks)} audio track(s), "
                f"counted from 0{names and f' ({names})'}",
                source=self._name,
            )
        return tracks[self.number]


def frames_of(packet: "Packet[AudioStream]") -> list[AudioFrame] | None:
    """Return the frames of a packet that have samples; None if the packet is damaged."""
    if _context(packet.stream) is None:  # PyAV 14 to 16.0 then crashes
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


def stated_duration(file: str | FileObject) -> float | None:
    """Return the duration that a file states, in seconds; None if it is unknown or unreadable.

    A file object must have random access; its position changes.
    """
    try:
        container, _, own_file = _open(file if isinstance(file, str) else file.name, file)
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


def _page_hint(file: str | FileObject) -> str:
    """Return how to get the recording that a page of a video site shows; empty if it is none."""
    if not isinstance(file, str) or not VIDEO_SITES.match(file):
        return ""
    return "; this is a page, and yt-dlp gets its recording: yt-dlp -o - URL | whisperbatch -"


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
        rules = {} if isinstance(file, str) else dict(NOTHING_ELSE)
        if isinstance(file, str) and is_wave(file):
            rules |= LARGE_PACKETS
        container = open_ignoring_metadata(url, rules)
    except Exception as error:
        if isinstance(file, FileObject):
            file.check()
        if isinstance(error, av.InvalidDataError | av.EOFError):
            was_read = isinstance(file, FileObject) and file.start > 0
            hint = "; if the file was read before, call seek(0) first" if was_read else ""
            raise AudioError(
                "is not media that FFmpeg can read, or is cut off at its start; give a recording "
                f"or a video{hint}{_page_hint(file)}",
                source=name,
            ) from error
        problem = f"cannot be opened: {describe(error)}{_page_hint(file)}"
        raise AudioError(problem, source=name) from error
    try:
        if isinstance(file, FileObject):
            file.check()
    except BaseException:
        container.close()
        raise
    return container
