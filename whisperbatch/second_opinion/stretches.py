r"""Find stretches that the VAD rejects although they have sound.

    level         ___/^^^^^\__/^^^\_/^^\____/^^^^^^^^^^^^^\______
    VAD           ............=.................================   = speech, . rejected
    stretches        [------------------]                          sound, and no lasting speech

A stretch has sound above the noise floor, and no pause longer than `MAX_PAUSE`. A short run of
speech is part of the stretch: in a sentence that the VAD rejects, single words may be detected.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from whisperbatch.options import Options
from whisperbatch.types import Samples, SpeechFrames, to_samples

MIN_STRETCH: Final = to_samples(2.0)  # samples; shorter sounds hold few words
MAX_STRETCH: Final = to_samples(24.0)  # samples; with its padding, a stretch fits into a chunk
PADDING: Final = to_samples(0.5)  # samples before and after the sound, if there is no speech
MAX_PAUSE: Final = to_samples(1.5)  # samples without sound that end a stretch
MAX_GAP: Final = to_samples(0.3)  # samples without sound inside a run of sound: a plosive, a breath
MIN_REJECTED: Final = to_samples(1.0)  # samples of sound between two runs of speech, or more
LASTING_SPEECH: Final = to_samples(1.0)  # samples of a run of speech that ends a stretch
CUT_RANGE: Final = to_samples(6.0)  # samples at the end of a full stretch, with the place of a cut

NOISE_MARGIN: Final = 8.0  # decibels above the noise floor: sound
MIN_LEVEL: Final = -65.0  # dBFS; fainter frames are silence, whatever the noise floor is
FLOOR_GROUP: Final = to_samples(0.25)  # samples whose mean power is one measurement of the floor
FLOOR_MEMORY: Final = to_samples(30.0)  # samples; the floor is the lowest measurement in this time
MIN_POWER: Final = 1e-10  # mean square of a silent VAD frame: -100 dB


@dataclass(frozen=True, slots=True)
class Stretch:
    """A range of VAD frames with its padding, counted from the start of the clip.

    Attributes:
        start: first frame.
        end: the frame after the last.
        sounds: start and end of each run of sound, without the padding.
    """

    start: int
    end: int
    sounds: tuple[tuple[int, int], ...] = ()


class StretchFinder:
    """Takes VAD frames in order, and yields each stretch when it has ended.

    Args:
        options: thresholds of speech.
        hop: samples per VAD frame.

    Attributes:
        frame: number of frames added so far.
    """

    def __init__(self, options: Options, hop: int) -> None:
        self._vad_onset, self._vad_offset = options.vad_onset, options.vad_offset
        self._min_silence = max(to_samples(options.min_silence_duration) // hop, 1)
        self._min_stretch, self._max_stretch = MIN_STRETCH // hop, MAX_STRETCH // hop
        self._max_pause, self._min_rejected = MAX_PAUSE // hop, MIN_REJECTED // hop
        self._max_gap = MAX_GAP // hop
        self._lasting, self._cut_range = LASTING_SPEECH // hop, CUT_RANGE // hop
        self._hop, self._padding = hop, PADDING // hop
        self._floor = _NoiseFloor(hop)
        self.frame = 0
        self._run: int | None = None  # first frame of the run of speech
        self._silence = 0  # frames after the last speech of the run
        self._speech_end = 0  # the frame after the last speech
        self._start: int | None = None  # first frame of the stretch
        self._sounds: list[tuple[int, int]] = []  # runs of sound in the stretch
        self._last_sound = 0  # last frame with sound
        self._rejected = 0  # frames with sound since the last run of speech
        self._has_rejected = False  # whether the stretch has enough rejected sound
        self._powers: list[float] = []  # of the frames of the stretch
        self._free = 0  # first frame after the last stretch and the last speech before the stretch

    @property
    def settled(self) -> int:
        """The first frame that can still belong to a stretch that was not yielded."""
        start = self.frame if self._start is None else self._start
        return max(start - self._padding, self._free)

    @property
    def is_open(self) -> bool:
        """Whether a stretch has begun."""
        return self._start is not None

    def push(self, block: SpeechFrames) -> Iterator[Stretch]:
        """Add a block of VAD frames and yield the stretches that have ended.

        The block is added while the caller iterates. Exhaust the iterator before the next call.
        """
        powers = _frame_powers(block.varying, len(block.probabilities), self._hop)
        for probability, power in zip(block.probabilities.tolist(), powers.tolist(), strict=True):
            yield from self._step(probability, power)
            self.frame += 1

    def finish(self) -> Iterator[Stretch]:
        """Yield the last stretch, if any, when all frames have been added."""
        yield from self._end(self._last_sound + 1)

    def _step(self, probability: float, power: float) -> Iterator[Stretch]:
        self._update_run(probability)
        has_sound = power >= self._floor(power)
        if self._run is not None and self.frame + 1 - self._silence - self._run >= self._lasting:
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
        elif len(self._powers) >= self._max_stretch:
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
            self._silence = 0
            self._speech_end = self.frame + 1
        elif self._run is not None and (self._silence or probability < self._vad_offset):
            self._silence += 1
            if self._silence >= self._min_silence:
                self._run, self._silence = None, 0

    def _end(self, end: int, limit: int | None = None) -> Iterator[Stretch]:
        """End the stretch after its last sound; its padding ends at frame `limit`."""
        start, has_rejected, sounds = self._start, self._has_rejected, self._sounds
        self._start, self._powers, self._sounds = None, [], []
        self._has_rejected, self._rejected = False, 0
        if start is not None and has_rejected and end - start >= self._min_stretch:
            first = max(start - self._padding, self._free)
            self._free = min(end + self._padding, self.frame if limit is None else limit)
            yield Stretch(first, self._free, _within(sounds, start, end))

    def _cut(self, start: int) -> Iterator[Stretch]:
        """End a full stretch where it is quietest; the rest begins the next stretch."""
        first = len(self._powers) - self._cut_range
        cut = first + int(np.argmin(self._powers[first:]))
        if self._has_rejected:
            sounds = _within(self._sounds, start, start + cut)
            yield Stretch(max(start - self._padding, self._free), start + cut, sounds)
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

    def __call__(self, power: float) -> float:
        """Add the power of a frame; return the power from which a frame has sound."""
        self._group.append(power)
        if len(self._group) == self._group_size:
            self._lowest.append(sum(self._group) / self._group_size)
            self._group = []
            self._threshold = max(min(self._lowest) * self._margin, self._min_power)
        return self._threshold


def _frame_powers(samples: Samples, count: int, hop: int) -> npt.NDArray[np.float64]:
    """Return the mean square of each of `count` VAD frames; zeros complete the last frame."""
    padded = np.zeros(count * hop, np.float32)
    padded[: len(samples)] = samples
    frames = padded.reshape(-1, hop)
    powers: npt.NDArray[np.float64] = np.einsum("ij,ij->i", frames, frames).astype(np.float64)
    return powers / hop
