"""The stream of the mix: cells of a fixed grid, each with one choice.

    recording     |---------- section period ------------|---------
    cells         [  0  ][  1  ][  2  ] ...      [ last ][  0  ]
    evidence      [  0  |==]
                         [  1  |==]                   look-ahead

A period begins where the audio of a section begins (`types.Span.start`); nothing before is
remembered. A span that is read alone therefore gets the samples of the whole recording.
"""

from collections.abc import Iterable, Iterator
from typing import Final

import numpy as np

from whisperbatch.audio.mixing.blocks import ChannelBlock
from whisperbatch.audio.mixing.choice import PLAIN, Choice, choose, count_speech
from whisperbatch.audio.resampling import BLOCK
from whisperbatch.types import SECTION, WARM_UP, Notices, Samples, to_samples, to_seconds

CELL: Final = to_samples(2.4)  # samples with one choice
LOOK_AHEAD: Final = to_samples(1.6)  # samples after a cell that its choice depends on
FADE: Final = to_samples(0.01)  # samples from one choice to another: no click


class Mixer:
    """Mixes the channels of a recording. Holds at most `CELL + LOOK_AHEAD` samples and a block.

    Args:
        notices: gets a notice for each range that is not the plain mix; None to add none.
        position: the first sample of the blocks, counted in the recording.
        first: the first sample that is needed, at which a period begins. Cells before are not
            measured.
    """

    def __init__(self, notices: Notices | None, position: int = 0, first: int = 0) -> None:
        self._notices = notices
        self._first = first
        self._position = position
        self._held: list[ChannelBlock] = []
        self._length = 0  # samples held
        self._channels = 1
        self._choice = PLAIN

    def __call__(self, blocks: Iterable[ChannelBlock | Samples]) -> Iterator[Samples]:
        """Yield mono blocks of at most 1 s.

        Args:
            blocks: mono samples among blocks of several channels are the same for all channels.
                A block with one channel is never held.
        """
        for block in blocks:
            if isinstance(block, np.ndarray) and self._channels > 1:
                shape = (len(block), self._channels)
                block = ChannelBlock(block, np.broadcast_to(block[:, None], shape))  # noqa: PLW2901
            channels = 1 if isinstance(block, np.ndarray) else block.channels.shape[1]
            if channels != self._channels:
                yield from self._emit(0)
                self._channels, self._choice = channels, PLAIN
            if isinstance(block, np.ndarray) or channels == 1:
                self._position += len(block)
                yield block if isinstance(block, np.ndarray) else block.mixed
            else:
                self._held.append(block)
                self._length += len(block)
                yield from self._emit(LOOK_AHEAD)
        yield from self._emit(0)

    def _emit(self, look_ahead: int) -> Iterator[Samples]:
        """Yield the held cells that have their look-ahead; all for 0."""
        while self._length and (not look_ahead or self._length >= self._rest() + look_ahead):
            block = ChannelBlock.joined(self._held)
            end = min(self._rest(), len(block))
            before = PLAIN if self._begins_period() else self._choice
            if self._position + end > self._first:
                self._choice = choose(block.part(0, end + LOOK_AHEAD), before, count_speech)
            self._held = [block.part(end)] if end < len(block) else []
            self._length -= end
            mixed = _mix(block.part(0, end), before, self._choice, fade=not self._begins_period())
            self._note(end)
            self._position += end
            for start in range(0, end, BLOCK):
                yield mixed[start : start + BLOCK]

    def _rest(self) -> int:
        """Return the samples from the position to the end of its cell."""
        since, left = _in_period(self._position)
        return min(CELL - since % CELL, left)

    def _begins_period(self) -> bool:
        return not _in_period(self._position)[0]

    def _note(self, length: int) -> None:
        if self._notices and self._choice.text:
            start = to_seconds(max(self._position, self._first))
            end = to_seconds(self._position + length)
            self._notices.add("channels", start, end, self._choice.text)


def _in_period(position: int) -> tuple[int, int]:
    """Return the samples since the start of the period, and those until its end."""
    if position < SECTION - WARM_UP:
        return position, SECTION - WARM_UP - position
    since = (position + WARM_UP) % SECTION
    return since, SECTION - since


def _mix(block: ChannelBlock, before: Choice, choice: Choice, *, fade: bool) -> Samples:
    """Return a mix, with a short transition from the mix before."""
    samples = _weigh(block, choice)
    if fade and before.weights != choice.weights:
        length = min(FADE, len(block))
        ramp = np.linspace(0, 1, length, dtype=np.float32)
        earlier = _weigh(block.part(0, length), before)
        samples = samples.copy()
        samples[:length] = earlier + ramp * (samples[:length] - earlier)
    return samples


def _weigh(block: ChannelBlock, choice: Choice) -> Samples:
    if choice.weights is None:
        return block.mixed
    weights = np.array(choice.weights, np.float32)
    samples: Samples = block.channels @ weights
    return samples
