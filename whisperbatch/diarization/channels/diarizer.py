"""The turns of a recording in which each channel is one speaker: the speech that the VAD finds."""

from collections.abc import Iterable, Iterator
from itertools import tee
from typing import Final

import numpy as np
import numpy.typing as npt

from whisperbatch.diarization.channels.activity import (
    Activity,
    Levels,
    active,
    levels,
    runs,
    smooth,
    softest_speech,
)
from whisperbatch.diarization.protocol import Progress, SpeakerLimits
from whisperbatch.errors import AudioError
from whisperbatch.options import Options
from whisperbatch.types import Diarization, Samples, Turn, to_seconds, unnamed_speaker
from whisperbatch.vad import open_vad
from whisperbatch.vad.framing import FRAME

RECENT: Final = 5 * 60 * 16_000 // FRAME  # VAD frames from which provisional turns come: 5 minutes
SAME: Final = -30.0  # dB: a smaller difference between two channels is noise of a codec
SAME_FRAMES: Final = 60 * 16_000 // FRAME  # VAD frames of speech after which channels are the same
FEWEST: Final = 30  # the same at the end of a short recording


class ChannelDiarizer:
    """Finds the turns of the speakers of channels. Thread-safe.

    A mono recording has one speaker. This needs no networks but the VAD's.

    Args:
        options: how speech is found. Without `vad`, the default options find it.
    """

    def __init__(self, options: Options) -> None:
        self._options = options if options.vad else Options()
        self._vad = open_vad(self._options)

    def __call__(
        self,
        blocks: Iterable[Samples],
        limits: SpeakerLimits,  # noqa: ARG002 - each channel is one speaker
    ) -> Iterator[Progress | Diarization]:
        """See `protocol.TurnFinder`; blocks may also have the shape (n_samples, n_channels).

        Raises:
            AudioError: all channels have the same sound.
            EngineError: the voice activity detection failed.
        """
        memory = _Memory(self._options)
        for samples, probabilities in self._frames(blocks):
            first = len(memory)
            memory.add(samples, probabilities)
            yield Progress(memory.seconds, memory.recent_turns(first))
        yield memory.diarization()

    def _frames(
        self, blocks: Iterable[Samples]
    ) -> Iterator[tuple[Samples, npt.NDArray[np.float32]]]:
        """Yield the samples of all channels, and the probability of each frame and channel."""
        source = (block.reshape(len(block), -1) for block in blocks)
        first = next(source, None)
        if first is None:
            return

        def channel(copy: Iterable[Samples], number: int) -> Iterator[Samples]:
            yield np.ascontiguousarray(first[:, number])
            yield from (np.ascontiguousarray(block[:, number]) for block in copy)

        copies = tee(source, first.shape[1])
        vads = [self._vad(channel(copy, number)) for number, copy in enumerate(copies)]
        for parts in zip(*vads, strict=True):
            yield (
                np.stack([part.samples for part in parts], axis=1),
                np.stack([part.probabilities for part in parts], axis=1),
            )


class _Memory:
    """The levels and the speech probabilities of a recording: 1 MB for an hour of two channels."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._probabilities: list[npt.NDArray[np.float16]] = []
        self._levels: list[npt.NDArray[np.float16]] = []
        self._frames = self._samples = 0
        self._same_frames = self._speech_frames = 0

    def __len__(self) -> int:
        return self._frames

    @property
    def seconds(self) -> float:
        """Duration so far."""
        return to_seconds(self._samples)

    def add(self, samples: Samples, probabilities: npt.NDArray[np.float32]) -> None:
        """Add the next samples, shape (n_samples, n_channels), and their probabilities.

        Raises:
            AudioError: all channels have had the same sound for a minute of speech.
        """
        own = np.stack([levels(channel) for channel in samples.T], axis=1)
        self._probabilities.append(probabilities.astype(np.float16))
        self._levels.append(own.astype(np.float16))
        self._frames += len(own)
        self._samples += len(samples)
        differences = [levels(channel - samples[:, 0]) for channel in samples.T[1:]]
        if differences:
            speech = (probabilities >= self._options.vad_onset).any(axis=1)
            same = np.max(differences, axis=0) - own.max(axis=1) < SAME
            self._speech_frames += int(np.count_nonzero(speech))
            self._same_frames += int(np.count_nonzero(speech & same))
        self._check(SAME_FRAMES)

    def recent_turns(self, first: int) -> tuple[Turn, ...]:
        """Return the turns from a frame on, one speaker at a time."""
        count, kept = 0, 0
        for part in reversed(self._levels):
            count, kept = count + len(part), kept + 1
            if count >= RECENT:
                break
        activity, smoothed = self._active(kept)
        begin = self._frames - count
        activity[: first - begin] = False
        return self._exclusive(activity, smoothed, begin)

    def diarization(self) -> Diarization:
        """Return all turns.

        Raises:
            AudioError: all channels have the same sound.
        """
        if not self._levels:
            return Diarization(())
        self._check(FEWEST)
        activity, smoothed = self._active(len(self._levels))
        shares = _shares(smoothed)
        turns = [
            self._turn(start, end, channel, shares)
            for channel in range(activity.shape[1])
            for start, end in runs(activity[:, channel])
        ]
        ordered = sorted(turns, key=lambda turn: (turn.start, turn.end, turn.speaker))
        return Diarization(tuple(ordered), exclusive=self._exclusive(activity, smoothed, 0))

    def _active(self, count: int) -> tuple[Activity, Levels]:
        """Return who speaks in the frames of the last parts, and their levels."""
        probabilities = np.concatenate(self._probabilities[-count:]).astype(np.float32)
        smoothed = smooth(np.concatenate(self._levels[-count:]).astype(np.float32))
        softest = softest_speech(probabilities, smoothed, self._options)
        return active(probabilities, smoothed, softest, self._options), smoothed

    def _exclusive(self, activity: Activity, smoothed: Levels, begin: int) -> tuple[Turn, ...]:
        """Return the turns of the loudest speaker of each frame; `begin` is the first frame."""
        loudest = np.where(activity, smoothed, -np.inf).argmax(axis=1)
        shares = _shares(smoothed)
        turns = [
            self._turn(start, end, channel, shares, begin)
            for channel in range(activity.shape[1])
            for start, end in runs(activity.any(axis=1) & (loudest == channel))
        ]
        return tuple(sorted(turns, key=lambda turn: turn.start))

    def _turn(self, start: int, end: int, channel: int, shares: Levels, begin: int = 0) -> Turn:
        return Turn(
            to_seconds((begin + start) * FRAME),
            to_seconds(min((begin + end) * FRAME, self._samples)),
            unnamed_speaker(channel),
            float(shares[start:end, channel].mean()),
        )

    def _check(self, frames: int) -> None:
        """Refuse channels with the same sound, after this number of frames with speech."""
        if self._speech_frames >= frames and self._same_frames == self._speech_frames:
            raise AudioError(
                "all channels have the same sound, so they are not speakers; leave out "
                "speaker='channel', and the voices are compared"
            )


def _shares(smoothed: Levels) -> Levels:
    """Return the power of each channel relative to that of all channels."""
    power = 10.0 ** (smoothed.astype(np.float64) / 10)
    shares: Levels = (power / power.sum(axis=1, keepdims=True)).astype(np.float32)
    return shares
