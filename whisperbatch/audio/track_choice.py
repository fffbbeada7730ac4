"""The choice of the track that is read, if the user names none.

The container's preference (`track.preferred`) decides, unless that track has no speech and another
has. Speech is looked for at fixed places, so that every span of a recording reads the same track:

    file        |--------------------------------------------------|
    probes      [== 10 s]      [==]         [==]         [==]

A pipe cannot be probed; a notice then names its other tracks.
"""

import logging
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np

from whisperbatch.audio.file_objects import FileObject
from whisperbatch.audio.mixing.choice import count_speech
from whisperbatch.audio.random_access import MediaRandomAccess, SharedFileRandomAccess
from whisperbatch.audio.track import ChooseTrack, Track, TrackInfo, name_others, preferred
from whisperbatch.errors import AudioError
from whisperbatch.options import Options
from whisperbatch.types import Notices


def open_track(
    name: str,
    file: str | FileObject,
    number: int | None,
    notices: Notices,
    choose: ChooseTrack | None,
) -> Track:
    """Open the track with a number, or choose a track.

    Args:
        name: name of the recording, for messages.
        file: a path, a URL, or a file object.
        number: number of the track; None chooses one.
        notices: of the recording. Without `choose`, they get the tracks that are not read.
        choose: chooses from several tracks; None takes the track that the container prefers.

    Raises:
        AudioError: the file cannot be opened, is not media, or has no such track.
    """
    track = Track(name, file, number)
    tracks = track.all_tracks
    if number is not None or len(tracks) < 2:  # noqa: PLR2004 - a choice needs two
        return track
    if choose is None:
        name_others(tracks[track.number], tracks, notices, certain=False)
        return track
    try:
        chosen = choose(tracks)
    except BaseException:
        track.close()
        raise
    if chosen == track.number:
        return track
    track.close()
    if isinstance(file, FileObject):
        file.seek(file.start)
    return Track(name, file, chosen)


PROBE: Final = 10.0  # seconds of a probe
SHORT: Final = 60.0  # seconds: a recording up to this length, or of unknown length, has one probe
MIN_SPEECH: Final = 32  # VAD frames, 1 s of speech in all probes
AUDIBLE: Final = 1e-7  # mean square, -70 dBFS: softer sound is silence

log = logging.getLogger(__name__)

Probe = Callable[[int], tuple[int, bool]]
"""Takes the number of a track; returns its VAD frames with speech, and whether it has sound."""


def track_chooser(
    name: str, file: str | FileObject, options: Options, notices: Notices
) -> ChooseTrack | None:
    """Return a function that chooses from the tracks of a file.

    Args:
        name: name of the recording, for messages.
        file: a path, a URL, or a file object, which keeps its position.
        options: the track, if the user names one.
        notices: get the other tracks, if they may have other speech.

    Returns:
        The function; None if the user names a track, or the file cannot be read out of order.
    """
    if options.track is not None or not _can_probe(file):
        return None
    return lambda tracks: choose(
        tracks, lambda number: _probe(name, file, options, number), notices
    )


def choose(tracks: Sequence[TrackInfo], probe: Probe, notices: Notices) -> int:
    """Return the number of the track that is read; see the module."""
    order = [track for track in preferred(tracks) if track.codec] or preferred(tracks)
    first = order[0]
    results: dict[int, tuple[int, bool]] = {}
    track = first
    for track in order:
        results[track.number] = probe(track.number)
        if results[track.number][0] >= MIN_SPEECH:
            break
    has_speech = results[track.number][0] >= MIN_SPEECH  # of the last track that was probed
    sounding = (track for track in order if results[track.number][1])
    found = track if has_speech else next(sounding, first)
    if found != first:
        lacks = "speech" if results[first.number][1] else "sound"
        notices.add(
            "track", 0.0, 0.0, f"{first} has no {lacks} where it was probed; {found} was read"
        )
    name_others(found, order, notices, certain=has_speech)
    return found.number


def _can_probe(file: str | FileObject) -> bool:
    if isinstance(file, FileObject):
        return file.seekable() and not file.start
    return "://" not in file and Path(file).is_file()


def _probe(name: str, file: str | FileObject, options: Options, number: int) -> tuple[int, bool]:
    """Return the VAD frames with speech of a track, and whether it has sound."""
    speech, sounds = 0, False
    try:
        own = replace(options, track=number)
        access = (
            SharedFileRandomAccess(name, file, own)
            if isinstance(file, FileObject)
            else MediaRandomAccess(name, file, own)
        )
        with closing(access):
            long = access.duration > SHORT
            places = (0.0, 0.25, 0.5, 0.75) if long else (0.0,)
            for place in places:
                _, samples = access.read(place * access.duration, PROBE if long else SHORT)
                power = float(np.mean(np.square(samples))) if len(samples) else 0.0
                sounds = sounds or power > AUDIBLE
                speech += count_speech(samples) if power > AUDIBLE else 0
                if speech >= MIN_SPEECH:
                    break
    except (AudioError, OSError, ValueError) as error:
        if isinstance(file, FileObject):
            file.check()
        log.debug("%s: track %d cannot be probed: %s", name, number, error)
    return speech, sounds
