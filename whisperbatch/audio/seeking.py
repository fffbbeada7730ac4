"""Reading from a later sample on, with exactly the samples of a reading from the start.

    recording   |----------------|----------------------------
    decoded                  [=1 s=][===============  from a whole second on
    yielded                        [===============  from the requested sample on

A decoder of a lossy format keeps state, so its samples after a seek differ from those of a reading
from the start. Only uncompressed and lossless formats, whose time stamps are exact, are therefore
read by seeking. All others are decoded from their start, which takes little time.

The resampler begins at a whole second, because the sampling rates of a second always fit. Its
first 30 samples depend on earlier audio, so it begins a second early.
"""

from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any, Final

import numpy as np
from av.audio.frame import AudioFrame

from whisperbatch.audio.clock import Stamped
from whisperbatch.audio.file_objects import FileObject
from whisperbatch.audio.track import Track
from whisperbatch.types import SAMPLING_RATE

LEAD: Final = 1  # seconds that are read before the requested sample and left out
EXACT_FORMATS: Final = frozenset({"wav", "flac"})  # FFmpeg's names of containers
MAX_CHANNELS: Final = 7  # PyAV cannot fill frames with more


def whole_second(sample: int) -> int:
    """Return the second from which reading begins, so that a sample at 16 kHz is exact."""
    return max(sample // SAMPLING_RATE - LEAD, 0)


def seeks_exactly(track: Track, file: str | FileObject) -> bool:
    """Return whether a seek gives exactly the samples of a reading from the start.

    True for uncompressed WAV and for FLAC, in a regular file or a file object that can seek.
    """
    if isinstance(file, FileObject):
        can_seek = file.seekable() and not file.start
    else:
        can_seek = "://" not in file and Path(file).is_file()
    exact = track.codec == "flac" or track.codec.startswith("pcm_")
    return can_seek and exact and track.format in EXACT_FORMATS and not track.start


def frames_after(frames: Iterator[Stamped], second: int) -> Iterator[Stamped] | None:
    """Return the frames from exactly a second on; the first is cut there.

    Returns:
        None if the frames begin later or end before, or cannot be cut.
    """
    for stamped in frames:
        frame = stamped.frame
        if frame.pts is None or frame.time_base is None or frame.layout.nb_channels > MAX_CHANNELS:
            return None
        first = round(frame.pts * frame.time_base * frame.sample_rate)
        skipped = second * frame.sample_rate - first
        if skipped < 0:
            return None
        if skipped < frame.samples:
            return chain((Stamped(_cut(frame, skipped), float(second)),), frames)
    return None


def _cut(frame: AudioFrame, skipped: int) -> AudioFrame:
    """Return a frame without its first samples."""
    if not skipped:
        return frame
    values = skipped if frame.format.is_planar else skipped * frame.layout.nb_channels
    samples: Any = np.ascontiguousarray(frame.to_ndarray()[:, values:])
    cut = AudioFrame.from_ndarray(samples, format=frame.format.name, layout=frame.layout.name)
    cut.sample_rate = frame.sample_rate
    return cut
