"""Random access: reading stretches of a recording out of order, before it is transcribed.

Language detection reads its windows in this way:

    recording   ----[==]--------[==]--------[==]--------[==]----

The choice of the track that is read, if the user names none, looks for speech in the same way. The
container's preference (`track.preferred`) decides, unless that track has no speech and another has.
The places are fixed, so that every span of a recording reads the same track:

    file        |--------------------------------------------------|
    probes      [== 10 s]      [==]         [==]         [==]

A pipe cannot be probed; a notice then names its other tracks.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Final, Protocol

import numpy as np
import numpy.typing as npt

from whisperbatch.audio.file_objects import FileObject, reads_out_of_order
from whisperbatch.audio.mixing import Mixer, count_speech, mix
from whisperbatch.audio.resampling import MAX_LEVEL, ChannelBlock, open_resampler, to_blocks
from whisperbatch.audio.track import (
    ChooseTrack,
    Track,
    TrackInfo,
    frames_of,
    name_others,
    preferred,
)
from whisperbatch.errors import AudioError
from whisperbatch.options import Channel, Options
from whisperbatch.types import Notices, Samples, to_samples

if TYPE_CHECKING:
    from av.audio.frame import AudioFrame

PREROLL: Final = 0.1
"""Seconds. From the first AAC packet after a seek, the FFmpeg of PyAV 19 returns no samples; one
packet has 23 ms at 44.1 kHz, and 64 ms at 16 kHz."""

PROBE: Final = 10.0  # seconds of a probe
SHORT: Final = 60.0  # seconds: a recording up to this length, or of unknown length, has one probe
MIN_SPEECH: Final = 32  # VAD frames, 1 s of speech in all probes
AUDIBLE: Final = 1e-7  # mean square, -70 dBFS: softer sound is silence

log = logging.getLogger(__name__)

Probe = Callable[[int], tuple[int, bool]]
"""Takes the number of a track; returns its VAD frames with speech, and whether it has sound."""


class RandomAccess(Protocol):
    """A recording that can be read out of order.

    Attributes:
        duration: approximate duration of the recording, in seconds.
    """

    duration: float

    def read(self, start: float, length: float) -> tuple[float, Samples]:
        """Read a stretch of the recording.

        Args:
            start: in seconds.
            length: in seconds.

        Returns:
            The true start of the samples in seconds, and up to `length` seconds of samples; no
            samples if the recording cannot be read there.
        """
        ...

    def close(self) -> None:
        """Free all resources. Safe to call twice."""
        ...


class MediaRandomAccess:
    """Random access to one audio track of a file, by seeking.

    If a container has no index, FFmpeg seeks by the bit rate, and a stretch may start a little
    earlier or later than requested.

    Args:
        name: name of the recording, for messages.
        file: a path, or a file object, which stays open.
        options: the track and the channel.

    Attributes:
        duration: duration of the recording in seconds, as the container states it or FFmpeg
            estimates it; 0 if it is unknown.

    Raises:
        AudioError: the file cannot be read.
    """

    def __init__(self, name: str, file: str | FileObject, options: Options) -> None:
        self._name = name
        self._channel: Channel = options.channel
        self._track = Track(name, file, options.track)
        self.duration = self._track.duration

    def read(self, start: float, length: float) -> tuple[float, Samples]:
        """Read a stretch; see `RandomAccess.read`.

        Raises:
            AudioError: reading from the caller's file object failed.
        """
        blocks: list[Samples | ChannelBlock] = []
        resampler = open_resampler(self._name, self._channel)
        true_start: float | None = None
        try:
            for time, frame in self._frames(start):
                if time >= start + length:
                    break
                # the time stamp of the first frame may be a little before the start of the file
                true_start = max(time, 0.0) if true_start is None else true_start
                blocks.extend(resampler.push(frame))
            blocks.extend(resampler.flush())
        except AudioError as error:
            self._track.check()
            log.debug("random access at %.1f s failed: %s", start, error)
        samples = np.concatenate([np.zeros(0, np.float32), *Mixer(None)(blocks)])
        finite = np.where(np.isfinite(samples), samples, 0)
        true_start = start if true_start is None else true_start
        return true_start, np.clip(finite, -MAX_LEVEL, MAX_LEVEL)[: to_samples(length)]

    def close(self) -> None:
        """Close the container. Safe to call twice."""
        self._track.close()

    def _frames(self, start: float) -> Iterator[tuple[float, "AudioFrame"]]:
        """Yield the frames from `start` on that can be decoded, each with its time in seconds."""
        frames = self._decode(start, start)
        first = next(frames, None)
        if start > 0 and (first is None or first[0] > start):
            frames = self._decode(max(start - PREROLL, 0.0), start)
            first = next(frames, None)
        if first is not None:
            yield first
            yield from frames

    def _decode(self, position: float, start: float) -> Iterator[tuple[float, "AudioFrame"]]:
        """Seek to `position` (in seconds), and yield the frames from `start` on; see `_frames`."""
        time = position
        for packet in self._track.packets() if self._track.seek(position) else ():
            for frame in frames_of(packet) or ():
                if frame.pts is not None and frame.time_base is not None:
                    time = float(frame.pts * frame.time_base) - self._track.start
                if time + frame.samples / frame.sample_rate > start:
                    yield time, frame
                time += frame.samples / frame.sample_rate


class SharedFileRandomAccess(MediaRandomAccess):
    """Random access to an open file that a decoder reads too; `close` restores its position."""

    def __init__(self, name: str, file: FileObject, options: Options) -> None:
        self._shared_file = file
        self._position: int | None = file.tell()
        file.seek(0)
        file.check()
        try:
            super().__init__(name, file, options)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """See `RandomAccess`."""
        if hasattr(self, "_track"):
            super().close()
        if self._position is not None:
            self._shared_file.seek(self._position)  # if this fails, the decoder raises the error
            self._position = None


def open_random_access(name: str, file: str | FileObject, options: Options) -> MediaRandomAccess:
    """Open random access to a file or file object; see `MediaRandomAccess`."""
    if isinstance(file, FileObject):
        return SharedFileRandomAccess(name, file, options)
    return MediaRandomAccess(name, file, options)


class ArrayRandomAccess:
    """Random access to samples in memory.

    Args:
        samples: shape (n_samples,) or (n_samples, n_channels), float32 or int16.
        rate: sampling rate, in Hz.
    """

    def __init__(self, samples: npt.NDArray[np.float32 | np.int16], rate: int) -> None:
        self._samples = samples
        self._rate = rate
        self.duration = len(samples) / rate

    def read(self, start: float, length: float) -> tuple[float, Samples]:
        """See `RandomAccess`."""
        first = round(start * self._rate)
        blocks = to_blocks(self._samples[first : first + round(length * self._rate)], self._rate)
        return start, np.concatenate([np.zeros(0, np.float32), *mix(blocks)])

    def close(self) -> None:
        """Do nothing: an array needs no cleaning up."""


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
    if options.track is not None or not reads_out_of_order(file):
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


def _probe(name: str, file: str | FileObject, options: Options, number: int) -> tuple[int, bool]:
    speech, sounds = 0, False
    try:
        access = open_random_access(name, file, replace(options, track=number))
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
