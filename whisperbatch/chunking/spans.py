r"""From speech probabilities to speech spans, while the recording is being read.

    probability  ..__/^^^^^^\__/^^\____________/^^^^^^^^^...
    hysteresis     [========]  [==]            [=========     starts at onset, ends below offset
    joined         [==============]            [=========     silence under min_silence_duration
    padded       [==================]        [===========     speech_pad, at most half the pause

If speech is longer than `max_speech_duration`, a cut is made in the later half of the allowed
length, where speech is least likely and the audio is quietest. The cut waits until the speech ends
or continues after a silence, because only then its length is known. The spans are therefore the
same as if the whole recording were known.
"""

from collections.abc import Generator, Iterator
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
import numpy.typing as npt

from whisperbatch.options import VadOptions
from whisperbatch.types import Samples, SpeechFrames, SpeechSpan, to_samples

# This change of level has the same weight as a change of the probability from 0 to 1.
LEVEL_SCALE: Final = 40.0  # dB
MIN_POWER: Final = 1e-10  # mean square of a silent frame: -100 dB


@dataclass(slots=True)
class _Speech:
    """Speech that has not ended yet; positions in VAD frames.

    Attributes:
        start: first VAD frame.
        follows_cut: whether the speech begins at a cut, where there is no margin.
        silence_start: first VAD frame of the silence at its end, if there is silence.
        costs: cost of a cut in each of its frames.
    """

    start: int
    follows_cut: bool = False
    silence_start: int | None = None
    costs: list[float] = field(default_factory=list)


class SpanFinder:
    """Takes VAD frames in order and returns each speech span as soon as the span is certain.

    Attributes:
        settled: all spans that start before this recording sample have been returned.
    """

    def __init__(self, options: VadOptions, hop: int) -> None:
        self._onset, self._offset = options.vad_onset, options.vad_offset
        self._hop = hop
        self._pad = to_samples(options.speech_pad)
        self._min_speech = to_samples(options.min_speech_duration)
        # a silence longer than the longest span ends speech, which limits the memory for costs
        min_silence = min(options.min_silence_duration, options.max_speech_duration)
        self._min_silence = max(to_samples(min_silence), 1)
        # in VAD frames and without margins, so that a padded span keeps to the limit
        self._max_frames = (to_samples(options.max_speech_duration) - 2 * self._pad) // hop
        self._frame = 0  # VAD frames seen
        self._speech: _Speech | None = None
        # the last span has its left margin and waits for the start of the next span
        self._waiting: SpeechSpan | None = None
        self._right_margin = 0  # samples of margin that the waiting span may get on its right
        self.settled = 0

    def push(self, block: SpeechFrames) -> Iterator[SpeechSpan]:
        """Add a block of VAD frames and yield the spans that become certain."""
        costs = cut_costs(block.samples, block.probabilities, self._hop)
        for probability, cost in zip(block.probabilities.tolist(), costs.tolist(), strict=True):
            yield from self._step(probability, cost)
            self._frame += 1
        if self._waiting:
            self.settled = self._waiting.start
        elif self._speech:
            self.settled = max(self._speech.start * self._hop - self._pad, 0)
        else:
            self.settled = max(self._frame * self._hop - self._pad, 0)

    def finish(self, length: int) -> Iterator[SpeechSpan]:
        """Yield the last spans of a recording of `length` samples."""
        if speech := self._speech:
            end = length if speech.silence_start is None else speech.silence_start * self._hop
            yield from self._close(speech, end, cut=False)
        yield from self._release(length)
        self.settled = length

    def _step(self, probability: float, cost: float) -> Iterator[SpeechSpan]:
        frame, speech = self._frame, self._speech
        if speech is None:
            if self._waiting and frame * self._hop - self._waiting.end >= 2 * self._pad:
                yield from self._release(frame * self._hop)
            if probability < self._onset:
                return
            speech = self._speech = _Speech(frame)
        speech.costs.append(cost)
        if probability >= self._onset:
            speech.silence_start = None
        elif speech.silence_start is None and probability < self._offset:
            speech.silence_start = frame
        if speech.silence_start is None:
            while len(speech.costs) > self._max_frames:
                speech = yield from self._cut(speech)
        elif (frame + 1 - speech.silence_start) * self._hop >= self._min_silence:
            yield from self._close(speech, speech.silence_start * self._hop, cut=False)

    def _cut(self, speech: _Speech) -> Generator[SpeechSpan, None, _Speech]:
        """Cut speech at the cheapest boundary in the later half of the allowed length.

        Returns the speech after the cut.
        """
        costs = np.array(speech.costs[: self._max_frames + 1])
        earliest = max(self._max_frames // 2, 1)
        boundaries = costs[earliest - 1 : -1] + costs[earliest:]  # the frames on either side
        # of equally cheap boundaries, the latest
        cheapest = len(boundaries) - 1 - int(np.argmin(boundaries[::-1]))
        length = earliest + cheapest
        frame = speech.start + length
        yield from self._close(speech, frame * self._hop, cut=True)
        following = _Speech(frame, follows_cut=True, costs=speech.costs[length:])
        self._speech = following
        return following

    def _close(self, speech: _Speech, end: int, *, cut: bool) -> Iterator[SpeechSpan]:
        """End speech at sample `end`; its span waits until the right margin is known."""
        self._speech = None
        start = speech.start * self._hop
        if end - start < self._min_speech and not (speech.follows_cut or cut):
            return
        left = start if speech.follows_cut else max(start - self._pad, 0)
        if self._waiting and not speech.follows_cut:
            left = max(left, (self._waiting.end + start) // 2)
        yield from self._release(left)
        self._waiting = SpeechSpan(left, end, before=start - left)
        self._right_margin = 0 if cut else self._pad

    def _release(self, limit: int) -> Iterator[SpeechSpan]:
        """Yield the waiting span, with a right margin that ends at sample `limit` at the latest."""
        if waiting := self._waiting:
            end = min(waiting.end + self._right_margin, max(limit, waiting.end))
            self._waiting = None
            yield replace(waiting, end=end, after=end - waiting.end)


def cut_costs(
    samples: Samples, probabilities: npt.NDArray[np.float32], hop: int
) -> npt.NDArray[np.float64]:
    """Return the cost of a cut in each VAD frame: the speech probability plus the scaled level.

    The level breaks ties. In unbroken speech, Silero reports 0.99 for minutes, and with `vad=False`
    the probability is always 1.

    Args:
        samples: shape (n_samples,).
        probabilities: shape (ceil(n_samples / hop),).
        hop: samples of a VAD frame.

    Returns:
        Shape of `probabilities`, float64.
    """
    padded = np.zeros(len(probabilities) * hop, np.float32)
    padded[: len(samples)] = samples
    frames = padded.reshape(-1, hop)
    level = 10 * np.log10(np.maximum(np.einsum("ij,ij->i", frames, frames) / hop, MIN_POWER))
    costs: npt.NDArray[np.float64] = probabilities + level.astype(np.float64) / LEVEL_SCALE
    return costs
