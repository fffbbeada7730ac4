"""Opening of the track that is read."""

from whisperbatch.audio.file_objects import FileObject
from whisperbatch.audio.track import Track
from whisperbatch.audio.tracks.info import ChooseTrack, name_others
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
