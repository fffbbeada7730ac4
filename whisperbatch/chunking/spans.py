r"""Find speech spans from speech probabilities, while the recording is being read.

    probability  ..__/^^^^^^\__/^^\____________/^^^^^^^^^...
    hysteresis     [========]  [==]            [=========   from vad_onset until below vad_offset
    joined         [==============]            [=========   silence under min_silence_duration
    padded       [==================]        [===========   speech_pad, at most half the pause

Joined speech shorter than `min_speech_duration` is ignored.

Speech longer than `max_speech_duration` is cut in the later half of the allowed length, where
speech is least likely and the audio is quietest. No cut is made while silence follows the speech:
if the silence lasts `min_silence_duration`, the speech ends before the silence and may be short
enough without a cut. The spans are therefore the same as if the whole recording were known.
"""

from bisect import bisect_left
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
import numpy.typing as npt

from whisperbatch.options import Options
from whisperbatch.types import Samples, SpeechFrames, SpeechSpan, to_samples

# A change of the level by this much costs as much as a change of the probability from 0 to 1.
LEVEL_SCALE: Final = 40.0  # dB
MIN_POWER: Final = 1e-10  # lower limit of a frame's mean square: -100 dB, for digital silence


@dataclass(slots=True)
class _Speech:
    """Speech that has not ended yet. Positions are numbers of VAD frames.

    Attributes:
        start: first VAD frame.
        follows_cut: whether the speech begins at a cut, where there is no margin.
        silence_start: first VAD frame of the silence after the speech; None while speech continues.
        costs: for each VAD frame from `start` on, silence included, the cost from `cut_costs`.
    """

    start: int
    follows_cut: bool = False
    silence_start: int | None = None
    costs: list[float] = field(default_factory=list)


class SpanFinder:
    """Takes VAD frames in order and yields each speech span when it can no longer change.

    Positions are samples from the start of the first block.

    Args:
        options: thresholds and durations of the speech spans.
        hop: samples per VAD frame.

    Attributes:
        settled: all spans that start before this position have been yielded.
    """

    def __init__(self, options: Options, hop: int) -> None:
        self._vad_onset, self._vad_offset = options.vad_onset, options.vad_offset
        self._hop = hop
        self._pad = to_samples(options.speech_pad)
        self._min_speech = to_samples(options.min_speech_duration)
        # at most max_speech_duration, which limits the number of costs in memory
        min_silence = min(options.min_silence_duration, options.max_speech_duration)
        self._min_silence = max(to_samples(min_silence), 1)
        # VAD frames of speech without margins: max_speech_duration includes both margins
        self._max_frames = (to_samples(options.max_speech_duration) - 2 * self._pad) // hop
        self._frame = 0  # number of the next VAD frame
        self._speech: _Speech | None = None
        # the last span; its margin at the end depends on the start of the next span
        self._waiting: SpeechSpan | None = None
        self._max_end_margin = 0  # samples of margin that the waiting span can get at its end
        self.settled = 0

    @property
    def open_speech(self) -> tuple[int, int | None] | None:
        """The speech that has not ended: its first sample, and that of the silence after it.

        The silence is None while the speech continues. Positions have no margins.
        """
        if (speech := self._speech) is None:
            return None
        silence = speech.silence_start
        return speech.start * self._hop, None if silence is None else silence * self._hop

    def release(self) -> Iterator[SpeechSpan]:
        """Yield the last span without waiting for the rest of its margin.

        The margin ends at the last VAD frame, at the latest.
        """
        yield from self._release(self._frame * self._hop)

    def push(self, block: SpeechFrames) -> Iterator[SpeechSpan]:
        """Add a block of VAD frames and yield the spans that can no longer change.

        The block is added while the caller iterates. Exhaust the iterator before the next call;
        `settled` is updated at its end.
        """
        costs = cut_costs(block.varying, block.probabilities, self._hop).tolist()
        probabilities = block.probabilities.astype(np.float64)  # as the thresholds
        onsets = places(probabilities >= self._vad_onset)
        falls = places(probabilities < self._vad_offset)
        first = self._frame
        while (index := self._frame - first) < len(costs):
            if self._speech is None:
                count = onsets[bisect_left(onsets, index)] - index
                yield from self._pass_silence(count)
            else:
                count = self._add_certain(costs[index : falls[bisect_left(falls, index)]])
            if not count:
                yield from self._step(float(probabilities[index]), costs[index])
                self._frame += 1
        if self._waiting:
            self.settled = self._waiting.start
        elif self._speech:
            self.settled = max(self._speech.start * self._hop - self._pad, 0)
        else:
            self.settled = max(self._frame * self._hop - self._pad, 0)

    def finish(self, length: int) -> Iterator[SpeechSpan]:
        """Yield the last spans, when all blocks have been added; `length` is their total length.

        Exhaust the iterator, as with `push`.
        """
        if speech := self._speech:
            end = length if speech.silence_start is None else speech.silence_start * self._hop
            yield from self._close(speech, end, cut=False)
        yield from self._release(length)
        self.settled = length

    def _pass_silence(self, count: int) -> Iterator[SpeechSpan]:
        """Add frames before the next speech, and yield the last span if its margin is complete."""
        self._frame += count
        last = (self._frame - 1) * self._hop
        if count and self._waiting and last - self._waiting.end >= 2 * self._pad:
            yield from self._release(last)

    def _add_certain(self, costs: Sequence[float]) -> int:
        """Add frames of speech that neither end it nor make a cut necessary; return their number.

        Args:
            costs: of the frames up to the next that may end speech.
        """
        speech = self._speech
        if speech is None or speech.silence_start is not None:
            return 0
        added = costs[: max(self._max_frames - len(speech.costs), 0)]
        speech.costs.extend(added)
        self._frame += len(added)
        return len(added)

    def _step(self, probability: float, cost: float) -> Iterator[SpeechSpan]:
        """Add a VAD frame with its speech probability and its cost from `cut_costs`."""
        frame, speech = self._frame, self._speech
        if speech is None:
            if self._waiting and frame * self._hop - self._waiting.end >= 2 * self._pad:
                yield from self._release(frame * self._hop)
            if probability < self._vad_onset:
                return
            speech = self._speech = _Speech(frame)
        speech.costs.append(cost)
        speech.silence_start = track_silence(
            speech.silence_start, frame, probability, self._vad_onset, self._vad_offset
        )
        if speech.silence_start is None:
            while len(speech.costs) > self._max_frames:
                speech = yield from self._cut(speech)
        elif (frame + 1 - speech.silence_start) * self._hop >= self._min_silence:
            yield from self._close(speech, speech.silence_start * self._hop, cut=False)

    def _cut(self, speech: _Speech) -> Generator[SpeechSpan, None, _Speech]:
        """Cut speech between two VAD frames, where the sum of their costs is lowest.

        The speech before the cut has at least half of the allowed length. Of equally cheap
        places, the latest is chosen.

        Yields:
            Spans that can no longer change.

        Returns:
            The speech after the cut.
        """
        costs = np.array(speech.costs[: self._max_frames + 1])
        min_length = max(self._max_frames // 2, 1)
        # cost of a cut after min_length frames, min_length + 1 frames, ...: frame before and after
        costs_by_length = costs[min_length - 1 : -1] + costs[min_length:]
        latest_cheapest = len(costs_by_length) - 1 - int(np.argmin(costs_by_length[::-1]))
        length = min_length + latest_cheapest
        frame = speech.start + length
        yield from self._close(speech, frame * self._hop, cut=True)
        following = _Speech(frame, follows_cut=True, costs=speech.costs[length:])
        self._speech = following
        return following

    def _close(self, speech: _Speech, end: int, *, cut: bool) -> Iterator[SpeechSpan]:
        """End speech at sample `end`, and yield the span before this speech.

        The span of this speech waits until its margin at the end is known. `cut` says that the
        speech continues in another span at `end`.
        """
        self._speech = None
        start = speech.start * self._hop
        # a part of cut speech is kept even if the part is short
        if end - start < self._min_speech and not (speech.follows_cut or cut):
            return
        padded_start = start if speech.follows_cut else max(start - self._pad, 0)
        if self._waiting and not speech.follows_cut:
            middle_of_pause = (self._waiting.end + start) // 2
            padded_start = max(padded_start, middle_of_pause)
        yield from self._release(padded_start)
        self._waiting = SpeechSpan(padded_start, end, before=start - padded_start)
        self._max_end_margin = 0 if cut else self._pad

    def _release(self, latest_end: int) -> Iterator[SpeechSpan]:
        """Yield the waiting span, if any. Its margin at the end stops at sample `latest_end`."""
        if waiting := self._waiting:
            end = min(waiting.end + self._max_end_margin, max(latest_end, waiting.end))
            self._waiting = None
            yield replace(waiting, end=end, after=end - waiting.end)


def places(flags: npt.NDArray[np.bool_]) -> list[int]:
    """Return the places of true flags in order, and, after the last, the number of flags."""
    return [*np.flatnonzero(flags).tolist(), len(flags)]


def track_silence(
    silence: int | None, frame: int, probability: float, onset: float, offset: float
) -> int | None:
    """Return the first frame of the silence after speech; None while the speech continues.

    Args:
        silence: the value after the frame before; None if speech begins with this frame.
        frame: number of the frame.
        probability: of speech in the frame.
        onset: probability from which speech continues.
        offset: probability below which silence begins.
    """
    if probability >= onset:
        return None
    return frame if silence is None and probability < offset else silence


def frame_energies(samples: Samples, count: int, hop: int) -> npt.NDArray[np.float32]:
    """Return the sum of squares of each of `count` VAD frames; zeros complete the last frame."""
    padding = count * hop - len(samples)
    frames = (np.pad(samples, (0, padding)) if padding else samples).reshape(-1, hop)
    energies: npt.NDArray[np.float32] = np.einsum("ij,ij->i", frames, frames)
    return energies


def cut_costs(
    samples: Samples, probabilities: npt.NDArray[np.float32], hop: int
) -> npt.NDArray[np.float64]:
    """Return a cost for each VAD frame: high where speech should not be cut.

    The cost is the speech probability plus the level in dB divided by `LEVEL_SCALE`. The level is
    needed where the probability is constant: in unbroken speech, Silero reports 0.99 for minutes,
    and with `vad=False` the probability is always 1.

    Args:
        samples: shape (n_samples,).
        probabilities: speech probability of each VAD frame, shape (ceil(n_samples / hop),).
        hop: samples per VAD frame. Zeros complete an incomplete last frame.

    Returns:
        Shape of `probabilities`, float64. Costs can be negative: 0 dB is a mean square of 1.
    """
    powers = frame_energies(samples, len(probabilities), hop) / hop
    level = 10 * np.log10(np.maximum(powers, MIN_POWER))
    costs: npt.NDArray[np.float64] = probabilities + level.astype(np.float64) / LEVEL_SCALE
    return costs
