r"""One speaker per channel: `speaker="channel"`, or the only speaker of a mono recording.

An activity says in which VAD frames the speaker of each channel speaks:

    left     _____/^^^^^^^^^^\____________     level; the VAD finds speech here,
    right    _____/''''''''''\____/^^^^\__     and in the crosstalk at the beginning, too
    active        L L L L L L     R R R

A channel hears the other speakers, too: often 15 to 30 dB softer than their own channels, and up to
a quarter of a second later (an echo). Its speech counts as crosstalk if it is not louder than what
this channel usually hears of the other, while the other speaks. The usual crosstalk is the median,
so that speech of both at a time is recognized, even if one channel is softer.

Chunks in which several channels speak at the same time are decoded channel by channel.

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
from itertools import combinations, pairwise, tee
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from whisperbatch.chunking.split import cut_out
from whisperbatch.diarization.protocol import Progress, SpeakerLimits, in_order
from whisperbatch.diarization.segmentation import true_runs
from whisperbatch.errors import AudioError
from whisperbatch.features.measures import HOP, BandLevels, band_levels, correlations
from whisperbatch.options import Options
from whisperbatch.types import (
    Chunk,
    Diarization,
    Samples,
    SpeechSpan,
    Turn,
    to_samples,
    to_seconds,
    unnamed_speaker,
)
from whisperbatch.vad import open_vad
from whisperbatch.vad.levels import FRAME

log = logging.getLogger(__name__)

Levels: TypeAlias = npt.NDArray[np.float32]
"""dBFS of each VAD frame and channel, shape (n_frames, n_channels)."""
Probabilities: TypeAlias = npt.NDArray[np.float32]
"""Speech probability of each VAD frame and channel, shape (n_frames, n_channels)."""
Activity: TypeAlias = npt.NDArray[np.bool_]
"""Who speaks in each VAD frame, shape (n_frames, n_channels)."""

SILENCE: Final = -100.0  # dBFS
SMOOTHING: Final = 2  # VAD frames before and after that the level of a frame is the mean of: 0.16 s
ECHO: Final = 8  # VAD frames, 0.25 s, in which crosstalk may follow the speech
ABOVE_CROSSTALK: Final = 8.0  # dB: crosstalk varies by less around its median
MIN_KNOWN: Final = 30  # VAD frames of speech, 1 s, from which the crosstalk is known
UNKNOWN: Final = -10.0  # dB, the softest speech beside another channel's if it is not known
SOFTEST, LOUDEST = -30.0, -3.0  # dB, limits of the same value

RECENT: Final = 5 * 60 * 16_000 // FRAME  # VAD frames from which provisional turns come: 5 minutes
SAME: Final = -30.0  # dB: a smaller difference between two channels is noise of a codec
SAME_FRAMES: Final = 60 * 16_000 // FRAME  # VAD frames of speech after which channels are the same
FEWEST: Final = 30  # the same at the end of a short recording

# The reader is at most this far ahead of a chunk: 90 s in which the ends of chunks are chosen,
# 60 s of the second opinion, 47 s for the point between two sections, and the blocks of the VAD.
KEPT: Final = to_samples(240.0)  # samples
# Of each block, the loudest channels are kept: more people rarely talk at a time, and 16 channels
# would take four times the memory (at most 31 MB).
MAX_KEPT: Final = 4
SCALE: Final = 16.0  # full scale of the stored values: the reader's samples are at most this loud

Frames: TypeAlias = npt.NDArray[np.bool_]
"""A flag for each VAD frame, shape (n_frames,)."""

WARM_UP: Final = 96  # VAD frames, 3 s, that the VAD hears before a chunk
AFTER: Final = 16  # VAD frames, 0.5 s, after a chunk
MIN_TOGETHER: Final = 8  # VAD frames, 0.25 s, in which several channels speak: a short word
# VAD frames, 0.5 s, of speech in the mix that is no channel's: the edges of speech are shorter
MIN_LEFT: Final = 16
RECENT_CHUNKS: Final = 10  # chunks whose crosstalk counts: about 5 minutes of speech
QUIET: Final = -65.0  # dBFS: softer sound is no speech
# Correlation from which the sound of two channels is the same. A copy has 0.97 at any level. Two
# voices at a time have 0.63 (99 % quantile), and up to 0.94 with crosstalk 10 dB below. A copy with
# the echo of a room has 0.6 to 0.7: its level shows that it is crosstalk.
COPY: Final = 0.95
PIECE: Final = 32  # VAD frames, 1 s, whose sounds are compared
FADE: Final = to_samples(0.02)  # samples of the transition from crosstalk to silence


def measure_levels(samples: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Return the level of each VAD frame in dBFS; the last frame may be shorter."""
    edges = range(0, len(samples), FRAME)
    squares = np.add.reduceat(np.square(samples, dtype=np.float64), edges)
    counts = np.diff([*edges, len(samples)])
    power = np.maximum(squares / counts, 10 ** (SILENCE / 10))
    return (10 * np.log10(power)).astype(np.float32)


def smooth(values: Levels) -> Levels:
    """Return the level of the mean power around each frame."""
    power = 10.0 ** (values.astype(np.float64) / 10)
    padded = np.pad(power, ((SMOOTHING, SMOOTHING), (0, 0)), "edge")
    window = np.lib.stride_tricks.sliding_window_view(padded, 2 * SMOOTHING + 1, axis=0)
    result: Levels = (10 * np.log10(window.mean(axis=-1))).astype(np.float32)
    return result


def hold_peaks(values: npt.NDArray[np.float32], nothing: float) -> npt.NDArray[np.float32]:
    """Return the highest value of each frame, the frames within `ECHO` before it, and the next."""
    padded = np.pad(values, ((ECHO, 1), (0, 0)), constant_values=nothing)
    window = np.lib.stride_tricks.sliding_window_view(padded, ECHO + 2, axis=0)
    result: npt.NDArray[np.float32] = window.max(axis=-1)
    return result


def softest_speech(
    probabilities: Probabilities, smoothed: Levels, options: Options
) -> npt.NDArray[np.float32]:
    """Return how soft speech can be beside the speech of another channel, without being crosstalk.

    Args:
        probabilities: of some minutes.
        smoothed: of the same frames.
        options: `vad_onset`.

    Returns:
        Level in dB relative to the other channel, shape (n_channels, n_channels): the speaker who
        is louder, then the channel that hears the speaker.
    """
    count = smoothed.shape[1]
    loudest = smoothed.argmax(axis=1)
    peaks = hold_peaks(smoothed, SILENCE)
    result = np.full((count, count), UNKNOWN, np.float32)
    for speaker in range(count):
        frames = (loudest == speaker) & (probabilities[:, speaker] >= options.vad_onset)
        if np.count_nonzero(frames) >= MIN_KNOWN:
            crosstalk = np.median(smoothed[frames] - peaks[frames, speaker][:, None], axis=0)
            result[speaker] = np.clip(crosstalk + ABOVE_CROSSTALK, SOFTEST, LOUDEST)
    return result


def find_activity(
    probabilities: Probabilities,
    smoothed: Levels,
    softest: npt.NDArray[np.float32],
    options: Options,
) -> Activity:
    """Return who speaks in each frame.

    Args:
        probabilities: of the frames.
        smoothed: of the frames.
        softest: see `softest_speech`.
        options: how speech is found.
    """
    peaks, voiced = (
        hold_peaks(smoothed, SILENCE),
        hold_peaks(probabilities, 0.0) >= options.vad_onset,
    )
    result = np.zeros(smoothed.shape, np.bool_)
    for channel in range(smoothed.shape[1]):
        others = [other for other in range(smoothed.shape[1]) if other != channel]
        relative = smoothed[:, [channel]] - peaks[:, others]
        crosstalk = (voiced[:, others] & (relative < softest[others, channel])).any(axis=1)
        own = np.where(crosstalk, 0.0, probabilities[:, channel])
        for start, end in _spans(own, options):
            result[start:end, channel] = True
    return result


def _spans(probabilities: npt.NDArray[np.float32], options: Options) -> list[tuple[int, int]]:
    """Return the speech of a channel as (first frame, frame after the last)."""
    min_silence = round(options.min_silence_duration * 16_000 / FRAME)
    min_speech = round(options.min_speech_duration * 16_000 / FRAME)
    spans: list[tuple[int, int]] = []
    for start, end in true_runs(probabilities >= options.vad_offset):
        if probabilities[start:end].max() < options.vad_onset:
            continue
        if spans and start - spans[-1][1] < min_silence:
            spans[-1] = (spans[-1][0], end)
        else:
            spans.append((start, end))
    return [(start, end) for start, end in spans if end - start >= min_speech]


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
        memory = _ChannelMemory(self._options)
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


class _ChannelMemory:
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
        own = np.stack([measure_levels(channel) for channel in samples.T], axis=1)
        self._probabilities.append(probabilities.astype(np.float16))
        self._levels.append(own.astype(np.float16))
        self._frames += len(own)
        self._samples += len(samples)
        differences = [measure_levels(channel - samples[:, 0]) for channel in samples.T[1:]]
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
            for start, end in true_runs(activity[:, channel])
        ]
        return Diarization(in_order(turns), exclusive=self._exclusive(activity, smoothed, 0))

    def _active(self, count: int) -> tuple[Activity, Levels]:
        """Return who speaks in the frames of the last parts, and their levels."""
        probabilities = np.concatenate(self._probabilities[-count:]).astype(np.float32)
        smoothed = smooth(np.concatenate(self._levels[-count:]).astype(np.float32))
        softest = softest_speech(probabilities, smoothed, self._options)
        return find_activity(probabilities, smoothed, softest, self._options), smoothed

    def _exclusive(self, activity: Activity, smoothed: Levels, begin: int) -> tuple[Turn, ...]:
        """Return the turns of the loudest speaker of each frame; `begin` is the first frame."""
        loudest = np.where(activity, smoothed, -np.inf).argmax(axis=1)
        shares = _shares(smoothed)
        turns = [
            self._turn(start, end, channel, shares, begin)
            for channel in range(activity.shape[1])
            for start, end in true_runs(activity.any(axis=1) & (loudest == channel))
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
    power = 10.0 ** (smoothed.astype(np.float64) / 10)
    shares: Levels = (power / power.sum(axis=1, keepdims=True)).astype(np.float32)
    return shares


class ChannelTape:
    """Stores the latest audio of each channel while the recording is read.

    Positions are samples of the recording.
    """

    def __init__(self) -> None:
        self._stored: deque[tuple[int, npt.NDArray[np.int64], npt.NDArray[np.float16]]] = deque()
        self._channels = 0
        self.end = 0

    def through(self, blocks: Iterable[Samples]) -> Iterator[Samples]:
        """Yield the blocks, and store their channels.

        Args:
            blocks: consecutive, from the start of the recording; shape (n_samples, n_channels).
        """
        for block in blocks:
            self._channels = max(self._channels, block.shape[1])
            peaks = np.abs(block).max(axis=0)
            kept = np.sort(np.argsort(-peaks, kind="stable")[:MAX_KEPT])
            kept = kept[peaks[kept] > 0]
            stored = np.ascontiguousarray(block[:, kept]) / np.float32(SCALE)
            self._stored.append((len(block), kept, stored.astype(np.float16)))
            self.end += len(block)
            while self.end - self._start() - self._stored[0][0] >= KEPT:
                self._stored.popleft()
            yield block

    def audio(self, start: int, end: int) -> Samples | None:
        """Return the channels from sample `start` to before sample `end`.

        Returns:
            Shape (n_samples, n_channels): fewer samples at the end of the recording, and zeros in
            the channels that were not stored. None if the audio is no longer stored.
        """
        position = self._start()
        if start < position:
            return None
        result = np.zeros((max(min(end, self.end) - start, 0), self._channels), np.float32)
        for length, channels, stored in self._stored:
            first, last = max(start, position), min(end, position + length)
            if first < last:
                part = stored[first - position : last - position].astype(np.float32)
                result[first - start : last - start, channels] = part * np.float32(SCALE)
            position += length
        return result

    def _start(self) -> int:
        return self.end - sum(length for length, _, _ in self._stored)


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
        self._recent: deque[tuple[Probabilities, Levels]] = deque(maxlen=RECENT_CHUNKS)

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
        smoothed = smooth(np.stack([measure_levels(channel) for channel in audio.T], axis=1))
        if not _may_overlap(smoothed):
            return [chunk]
        activity = remove_copies(self._find_activity(audio, smoothed), audio, smoothed)
        window = _ChunkAudio(first, audio, smoothed, activity)
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

    def _find_activity(self, audio: Samples, smoothed: Levels) -> Activity:
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
        return find_activity(probabilities, smoothed, softest, self._options)


@dataclass(frozen=True, slots=True, eq=False)
class _ChunkAudio:
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
        for start, end in true_runs(mixed_speech & ~self.activity.any(axis=1)):
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


def remove_copies(activity: Activity, audio: Samples, smoothed: Levels) -> Activity:
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
        for start, end in true_runs(activity[:, one] & activity[:, other]):
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
        for start, end in true_runs(speech)
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
    result: Frames = hold_peaks(frames[:, None].astype(np.float32), 0.0)[:, 0] > 0
    return result
