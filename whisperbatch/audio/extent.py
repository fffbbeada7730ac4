"""How long a recording states to be, and whether it was read up to there.

    header    |------------------ stated: 60 s ------------------|
    file      |------- read: 24 s -------|        incomplete: 36 s

Only a statement of the file counts: a number of samples, frames or bytes in a header, the length of
an HTTP answer, or a page that breaks off. A duration that FFmpeg estimates from the bit rate is no
statement, and neither are the sizes 0 and -1 that programs write if they cannot seek.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from whisperbatch.audio.headers import (
    Parts,
    asf_extent,
    ends_within_frame,
    ends_within_page,
    is_size,
    riff_bytes,
    second_sound,
    sox_bytes,
    xing_seconds,
)
from whisperbatch.types import Notices

if TYPE_CHECKING:
    from whisperbatch.audio.track import Track

TOLERANCE: Final = 1.0  # seconds: encoder delay, padding, rounded durations, a last damaged frame
SHARE: Final = 0.001  # of the duration: rates in headers are rounded
TRACK_FORMATS: Final = frozenset(
    (
        *("aiff", "ape", "apm", "ast", "au", "flac", "kvag", "mov,mp4,m4a,3gp,3g2,mj2", "mpc"),
        *("mpc8", "mxf", "nistsphere", "rm", "smjpeg", "tak", "tta", "wv", "wve"),
    )
)
"""FFmpeg's names of formats in which FFmpeg reads the duration of the track from a header."""
FILE_FORMATS: Final = frozenset({"matroska,webm", "flv"})  # the duration is that of all tracks
SIZED_FORMATS: Final = frozenset({"avi", "sox", "w64", "wav"})  # the size of the sound is stated
ENDS_WITH_ERROR: Final = frozenset({"wv"})  # FFmpeg searches for tags after the end of a pipe

CUT: Final = (
    "the recording ends before the end that it states: it was cut off, or is still being written; "
    "copy or download it again"
)
SECOND: Final = (
    "the file has a second part of sound, which is not read; give it through a pipe, or convert it"
)
BROKEN_OFF: Final = (
    "the recording breaks off, and an unknown part is missing; copy or download it again"
)
CONNECTION: Final = (
    "the connection broke before the end of the recording, and an unknown part is missing; try "
    "again"
)


@dataclass(frozen=True, slots=True)
class Ended:
    """Where the reading of a recording ended.

    Attributes:
        time: in seconds of the recording.
        stamp: the same by the time stamps of the file, which may have jumped.
        last: the last packet of the track.
    """

    time: float
    stamp: float
    last: bytes


def report_missing(track: "Track", parts: Parts, notices: Notices, ended: Ended) -> None:
    """Add a notice if the recording ends before its stated end, or breaks off.

    Call this at the end of the recording.

    Args:
        track: the open track.
        parts: the bytes of the recording.
        notices: of the recording.
        ended: where the recording ended.
    """
    end = stated_end(track, parts, ended)
    missing = 0.0 if end is None else end - ended.stamp
    if missing <= max(TOLERANCE, SHARE * ended.stamp):
        missing = 0.0
    second = second_sound(parts) if track.format == "wav" and not missing else 0
    if second and parts.size() and track.byte_rate and parts.can_seek():
        length = second / track.byte_rate
        notices.add("incomplete", ended.time, ended.time + length, SECOND)
    if track.broken:
        notices.add("incomplete", ended.time, ended.time + missing, CONNECTION)
    elif missing:
        notices.add("incomplete", ended.time, ended.time + missing, CUT)
    elif end is None and _breaks_off(track, parts):
        notices.add("incomplete", ended.time, ended.time, BROKEN_OFF)


def _breaks_off(track: "Track", parts: Parts) -> bool:
    """Return whether a recording without a stated end ends within a piece of its format."""
    if track.format == "ogg":
        return track.cut_off is not None or ends_within_page(parts.tail())
    return track.cut_off is not None and track.format not in ENDS_WITH_ERROR


def stated_end(track: "Track", parts: Parts, ended: Ended) -> float | None:
    """Return the end of the sound that a recording states, in seconds, by its time stamps.

    Args:
        track: see `report_missing`.
        parts: see `report_missing`.
        ended: see `report_missing`.

    Returns:
        None if no end is stated, or if the recording is complete although its sound ends earlier.
    """
    if track.format in SIZED_FORMATS:
        end = _by_bytes(parts, ended.stamp)
    elif track.format == "mp3":
        end = xing_seconds(parts) if ends_within_frame(ended.last) else None
    elif track.format in TRACK_FORMATS:
        end = _of_track(track)
    elif track.format in FILE_FORMATS:
        end = _of_file(track)
    elif track.format == "asf":
        end = _of_asf(track, parts)
    elif track.format == "caf" and track.frame_count and track.rate:
        end = track.frame_count / track.rate
    else:
        end = None
    return end


def _by_bytes(parts: Parts, decoded: float) -> float | None:
    """Return the end by the stated number of bytes and the bytes that exist."""
    stated, size = riff_bytes(parts) or sox_bytes(parts), parts.size()
    if stated is None or size is None or size <= stated[0]:
        return None
    present = size - stated[0]
    return decoded * max(stated[1] / present, 1.0)


def _of_track(track: "Track") -> float | None:
    """Return the end of the track by its own duration."""
    if track.sound_end is None:
        return None
    # a size that stands for an unknown one gives a duration, too
    known = is_size(round(track.sound_end * track.byte_rate)) if track.byte_rate else True
    return track.sound_end if known or track.format not in ("aiff", "au") else None


def _of_file(track: "Track") -> float | None:
    """Return the end of the track by the duration of the file.

    The duration is that of the longest track. If another track is complete, the file is complete.
    """
    # the duration may count from zero, although the stamps of a live recording start later
    if track.tagged_end is not None and track.duration:
        return min(track.duration, track.tagged_end) - max(track.start, 0.0)
    return _unless_reached(track, track.duration - max(track.start, 0.0))


def _of_asf(track: "Track", parts: Parts) -> float | None:
    """Return the end of the track by the header; FFmpeg's duration is that of a cut file."""
    stated, size = asf_extent(parts), parts.size()
    if stated is None or size is None or size >= stated.size:
        return None
    return _unless_reached(track, stated.seconds)


def _unless_reached(track: "Track", end: float) -> float | None:
    return end if end > 0 and track.others.end < end - TOLERANCE else None
