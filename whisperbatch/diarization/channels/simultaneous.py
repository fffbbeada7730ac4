r"""Chunks in which several channels speak at the same time are decoded channel by channel.

    left      __/^^^^^^^^^^^^^^^^^\_______      speech of its own
    right     ____________/^^^^^^^^^^^\___
    chunk     [==========================]      of the mix
    becomes   [==================]              left, without the crosstalk
                          [=============]       right, without the crosstalk

In a mix, the model writes only the louder of two voices. A chunk in which one channel speaks at a
time stays the chunk of the mix, so a call without interruptions costs and reads the same as before.
"""

import logging
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import combinations, pairwise
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from whisperbatch.chunking.split import cut_out
from whisperbatch.diarization.channels.activity import (
    ECHO,
    SOFTEST,
    Activity,
    Levels,
    Probabilities,
    active,
    held,
    levels,
    runs,
    smooth,
    softest_speech,
)
from whisperbatch.diarization.channels.tape import ChannelTape
from whisperbatch.features.similarity import HOP, BandLevels, band_levels, correlations
from whisperbatch.options import Options
from whisperbatch.types import Chunk, Samples, SpeechSpan, to_samples, to_seconds
from whisperbatch.vad import open_vad
from whisperbatch.vad.framing import FRAME

Frames: TypeAlias = npt.NDArray[np.bool_]
"""A flag for each VAD frame, shape (n_frames,)."""

log = logging.getLogger(__name__)

WARM_UP: Final = 96  # VAD frames, 3 s, that the VAD hears before a chunk
AFTER: Final = 16  # VAD frames, 0.5 s, after a chunk
MIN_TOGETHER: Final = 8  # VAD frames, 0.25 s, in which several channels speak: a short word
# VAD frames, 0.5 s, of speech in the mix that is no channel's: the edges of speech are shorter
MIN_LEFT: Final = 16
RECENT: Final = 10  # chunks whose crosstalk counts: about 5 minutes of speech
QUIET: Final = -65.0  # dBFS: softer sound is no speech
# Correlation from which the sound of two channels is the same. A copy has 0.97 at any level. Two
# voices at a time have 0.63 (99 % quantile), and up to 0.94 with crosstalk 10 dB below. A copy with
# the echo of a room has 0.6 to 0.7: its level shows that it is crosstalk.
COPY: Final = 0.95
PIECE: Final = 32  # VAD frames, 1 s, whose sounds are compared
FADE: Final = to_samples(0.02)  # samples of the transition from crosstalk to silence


class SimultaneousSpeech:
    """Divides the chunks of one recording.

    Args:
        options: how speech is found. Without `vad`, the default options find it.
        tape: has the channels of the recording.
    """

    def __init__(self, options: Options, tape: ChannelTape) -> None:
        self._options = options if options.vad else Options()
        self._pad = to_samples(options.speech_pad)
        self._vad = open_vad(self._options)
        self._tape = tape
        self._section = -1
        self._recent: deque[tuple[Probabilities, Levels]] = deque(maxlen=RECENT)

    def __call__(self, chunks: Iterable[Chunk]) -> Iterator[Chunk]:
        """Yield the chunks, numbered from 0; the chunks of channels replace those of the mix."""
        index = 0
        for chunk in chunks:
            for part in self._parts(chunk):
                yield replace(part, index=index)
                index += 1

    def _parts(self, chunk: Chunk) -> list[Chunk]:
        """Return one chunk for each channel that speaks; the chunk itself without overlap."""
        if chunk.section != self._section:
            self._section = chunk.section
            self._recent.clear()
        first = max(chunk.start // FRAME - WARM_UP, 0)
        audio = self._tape.audio(first * FRAME, chunk.end + AFTER * FRAME)
        if audio is None or not len(audio):
            return [chunk]
        smoothed = smooth(np.stack([levels(channel) for channel in audio.T], axis=1))
        if not _may_overlap(smoothed):
            return [chunk]
        activity = without_copies(self._activity(audio, smoothed), audio, smoothed)
        window = _Window(first, audio, smoothed, activity)
        if window.frames_together(chunk) < MIN_TOGETHER:
            return [chunk]
        parts = [
            window.part(chunk, channel, spans)
            for channel, spans in enumerate(window.speech(chunk, self._pad))
            if spans
        ]
        parts.sort(key=lambda part: part.start)
        log.info(
            "recording %d, %.2f s to %.2f s: %d channels speak at the same time",
            *(chunk.recording, to_seconds(chunk.start), to_seconds(chunk.end), len(parts)),
        )
        return [replace(part, completes=part is parts[-1]) for part in parts] or [chunk]

    def _activity(self, audio: Samples, smoothed: Levels) -> Activity:
        """Return who speaks in each VAD frame; earlier chunks tell how loud crosstalk is."""
        probabilities: Probabilities = np.zeros(smoothed.shape, np.float32)
        for channel in np.flatnonzero(smoothed.max(axis=0) > QUIET).tolist():
            blocks = self._vad([np.ascontiguousarray(audio[:, channel])])
            found = np.concatenate([block.probabilities for block in blocks])
            probabilities[:, channel] = found
        self._recent.append((probabilities, smoothed))
        softest = softest_speech(
            np.concatenate([part for part, _ in self._recent]),
            np.concatenate([part for _, part in self._recent]),
            self._options,
        )
        return active(probabilities, smoothed, softest, self._options)


@dataclass(frozen=True, slots=True, eq=False)
class _Window:
    """The audio around a chunk.

    Attributes:
        first: its first VAD frame, counted in the recording.
        audio: shape (n_samples, n_channels).
        smoothed: level of each VAD frame and channel.
        activity: who speaks in each VAD frame.
    """

    first: int
    audio: Samples
    smoothed: Levels
    activity: Activity

    @property
    def offset(self) -> int:
        """The first sample, counted in the recording."""
        return self.first * FRAME

    def frames_together(self, chunk: Chunk) -> int:
        """Return the number of VAD frames of a chunk in which several channels speak."""
        begin, end = chunk.start // FRAME - self.first, -(-chunk.end // FRAME) - self.first
        return int(np.count_nonzero(self.activity[begin:end].sum(axis=1) > 1))

    def speech(self, chunk: Chunk, pad: int) -> list[tuple[SpeechSpan, ...]]:
        """Return the speech of each channel in a chunk, with margins of at most `pad` samples.

        Speech of the mix that is no channel's own belongs to its loudest channel: no speech of the
        chunk is lost, for example if only the second opinion found it.
        """
        speech = self.activity.copy()
        mixed_speech = np.zeros(len(speech), np.bool_)
        for span in chunk.speech:
            start, end = span.start + span.before, span.end - span.after
            mixed_speech[start // FRAME - self.first : -(-end // FRAME) - self.first] = True
        for start, end in runs(mixed_speech & ~self.activity.any(axis=1)):
            if end - start >= MIN_LEFT:
                power = 10.0 ** (self.smoothed[start:end].astype(np.float64) / 10)
                speech[start:end, int(power.sum(axis=0).argmax())] = True
        return [
            tuple(
                span
                for piece in chunk.pieces
                for span in _spans_within(piece, speech[:, channel], self.offset, pad)
            )
            for channel in range(speech.shape[1])
        ]

    def part(self, chunk: Chunk, channel: int, spans: tuple[SpeechSpan, ...]) -> Chunk:
        """Return the chunk of a channel with this speech, and silence in place of crosstalk."""
        others = np.delete(self.activity, channel, axis=1).max(axis=1)
        own = self.activity[:, channel]
        gain = np.repeat(np.where(_with_echo(others) & ~_with_echo(own), 0.0, 1.0), FRAME)
        for span in spans:
            gain[span.start - self.offset : span.end - self.offset] = 1.0
        gain = np.convolve(gain, np.full(FADE, 1 / FADE), "same")[: len(self.audio)]
        samples = (self.audio[:, channel] * gain).astype(np.float32)
        kept = [
            samples[piece.start - self.offset : piece.end - self.offset] for piece in chunk.pieces
        ]
        whole = replace(chunk, speech=spans, samples=np.concatenate(kept), channel=channel)
        return cut_out(whole, spans[0].start, spans[-1].end)


def without_copies(activity: Activity, audio: Samples, smoothed: Levels) -> Activity:
    """Return who speaks, without the channels that have the sound of another channel.

    Loud crosstalk, or a recording whose channels are the same for some time, would give the same
    words twice. The level does not tell such copies from a second voice, but the sound does. The
    louder channel keeps the speech.

    Args:
        activity: who speaks in each VAD frame.
        audio: of the same frames, shape (n_samples, n_channels).
        smoothed: level of each VAD frame and channel.
    """
    result = activity.copy()
    several: Frames = activity.sum(axis=1) > 1
    bands = {
        channel: band_levels(np.ascontiguousarray(audio[:, channel]))
        for channel in np.flatnonzero(activity[several].any(axis=0)).tolist()
    }
    for one, other in combinations(bands, 2):
        for start, end in runs(activity[:, one] & activity[:, other]):
            for first in range(start, end, PIECE):
                last = min(first + PIECE, end)
                if _same_sound(bands[one], bands[other], first, last):
                    levels_of = smoothed[first:last].mean(axis=0)
                    softer = one if levels_of[one] < levels_of[other] else other
                    result[first:last, softer] = False
    return result


def _same_sound(one: BandLevels, other: BandLevels, first: int, last: int) -> bool:
    """Return whether two channels have the same sound in some VAD frames, perhaps with an echo."""
    start, end = first * FRAME // HOP, last * FRAME // HOP
    pattern = one[start:end]
    echo = ECHO * FRAME // HOP
    found = correlations(pattern, other[max(start - echo, 0) : end + echo])
    return len(pattern) > 0 and float(found.max(initial=0.0)) >= COPY


def _may_overlap(smoothed: Levels) -> bool:
    """Return whether two channels may speak at the same time, by their levels alone."""
    audible = (smoothed > QUIET) & (smoothed > smoothed.max(axis=1, keepdims=True) + SOFTEST)
    return int(np.count_nonzero(audible.sum(axis=1) > 1)) >= MIN_TOGETHER


def _spans_within(piece: SpeechSpan, speech: Frames, offset: int, pad: int) -> Iterator[SpeechSpan]:
    """Yield the speech within a piece of a chunk; `offset` is the first sample of the frames."""
    bounds = [
        (max(start * FRAME + offset, piece.start), min(end * FRAME + offset, piece.end))
        for start, end in runs(speech)
    ]
    bounds = [(start, end) for start, end in bounds if start < end]
    pauses = [(end + start) // 2 for (_, end), (start, _) in pairwise(bounds)]
    for (start, end), (earliest, latest) in zip(
        bounds, pairwise((piece.start, *pauses, piece.end)), strict=False
    ):
        before, after = min(pad, start - earliest), min(pad, latest - end)
        yield SpeechSpan(start - before, end + after, before, after)


def _with_echo(frames: Frames) -> Frames:
    """Return the frames, those right after them in which an echo may be, and the frame before."""
    result: Frames = held(frames[:, None].astype(np.float32), 0.0)[:, 0] > 0
    return result
