"""The audio tracks of a file: what the container states about them, and which is read by default.

The order in which tracks are preferred: tracks that can be decoded; the main sound before audio
descriptions and commentaries; the default flag of the container; the number.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

from whisperbatch.types import Notices

if TYPE_CHECKING:
    from av.audio.stream import AudioStream

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
    context = getattr(stream, "codec_context", None)  # None without a decoder
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


def _tag(stream: "AudioStream", name: str) -> str:
    tags = {key.lower(): value for key, value in stream.metadata.items()}
    return tags.get(name, "").strip()
