"""Greedy and beam search, and sampling, over any decoder that reads a token at a time.

The rules are CTranslate2's, which are openai/whisper's: hypotheses are ranked by their summed
log-probability over their length to the power of `length_penalty`, and a row ends when
`beam_size * patience` of them have ended. With a beam of one that is greedy search. Samples go on
side by side until each has ended.

    search, sample -> _follow: choose, take, read on -> the best of each row
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
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
class SearchResult:
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


Ahead: TypeAlias = Callable[[int, int], Candidates | None]
"""What a decoder knows already: of a row (its number among those of the step before) and the token
that it goes on with, the candidates that follow, shape (1, 1, k). None if it has to read on. Each
answer is a token read: it is asked for what follows that next."""


def search(
    steps: Steps,
    first: Candidates,
    *,
    beam_size: int,
    patience: float,
    length_penalty: float,
    most: int,
    end: int,
    ahead: Ahead | None = None,
) -> list[SearchResult]:
    """The best hypothesis of each row.

    Args:
        steps: reads on.
        first: candidates after each row's prompt, shape (rows, k), k at least 2 * beam_size.
        beam_size: hypotheses that are followed.
        patience: how many times as many have to end.
        length_penalty: exponent of the length that scores are divided by.
        most: tokens of a hypothesis.
        end: token that ends one.
        ahead: of a decoder that guesses; for a beam of one.
    """
    wanted = max(1, int(beam_size * patience + 0.5))
    rows = [_Beams(beam_size, wanted, end, length_penalty) for _ in range(len(first.tokens))]
    choose = partial(_likeliest, count=2 * beam_size)
    return _follow(rows, steps, first, choose, most=most, ahead=ahead)


def sample(steps: Steps, first: Candidates, *, most: int, end: int) -> list[SearchResult]:
    """The likeliest of each row's samples, by the mean log-probability of a token.

    Args:
        steps: reads on; its candidates are what was drawn, k = 1.
        first: what was drawn after each row's prompt, shape (rows, samples).
        most: tokens of a sample.
        end: token that ends one.
    """
    count, samples = first.tokens.shape
    rows = [_Samples(samples, end) for _ in range(count)]
    return _follow(rows, steps, first, _every, most=most)


def _follow(
    rows: Sequence["_Row"],
    steps: Steps,
    first: Candidates,
    choose: "Choose",
    *,
    most: int,
    ahead: Ahead | None = None,
) -> list[SearchResult]:
    """Take and read tokens until all rows are done; those that are leave."""
    going = list(rows)
    candidates = Candidates(first.tokens[:, None], first.logprobs[:, None])
    while True:
        choices = choose(candidates, np.stack([row.totals for row in going]))
        for number, row in enumerate(going):
            row.take(choices[number], last=len(row.read) + 1 == most)
            while ahead and not row.done:
                known = ahead(number, int(row.read[-1].tokens[0]))
                if known is None:
                    break
                row.take(choose(known, row.totals[None])[0], last=len(row.read) + 1 == most)
        staying = [number for number, row in enumerate(going) if not row.done]
        if not staying:
            return [row.best for row in rows]
        going = [going[number] for number in staying]
        tokens = np.stack([row.read[-1].tokens for row in going])
        sources = np.stack([row.read[-1].sources for row in going])
        candidates = steps(tokens, sources, staying)


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


Choose: TypeAlias = Callable[[Candidates, Floats], list[_Choice]]
"""Which of the candidates (rows, beams, k) to consider, with the beams' totals (rows, beams)."""


def _likeliest(candidates: Candidates, totals: Floats, *, count: int) -> list[_Choice]:
    """The likeliest ways to go on from all beams of a row, for each row."""
    k = candidates.tokens.shape[-1]
    tokens, logprobs, sums = _flat(candidates, totals)
    order = np.argsort(-sums, axis=1, kind="stable")[:, :count]
    return [
        _Choice(tokens[row, best], best // k, logprobs[row, best], sums[row, best])
        for row, best in enumerate(order)
    ]


def _every(candidates: Candidates, totals: Floats) -> list[_Choice]:
    """All ways to go on, in order, for each row."""
    k = candidates.tokens.shape[-1]
    tokens, logprobs, sums = _flat(candidates, totals)
    sources = np.arange(tokens.shape[1]) // k
    return [_Choice(row, sources, *rest) for row, *rest in zip(tokens, logprobs, sums, strict=True)]


def _flat(candidates: Candidates, totals: Floats) -> tuple[Integers, Floats, Floats]:
    """Tokens, log-probabilities and totals of all beams of a row together."""
    rows = len(candidates.tokens)
    sums = (totals[..., None] + candidates.logprobs).reshape(rows, -1)
    return candidates.tokens.reshape(rows, -1), candidates.logprobs.reshape(rows, -1), sums


class _Row(ABC):
    """The hypotheses of one row.

    Attributes:
        best: of those that have ended; of several as good, the first.
        totals: log-probability of each that is followed.
        read: the tokens that have been taken, step by step.
        done: whether enough have ended.
    """

    def __init__(self, end: int, length_penalty: float) -> None:
        self._end, self._penalty = end, length_penalty
        self.best = SearchResult((), (), (), -np.inf)
        self.totals: Floats = np.zeros(1, np.float32)
        self.read: list[_Choice] = []
        self.done = False

    @abstractmethod
    def take(self, choice: _Choice, *, last: bool) -> None:
        """Go on with some of a choice; `last` ends all of them."""

    def _set_aside(self, choice: _Choice, number: int) -> None:
        """One has ended, or has to: it is the best if it is better than that."""
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
        self.best = SearchResult(tuple(tokens), tuple(logprobs), tuple(beams), total)

    def _score(self, total: float, length: int) -> float:
        return total / float(max(length, 1) ** self._penalty)


class _Beams(_Row):
    """The likeliest that can be said, `size` of them at a time."""

    def __init__(self, size: int, wanted: int, end: int, length_penalty: float) -> None:
        super().__init__(end, length_penalty)
        self._size, self._wanted, self._ended = size, wanted, 0

    def take(self, choice: _Choice, *, last: bool) -> None:
        """Go on with the likeliest; of those in the lead, the ones that end are set aside."""
        going: list[int] = []
        spare = iter(range(self._size, len(choice.tokens)))
        for number in range(self._size):
            taken = number
            if choice.tokens[number] == self._end or last:
                self._ended += 1
                self._set_aside(choice, number)
                taken = next((n for n in spare if choice.tokens[n] != self._end), number)
            going.append(taken)
        following = choice[going]
        self.read.append(following)
        self.totals = following.totals
        self.done = last or self._ended >= self._wanted


class _Samples(_Row):
    """Samples, each by itself; what is drawn for one that has ended does not count."""

    def __init__(self, count: int, end: int) -> None:
        super().__init__(end, length_penalty=1.0)
        self._going = set(range(count))

    def take(self, choice: _Choice, *, last: bool) -> None:
        """Go on with each; those that end are set aside."""
        for number in sorted(self._going):
            if choice.tokens[number] == self._end or last:
                self._set_aside(choice, number)
                self._going.remove(number)
        self.read.append(choice)
        self.totals = choice.totals
        self.done = not self._going
