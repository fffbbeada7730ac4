"""Greedy and beam search over any decoder that reads a token at a time.

The rules are CTranslate2's, which are openai/whisper's: hypotheses are ranked by their summed
log-probability over their length to the power of `length_penalty`, and a row ends when
`beam_size * patience` of them have ended. With a beam of one that is greedy search.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

Integers: TypeAlias = npt.NDArray[np.int64]
Floats: TypeAlias = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True, eq=False)
class Candidates:
    """The likeliest next tokens, likeliest first.

    Attributes:
        tokens: shape (..., k), ids.
        logprobs: of the same shape.
    """

    tokens: Integers
    logprobs: Floats


class Steps(Protocol):
    """A decoder that has read the rows' prompts."""

    def __call__(self, tokens: Integers, sources: Integers, rows: Sequence[int]) -> Candidates:
        """Read one token more.

        Args:
            tokens: shape (rows, beams).
            sources: of the same shape: which beam of its row, a step before, each goes on from.
            rows: the numbers, among the rows of the step before, of those that still go on.

        Returns:
            For each beam the same number of candidates, shape (rows, beams, k).
        """
        ...


@dataclass(frozen=True, slots=True)
class Found:
    """A hypothesis.

    Attributes:
        tokens: without the end of text.
        logprobs: of each of them.
        beams: which beam each of them was read in; the last one of a text cut off was not.
        logprob: sum over its tokens, the end of text among them where it got so far.
    """

    tokens: tuple[int, ...]
    logprobs: tuple[float, ...]
    beams: tuple[int, ...]
    logprob: float


def search(
    steps: Steps,
    first: Candidates,
    *,
    beam_size: int,
    patience: float,
    length_penalty: float,
    most: int,
    end: int,
) -> list[Found]:
    """The best hypothesis of each row.

    Args:
        steps: reads on.
        first: candidates after each row's prompt, shape (rows, k), k at least 2 * beam_size.
        beam_size: hypotheses that are followed.
        patience: how many times as many have to end.
        length_penalty: exponent of the length that scores are divided by.
        most: tokens of a hypothesis.
        end: token that ends one.
    """
    wanted = max(1, int(beam_size * patience + 0.5))
    rows = [_Beams(beam_size, wanted, end, length_penalty) for _ in range(len(first.tokens))]
    going = list(rows)
    candidates = Candidates(first.tokens[:, None], first.logprobs[:, None])
    for length in range(1, most + 1):
        totals = np.stack([row.totals for row in going])
        choices = _likeliest(candidates, totals, 2 * beam_size)
        for row, choice in zip(going, choices, strict=True):
            row.take(choice, last=length == most)
        staying = [number for number, row in enumerate(going) if not row.done]
        if not staying:
            break
        going = [going[number] for number in staying]
        tokens = np.stack([row.read[-1].tokens for row in going])
        sources = np.stack([row.read[-1].sources for row in going])
        candidates = steps(tokens, sources, staying)
    return [row.best for row in rows]


@dataclass(frozen=True, slots=True, eq=False)
class _Choice:
    """Ways to go on, likeliest first: what a token is, which beam it goes on from, how likely."""

    tokens: Integers
    sources: Integers
    logprobs: Floats
    totals: Floats

    def __getitem__(self, numbers: Sequence[int]) -> "_Choice":
        return _Choice(
            self.tokens[numbers],
            self.sources[numbers],
            self.logprobs[numbers],
            self.totals[numbers],
        )


def _likeliest(candidates: Candidates, totals: Floats, count: int) -> list[_Choice]:
    """The likeliest ways to go on from all beams of a row, for each row."""
    rows, _, k = candidates.tokens.shape
    tokens = candidates.tokens.reshape(rows, -1)
    logprobs = candidates.logprobs.reshape(rows, -1)
    sums = (totals[..., None] + candidates.logprobs).reshape(rows, -1)
    order = np.argsort(-sums, axis=1, kind="stable")[:, :count]
    return [
        _Choice(tokens[row, best], best // k, logprobs[row, best], sums[row, best])
        for row, best in enumerate(order)
    ]


class _Beams:
    """The hypotheses of one row.

    Attributes:
        best: of those that have ended; of several as good, the first.
        totals: log-probability of each that is followed.
        read: the tokens that have been taken, step by step.
        done: whether enough have ended.
    """

    def __init__(self, size: int, wanted: int, end: int, length_penalty: float) -> None:
        self._size, self._wanted, self._end = size, wanted, end
        self._penalty = length_penalty
        self.best = Found((), (), (), -np.inf)
        self._ended = 0
        self.totals: Floats = np.zeros(1, np.float32)
        self.read: list[_Choice] = []
        self.done = False

    def take(self, choice: _Choice, *, last: bool) -> None:
        """Go on with the likeliest; of those in the lead, the ones that end are set aside."""
        going: list[int] = []
        spare = iter(range(self._size, len(choice.tokens)))
        for number in range(self._size):
            taken = number
            if choice.tokens[number] == self._end or last:
                self._set_aside(choice, number)
                taken = next((n for n in spare if choice.tokens[n] != self._end), number)
            going.append(taken)
        following = choice[going]
        self.read.append(following)
        self.totals = following.totals
        self.done = last or self._ended >= self._wanted

    def _set_aside(self, choice: _Choice, number: int) -> None:
        self._ended += 1
        total = float(choice.totals[number])
        ends = choice.tokens[number] == self._end
        length = len(self.read) + (not ends)
        if self._score(total, length) <= self._score(self.best.logprob, len(self.best.tokens)):
            return
        beams: list[int] = []
        beam = int(choice.sources[number])
        for read in reversed(self.read):
            beams.append(beam)
            beam = int(read.sources[beam])
        beams.reverse()
        path = list(zip(self.read, beams, strict=True))
        tokens = [int(read.tokens[beam]) for read, beam in path]
        logprobs = [float(read.logprobs[beam]) for read, beam in path]
        if not ends:
            tokens.append(int(choice.tokens[number]))
            logprobs.append(float(choice.logprobs[number]))
        self.best = Found(tuple(tokens), tuple(logprobs), tuple(beams), total)

    def _score(self, total: float, length: int) -> float:
        return total / float(max(length, 1) ** self._penalty)
