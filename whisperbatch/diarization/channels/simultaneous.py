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
from dataclasses import replace
from typing import Final

import numpy as np
import numpy.typing as npt

from whisperbatch.chunking.split import cut_out
from whisperbatch.diarization.channels.activity import (
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
from whisperbatch.options import VadOptions
from whisperbatch.protocols import Vad
from whisperbatch.types import Chunk, Samples, SpeechSpan, to_samples, to_seconds
from whisperbatch.vad import open_vad
from whisperbatch.vad.framing import FRAME

log = logging.getLogger(__name__)

WARM_UP: Final = 96  # VAD frames, 3 s, that the VAD hears before a chunk
AFTER: Final = 16  # VAD frames, 0.5 s, after a chunk
MIN_TOGETHER: Final = 8  # VAD frames, 0.25 s, in which several channels speak: a short word
# VAD frames, 0.5 s, of speech in the mix that is no channel's: the edges of speech are shorter
MIN_LEFT: Final = 16
RECENT: Final = 10  # chunks whose crosstalk counts: about 5 minutes of speech
QUIET: Final = -65.0  # dBFS: softer sound is no speech
FADE: Final = to_samples(0.02)  # samples of the transition from crosstalk to silence


class SimultaneousSpeech:
    """Divides the chunks of one recording.

    Args:
        options: how speech is found. Without `vad`, the default options find it.
        tape: has the channels of the recording.
    """

    def __init__(self, options: VadOptions, tape: ChannelTape) -> None:
        self._options = options if options.vad else VadOptions()
        self._pad = to_samples(options.speech_pad)
        self._vad: Vad = open_vad(self._options)
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
        activity = self._activity(audio, smoothed)
        begin, end = chunk.start // FRAME - first, -(-chunk.end // FRAME) - first
        together = activity.sum(axis=1) > 1
        if np.count_nonzero(together[begin:end]) < MIN_TOGETHER:
            return [chunk]
        speech = _own_speech(chunk, activity, smoothed, first)
        parts = [
            self._part(chunk, audio, activity, speech, channel, first)
            for channel in range(activity.shape[1])
        ]
        found = sorted((part for part in parts if part), key=lambda part: part.start)
        log.info(
            "recording %d, %.2f s to %.2f s: %d channels speak at the same time",
            *(chunk.recording, to_seconds(chunk.start), to_seconds(chunk.end), len(found)),
        )
        return [replace(part, completes=part is found[-1]) for part in found] or [chunk]

    def _activity(self, audio: Samples, smoothed: Levels) -> Activity:
        """Return who speaks in each VAD frame; earlier chunks tell how loud crosstalk is."""
        heard = smoothed.max(axis=0) > QUIET
        probabilities: Probabilities = np.zeros(smoothed.shape, np.float32)
        for channel in np.flatnonzero(heard).tolist():
            samples = np.ascontiguousarray(audio[:, channel])
            found = [block.probabilities for block in self._vad([samples])]
            probabilities[:, channel] = np.concatenate(found)
        self._recent.append((probabilities, smoothed))
        softest = softest_speech(
            np.concatenate([part for part, _ in self._recent]),
            np.concatenate([part for _, part in self._recent]),
            self._options,
        )
        return active(probabilities, smoothed, softest, self._options)

    def _part(
        self,
        chunk: Chunk,
        audio: Samples,
        activity: Activity,
        speech: Activity,
        channel: int,
        first: int,
    ) -> Chunk | None:
        """Return the chunk of a channel; None if the channel does not speak in it."""
        offset = first * FRAME
        spans = self._spans(chunk, speech[:, channel], offset)
        if not spans:
            return None
        others = np.delete(activity, channel, axis=1).any(axis=1)
        gain = np.repeat(np.where(_near(others) & ~_near(speech[:, channel]), 0.0, 1.0), FRAME)
        for span in spans:
            gain[span.start - offset : span.end - offset] = 1.0
        gain = np.convolve(gain, np.full(FADE, 1 / FADE), "same")[: len(audio)]
        own = (audio[:, channel] * gain).astype(np.float32)
        samples = np.concatenate(
            [own[piece.start - offset : piece.end - offset] for piece in chunk.pieces]
        )
        whole = replace(chunk, speech=spans, samples=samples, channel=channel)
        return cut_out(whole, spans[0].start, spans[-1].end)

    def _spans(
        self, chunk: Chunk, speech: npt.NDArray[np.bool_], offset: int
    ) -> tuple[SpeechSpan, ...]:
        """Return the speech of a channel within the pieces of a chunk, with margins."""
        bounds = [(start * FRAME + offset, end * FRAME + offset) for start, end in runs(speech)]
        spans = []
        for piece in chunk.pieces:
            inside = [
                (max(start, piece.start), min(end, piece.end))
                for start, end in bounds
                if min(end, piece.end) > max(start, piece.start)
            ]
            for number, (start, end) in enumerate(inside):
                earliest = piece.start if not number else (inside[number - 1][1] + start) // 2
                last = number == len(inside) - 1
                latest = piece.end if last else (end + inside[number + 1][0]) // 2
                before = min(self._pad, start - earliest)
                after = min(self._pad, latest - end)
                spans.append(SpeechSpan(start - before, end + after, before, after))
        return tuple(spans)


def _may_overlap(smoothed: Levels) -> bool:
    """Return whether two channels may speak at the same time, by their levels alone."""
    audible = (smoothed > QUIET) & (smoothed > smoothed.max(axis=1, keepdims=True) + SOFTEST)
    return np.count_nonzero(audible.sum(axis=1) > 1) >= MIN_TOGETHER


def _own_speech(chunk: Chunk, activity: Activity, smoothed: Levels, first: int) -> Activity:
    """Return the speech of each channel in each frame.

    Speech of the mix that is no channel's own belongs to its loudest channel: no speech of the
    chunk is lost, for example if only the second opinion found it.
    """
    speech = activity.copy()
    mixed_speech = np.zeros(len(activity), np.bool_)
    for span in chunk.speech:
        start, end = span.start + span.before, span.end - span.after
        mixed_speech[start // FRAME - first : -(-end // FRAME) - first] = True
    for start, end in runs(mixed_speech & ~activity.any(axis=1)):
        if end - start >= MIN_LEFT:
            power = 10.0 ** (smoothed[start:end].astype(np.float64) / 10)
            speech[start:end, int(power.sum(axis=0).argmax())] = True
    return speech


def _near(frames: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """Return the frames, the frames right after them in which an echo may be, and the next."""
    result: npt.NDArray[np.bool_] = held(frames[:, None].astype(np.float32), 0.0)[:, 0] > 0
    return result
