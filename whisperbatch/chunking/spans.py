r"""From probabilities of speech to spans of speech, while the recording is still being read.

    probability  ..__/^^^^^^\__/^^\____________/^^^^^^^^^...
    Schmitt        [========]  [==]            [=========     onset up, offset down
    bridged        [==============]            [=========     silence under min_silence_duration
    padded       [==================]        [===========     speech_pad, at most half the gap

A span longer than `max_speech_duration` is cut where speech is least likely and the audio is
quietest, in the later half of what it may be. Its length is known once it ends or goes on after a
silence, so the spans are those that a look at the whole recording would give.
"""

from collections.abc import Generator, Iterator
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
import numpy.typing as npt

from whisperbatch.options import VadOptions
from whisperbatch.types import Samples, SpeechFrames, SpeechSpan, to_samples

DECIBELS: Final = 40.0  # a fall in level that weighs as much as a fall in probability from 1 to 0
FLOOR: Final = 1e-10  # mean square of a silent frame: -100 dB


@dataclass(slots=True)
class _Speech:
    """The speech going on: counted in frames."""

    start: int
    joined: bool = False  # it begins at a cut, where there is no margin
    quiet: int | None = None  # first frame of the silence inside it going on
    costs: list[float] = field(default_factory=list)  # of cutting in each of its frames


class SpanFinder:
    """Takes frames in order and gives back spans, each as soon as it is certain.

    Attributes:
        settled: every span that starts before this sample has been given back.
    """

    def __init__(self, options: VadOptions, hop: int) -> None:
        self._onset, self._offset = options.vad_onset, options.vad_offset
        self._hop = hop
        self._pad = to_samples(options.speech_pad)
        self._min_speech = to_samples(options.min_speech_duration)
        # a silence that no span can hold ends speech anyway; so what is kept has a bound
        min_silence = min(options.min_silence_duration, options.max_speech_duration)
        self._min_silence = max(to_samples(min_silence), 1)
        # counted in frames, margins aside, so that a padded span keeps to the limit
        self._max_frames = (to_samples(options.max_speech_duration) - 2 * self._pad) // hop
        self._frame = 0  # frames seen
        self._speech: _Speech | None = None
        self._held: SpeechSpan | None = None  # padded on the left; waits for the next one's start
        self._margin = 0  # that the held span wants on its right
        self.settled = 0

    def push(self, block: SpeechFrames) -> Iterator[SpeechSpan]:
        """The spans that `block` makes certain."""
        costs = cut_costs(block.samples, block.probabilities, self._hop)
        for probability, cost in zip(block.probabilities.tolist(), costs.tolist(), strict=True):
            yield from self._step(probability, cost)
            self._frame += 1
        if self._held:
            self.settled = self._held.start
        elif self._speech:
            self.settled = max(self._speech.start * self._hop - self._pad, 0)
        else:
            self.settled = max(self._frame * self._hop - self._pad, 0)

    def finish(self, length: int) -> Iterator[SpeechSpan]:
        """The spans still open when the recording ends after `length` samples."""
        if speech := self._speech:
            end = length if speech.quiet is None else speech.quiet * self._hop
            yield from self._close(speech, end, cut=False)
        yield from self._release(length)
        self.settled = length

    def _step(self, probability: float, cost: float) -> Iterator[SpeechSpan]:
        frame, speech = self._frame, self._speech
        if speech is None:
            if self._held and frame * self._hop - self._held.end >= 2 * self._pad:
                yield from self._release(frame * self._hop)
            if probability < self._onset:
                return
            speech = self._speech = _Speech(frame)
        speech.costs.append(cost)
        if probability >= self._onset:
            speech.quiet = None
        elif speech.quiet is None and probability < self._offset:
            speech.quiet = frame
        if speech.quiet is None:
            while len(speech.costs) > self._max_frames:
                speech = yield from self._split(speech)
        elif (frame + 1 - speech.quiet) * self._hop >= self._min_silence:
            yield from self._close(speech, speech.quiet * self._hop, cut=False)

    def _split(self, speech: _Speech) -> Generator[SpeechSpan, None, _Speech]:
        """Cut the speech going on at the cheapest boundary in the later half of its limit."""
        costs = np.array(speech.costs[: self._max_frames + 1])
        earliest = max(self._max_frames // 2, 1)
        boundaries = costs[earliest - 1 : -1] + costs[earliest:]  # of the frames on either side
        latest = len(boundaries) - 1 - int(np.argmin(boundaries[::-1]))  # among equals
        frame = speech.start + earliest + latest
        yield from self._close(speech, frame * self._hop, cut=True)
        rest = self._speech = _Speech(frame, joined=True, costs=speech.costs[earliest + latest :])
        return rest

    def _close(self, speech: _Speech, end: int, *, cut: bool) -> Iterator[SpeechSpan]:
        """End the speech going on; hold it until its right margin is known."""
        self._speech = None
        start = speech.start * self._hop
        if end - start < self._min_speech and not (speech.joined or cut):
            return
        left = start if speech.joined else max(start - self._pad, 0)
        if self._held and not speech.joined:
            left = max(left, (self._held.end + start) // 2)
        yield from self._release(left)
        self._held = SpeechSpan(left, end, before=start - left)
        self._margin = 0 if cut else self._pad

    def _release(self, limit: int) -> Iterator[SpeechSpan]:
        """Give back the held span, its right margin reaching to `limit` at most."""
        if held := self._held:
            end = min(held.end + self._margin, max(limit, held.end))
            self._held = None
            yield replace(held, end=end, after=end - held.end)


def cut_costs(
    samples: Samples, probabilities: npt.NDArray[np.float32], hop: int
) -> npt.NDArray[np.float64]:
    """What it costs to cut speech in each frame: its probability, and its level on a like scale.

    Level breaks the ties: in unbroken speech Silero says 0.99 for minutes on end, and with
    `vad=False` the probability is 1 throughout.
    """
    padded = np.zeros(len(probabilities) * hop, np.float32)
    padded[: len(samples)] = samples
    frames = padded.reshape(-1, hop)
    level = 10 * np.log10(np.maximum(np.einsum("ij,ij->i", frames, frames) / hop, FLOOR))
    costs: npt.NDArray[np.float64] = probabilities + level.astype(np.float64) / DECIBELS
    return costs
