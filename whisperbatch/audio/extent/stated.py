"""The end that a recording states, compared with the end of what was read."""

from typing import TYPE_CHECKING, Final

from whisperbatch.audio.extent import ogg_pages, riff, xing
from whisperbatch.audio.extent.parts import Parts
from whisperbatch.types import Notices

if TYPE_CHECKING:
    from whisperbatch.audio.track import Track

TOLERANCE: Final = 1.0  # seconds: encoder delay, padding, rounded durations, a last damaged frame
SHARE: Final = 0.001  # of the duration: rates in headers are rounded
TRACK_FORMATS: Final = frozenset(
    ("aiff", "au", "flac", "kvag", "mov,mp4,m4a,3gp,3g2,mj2", "mxf", "rm", "smjpeg", "tta", "wv")
)
"""FFmpeg's names of formats in which FFmpeg reads the duration of the track from a header."""
FILE_FORMATS: Final = frozenset({"matroska,webm", "flv"})  # the duration is that of all tracks
ESTIMATES: Final = frozenset({"avi", "w64", "wav"})  # the size of the sound is stated

CUT: Final = (
    "the recording ends before the end that it states: it was cut off, or is still being written; "
    "copy or download it again"
)
BROKEN_OFF: Final = (
    "the recording breaks off, and an unknown part is missing; copy or download it again"
)
CONNECTION: Final = (
    "the connection broke before the end of the recording, and an unknown part is missing; try "
    "again"
)


def report_missing(
    track: "Track", parts: Parts, notices: Notices, decoded: float, last: bytes
) -> None:
    """Add a notice if the recording ends before its stated end, or breaks off.

    Call this at the end of the recording.

    Args:
        track: the open track.
        parts: the bytes of the recording.
        notices: of the recording.
        decoded: seconds of the recording up to the end of the sound.
        last: the last packet of the track.
    """
    end = stated_end(track, parts, decoded, last)
    if end is not None and end - decoded > max(TOLERANCE, SHARE * end):
        notices.add("incomplete", decoded, end, CONNECTION if track.broken else CUT)
    elif track.broken:
        notices.add("incomplete", decoded, decoded, CONNECTION)
    elif track.cut_off or (track.format == "ogg" and ogg_pages.ends_within_page(parts.tail())):
        notices.add("incomplete", decoded, decoded, BROKEN_OFF)


def stated_end(track: "Track", parts: Parts, decoded: float, last: bytes) -> float | None:
    """Return the end of the sound that a recording states, in seconds.

    Args:
        track: see `report_missing`.
        parts: see `report_missing`.
        decoded: see `report_missing`.
        last: see `report_missing`.

    Returns:
        None if no end is stated, or if the recording is complete although its sound ends earlier.
    """
    if track.format in ESTIMATES:
        return _by_bytes(parts, decoded)
    if track.format == "mp3":
        return xing.stated_seconds(parts) if xing.ends_within_frame(last) else None
    if track.format in TRACK_FORMATS:
        return _of_track(track)
    if track.format in FILE_FORMATS:
        return _of_file(track)
    if track.format == "caf":
        return track.frame_count / track.rate if track.frame_count and track.rate else None
    return None


def _by_bytes(parts: Parts, decoded: float) -> float | None:
    """Return the end by the stated number of bytes and the bytes that exist."""
    stated, size = riff.stated_bytes(parts), parts.size()
    if stated is None or size is None or size <= stated[0]:
        return None
    present = size - stated[0]
    return decoded * max(stated[1] / present, 1.0)


def _of_track(track: "Track") -> float | None:
    """Return the end of the track by its own duration."""
    if track.sound_end is None:
        return None
    # a size that stands for an unknown one gives a duration, too
    is_size = riff.is_size(round(track.sound_end * track.byte_rate)) if track.byte_rate else True
    return track.sound_end if is_size or track.format not in ("aiff", "au") else None


def _of_file(track: "Track") -> float | None:
    """Return the end of the track by the duration of the file.

    The duration is that of the longest track. If another track is complete, then so is the file.
    """
    duration = track.duration
    if track.tagged_end is not None:
        return min(duration, track.tagged_end) if duration else None
    if track.others.end >= duration - TOLERANCE:
        return None
    return duration or None
