r"""Find regions that the VAD rejects although they have sound.

    level         ___/^^^^^\__/^^^\_/^^\____/^^^^^^^^^^^^^\______
    VAD           ............=.................================   = speech, . rejected
    regions        [------------------]                          sound, and no lasting speech

A region has sound above the noise floor, and no pause longer than `MAX_PAUSE`. A short run of
speech is part of the region: in a sentence that the VAD rejects, single words may be detected.

In some sound, neither the VAD nor the noise floor shows any speech. The model samples it:

    level    ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~    even, loud, without speech
    sample      [------ 24 s ------]                one for each section, more if it has text

Noise can hide speech from the VAD, and from the regions that rise above the noise floor.
"""

from bisect import bisect_left
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from whisperbatch.chunking.spans import frame_energies, places, track_silence
from whisperbatch.options import Options
from whisperbatch.types import SpeechFrames, to_samples

MIN_REGION: Final = to_samples(2.0)  # samples; shorter sounds hold few words
MAX_REGION: Final = to_samples(24.0)  # samples; with its padding, a region fits into a chunk
PADDING: Final = to_samples(0.5)  # samples before and after the sound, if there is no speech
MAX_PAUSE: Final = to_samples(1.5)  # samples without sound that end a region
MAX_GAP: Final = to_samples(0.3)  # samples without sound inside a run of sound: a plosive, a breath
MIN_REJECTED: Final = to_samples(1.0)  # samples of sound between two runs of speech, or more
LASTING_SPEECH: Final = to_samples(1.0)  # samples of a run of speech that ends a region
CUT_RANGE: Final = to_samples(6.0)  # samples at the end of a full region, with the place of a cut

NOISE_MARGIN: Final = 8.0  # decibels above the noise floor: sound
MIN_LEVEL: Final = -65.0  # dBFS; fainter frames are silence, whatever the noise floor is
FLOOR_GROUP: Final = to_samples(0.25)  # samples whose mean power is one measurement of the floor
FLOOR_MEMORY: Final = to_samples(30.0)  # samples; the floor is the lowest measurement in this time

MIN_POWER: Final = 10 ** (MIN_LEVEL / 10)  # mean square of a block with sound


@dataclass(frozen=True, slots=True)
class RejectedRegion:
    """A range of VAD frames with its padding, counted from the start of the clip.

    Attributes:
        start: first frame.
        end: the frame after the last.
        sounds: start and end of each run of sound, without the padding.
    """

    start: int
    end: int
    sounds: tuple[tuple[int, int], ...] = ()


class RegionFinder:
    """Takes VAD frames in order, and yields each region when it has ended.

    Args:
        options: thresholds of speech.
        hop: samples per VAD frame.

    Attributes:
        frame: number of frames added so far.
    """

    def __init__(self, options: Options, hop: int) -> None:
        self._vad_onset, self._vad_offset = options.vad_onset, options.vad_offset
        self._min_silence = max(to_samples(options.min_silence_duration) // hop, 1)
        self._min_region, self._max_region = MIN_REGION // hop, MAX_REGION // hop
        self._max_pause, self._min_rejected = MAX_PAUSE // hop, MIN_REJECTED // hop
        self._max_gap = MAX_GAP // hop
        self._lasting, self._cut_range = LASTING_SPEECH // hop, CUT_RANGE // hop
        self._hop, self._padding = hop, PADDING // hop
        self._floor = _NoiseFloor(hop)
        self.frame = 0
        self._run: int | None = None  # first frame of the run of speech
        self._silence: int | None = None  # first frame of the silence after the run
        self._speech_end = 0  # the frame after the last speech
        self._start: int | None = None  # first frame of the region
        self._sounds: list[tuple[int, int]] = []  # runs of sound in the region
        self._last_sound = 0  # last frame with sound
        self._rejected = 0  # frames with sound since the last run of speech
        self._has_rejected = False  # whether the region has enough rejected sound
        self._powers: list[float] = []  # of the frames of the region
        self._free = 0  # first frame after the last region and the last speech before the region

    @property
    def settled(self) -> int:
        """The first frame that can still belong to a region that was not yielded."""
        start = self.frame if self._start is None else self._start
        return max(start - self._padding, self._free)

    @property
    def is_open(self) -> bool:
        """Whether a region has begun."""
        return self._start is not None

    def push(self, block: SpeechFrames) -> Iterator[RejectedRegion]:
        """Add a block of VAD frames and yield the regions that have ended.

        The block is added while the caller iterates. Exhaust the iterator before the next call.
        """
        energies = frame_energies(block.varying, len(block.probabilities), self._hop)
        powers = energies.astype(np.float64) / self._hop
        probabilities = block.probabilities.astype(np.float64)  # as the thresholds
        has_speech = probabilities >= self._vad_onset
        has_sound = powers >= self._floor(powers.tolist())
        changes = places(has_speech | has_sound)
        falls = places(~has_speech)
        first = self.frame
        while (index := self.frame - first) < len(powers):
            skipped = 0
            if self._is_idle:
                skipped = changes[bisect_left(changes, index)] - index
            elif self._is_in_lasting_speech:
                skipped = falls[bisect_left(falls, index)] - index
                self._speech_end = self.frame + skipped if skipped else self._speech_end
            self.frame += skipped
            if not skipped:
                sound = bool(has_sound[index])
                yield from self._step(float(probabilities[index]), float(powers[index]), sound)
                self.frame += 1

    def finish(self) -> Iterator[RejectedRegion]:
        """Yield the last region, if any, when all frames have been added."""
        yield from self._end(self._last_sound + 1)

    @property
    def _is_idle(self) -> bool:
        """Whether frames without speech and without sound change nothing."""
        return self._run is None and self._start is None

    @property
    def _is_in_lasting_speech(self) -> bool:
        """Whether frames with certain speech only make the run of speech longer."""
        return (
            self._run is not None
            and self._silence is None
            and self._start is None
            and self.frame - self._run >= self._lasting
        )

    def _step(self, probability: float, power: float, has_sound: bool) -> Iterator[RejectedRegion]:
        self._update_run(probability)
        speech_end = self.frame + 1 if self._silence is None else self._silence
        if self._run is not None and speech_end - self._run >= self._lasting:
            yield from self._end(min(self._last_sound + 1, self._run), limit=self._run)
            return
        if has_sound:
            if self._start is None:
                self._start = self.frame
                self._free = max(self._free, self._speech_end)
            self._add_sound()
            if self._run is None:
                self._rejected += 1
                self._has_rejected |= self._rejected >= self._min_rejected
        if self._start is None:
            return
        self._powers.append(power)
        if self.frame - self._last_sound >= self._max_pause:
            yield from self._end(self._last_sound + 1)
        elif len(self._powers) >= self._max_region:
            yield from self._cut(self._start)

    def _add_sound(self) -> None:
        """Add the frame to the runs of sound; a short gap is part of a run."""
        if self._sounds and self.frame - self._sounds[-1][1] <= self._max_gap:
            self._sounds[-1] = self._sounds[-1][0], self.frame + 1
        else:
            self._sounds.append((self.frame, self.frame + 1))
        self._last_sound = self.frame

    def _update_run(self, probability: float) -> None:
        """Begin, continue or end a run of speech, as `chunking.spans` does."""
        if probability >= self._vad_onset:
            if self._run is None:
                self._run, self._rejected = self.frame, 0
            self._speech_end = self.frame + 1
        if self._run is None:
            return
        self._silence = track_silence(
            self._silence, self.frame, probability, self._vad_onset, self._vad_offset
        )
        if self._silence is not None and self.frame + 1 - self._silence >= self._min_silence:
            self._run = self._silence = None

    def _end(self, end: int, limit: int | None = None) -> Iterator[RejectedRegion]:
        """End the region after its last sound; its padding ends at frame `limit`."""
        start, has_rejected, sounds = self._start, self._has_rejected, self._sounds
        self._start, self._powers, self._sounds = None, [], []
        self._has_rejected, self._rejected = False, 0
        if start is not None and has_rejected and end - start >= self._min_region:
            first = max(start - self._padding, self._free)
            self._free = min(end + self._padding, self.frame if limit is None else limit)
            yield RejectedRegion(first, self._free, _within(sounds, start, end))

    def _cut(self, start: int) -> Iterator[RejectedRegion]:
        """End a full region where it is quietest; the rest begins the next region."""
        first = len(self._powers) - self._cut_range
        cut = first + int(np.argmin(self._powers[first:]))
        if self._has_rejected:
            sounds = _within(self._sounds, start, start + cut)
            yield RejectedRegion(max(start - self._padding, self._free), start + cut, sounds)
        self._sounds = list(_within(self._sounds, start + cut, self.frame + 1))
        self._free = start + cut
        self._start, self._powers = start + cut, self._powers[cut:]


def _within(runs: Sequence[tuple[int, int]], start: int, end: int) -> tuple[tuple[int, int], ...]:
    """Return the parts of runs of frames from `start` to before `end`."""
    parts = [(max(first, start), min(last, end)) for first, last in runs]
    return tuple((first, last) for first, last in parts if first < last)


class _NoiseFloor:
    """The lowest power of the last seconds, and the power from which a frame has sound."""

    def __init__(self, hop: int) -> None:
        self._group: list[float] = []
        self._group_size = FLOOR_GROUP // hop
        self._lowest: deque[float] = deque(maxlen=FLOOR_MEMORY // FLOOR_GROUP)
        self._margin = 10 ** (NOISE_MARGIN / 10)
        self._min_power = 10 ** (MIN_LEVEL / 10)
        self._threshold = self._min_power

    def __call__(self, powers: Sequence[float]) -> list[float]:
        """Add the powers of frames; return the power from which each of them has sound."""
        thresholds: list[float] = []
        while len(thresholds) < len(powers):
            first = len(thresholds)
            added = powers[first : first + self._group_size - len(self._group)]
            thresholds += [self._threshold] * len(added)
            self._group += added
            if len(self._group) == self._group_size:  # its last frame has the new threshold
                self._lowest.append(sum(self._group) / self._group_size)
                self._group = []
                self._threshold = max(min(self._lowest) * self._margin, self._min_power)
                thresholds[-1] = self._threshold
        return thresholds


class SampleFinder:
    """Takes the blocks of a clip in order, and yields ranges without any sign of speech.

    Args:
        vad_onset: frames with this probability or more are speech.
        hop: samples per VAD frame.

    Attributes:
        wanted: whether another sample is wanted; False after each sample.
        settled: the first frame that can still belong to a sample.
    """

    def __init__(self, vad_onset: float, hop: int) -> None:
        self._vad_onset, self._hop = vad_onset, hop
        self._frame = 0
        self._found_none = True  # no speech and no region in the clip so far
        self.wanted = True
        self.settled = 0

    def push(self, block: SpeechFrames, *, in_region: bool) -> Iterator[RejectedRegion]:
        """Add a block, and yield the sample that ends with it, if any.

        Args:
            block: VAD frames of the clip.
            in_region: whether sound that rises above the noise floor has begun.
        """
        self._frame += len(block.probabilities)
        power = float(np.mean(np.square(block.samples))) if len(block.samples) else 0.0
        has_speech = bool((block.probabilities >= self._vad_onset).any())
        self._found_none &= not (has_speech or in_region)
        if has_speech or in_region or power < MIN_POWER or not self.wanted:
            self.settled = self._frame
        elif (self._frame - self.settled) * self._hop >= MAX_REGION - len(block.samples):
            yield self._sample()

    def finish(self) -> Iterator[RejectedRegion]:
        """Yield a shorter sample at the end of a clip in which nothing was found."""
        long_enough = (self._frame - self.settled) * self._hop >= MIN_REGION
        if self._found_none and self.wanted and long_enough:
            yield self._sample()

    def _sample(self) -> RejectedRegion:
        start, self.settled, self.wanted = self.settled, self._frame, False
        end = min(self._frame, start + MAX_REGION // self._hop)
        return RejectedRegion(start, end, ((start, end),))
