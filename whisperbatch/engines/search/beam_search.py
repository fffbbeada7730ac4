"""Greedy search, beam search and sampling, for any decoder that reads one token at a time.

The rules are CTranslate2's, which follow openai/whisper. Hypotheses are ranked by their summed
log-probability divided by their length to the power of `length_penalty`. A row ends when
`beam_size * patience` of its hypotheses have ended. With one beam this is greedy search. The
sampled hypotheses of a row are decoded side by side until each has ended.

    search, sample -> _run_search: choose -> advance -> step -> the best hypothesis of each row
                                     ^                   |
                                     +-- candidates -----+
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
    """Possible next tokens, most probable first.

    Attributes:
        tokens: token ids, shape (..., k).
        logprobs: their log-probabilities, shape (..., k).
    """

    tokens: Integers
    logprobs: Floats


class StepFunction(Protocol):
    """A decoder that has read the rows' prompts."""

    def __call__(self, tokens: Integers, sources: Integers, rows: Sequence[int]) -> Candidates:
        """Read one more token of each beam.

        Args:
            tokens: shape (rows, beams).
            sources: for each token, the beam of the previous step (in the same row) that the token
                extends; shape (rows, beams).
            rows: the rows that continue, as indices into the rows of the previous step.

        Returns:
            The same number of candidates for each beam, shape (rows, beams, k).
        """
        ...


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The hypothesis that a search found for a row.

    Attributes:
        tokens: without the end of text.
        logprobs: the log-probability of each token.
        beams: the beam in which each token was read. If the hypothesis was cut off, its last token
            was never read and has no beam.
        logprob: the sum of the tokens' log-probabilities, and of the end of text's if the
            hypothesis ended with it.
    """

    tokens: tuple[int, ...]
    logprobs: tuple[float, ...]
    beams: tuple[int, ...]
    logprob: float


Lookahead: TypeAlias = Callable[[int, int], Candidates | None]
"""Returns the candidates that follow a token if the decoder has already read that token.

Speculative decoding reads several guessed tokens in one step. The arguments are a row (as an index
into the rows of the previous step) and the token that the row continues with. The result is None if
the decoder has not read the token; otherwise the candidates after the token, shape (1, 1, k), and
the next call is about the token after it.
"""


def search(
    step: StepFunction,
    first: Candidates,
    *,
    beam_size: int,
    patience: float,
    length_penalty: float,
    max_tokens: int,
    end_of_text: int,
    lookahead: Lookahead | None = None,
) -> list[SearchResult]:
    """Return the best hypothesis of each row, by greedy or beam search.

    Args:
        step: reads one more token.
        first: candidates after each row's prompt, shape (rows, k), k at least 2 * beam_size.
        beam_size: number of hypotheses that are followed at a time.
        patience: a row ends when `beam_size * patience` of its hypotheses have ended.
        length_penalty: exponent of the length by which scores are divided.
        max_tokens: maximum length of a hypothesis.
        end_of_text: the token that ends a hypothesis.
        lookahead: of a decoder that reads guessed tokens; only with one beam.
    """
    required_endings = max(1, int(beam_size * patience + 0.5))
    rows = [
        _BeamRow(beam_size, required_endings, end_of_text, length_penalty)
        for _ in range(len(first.tokens))
    ]
    choose = partial(_most_probable, count=2 * beam_size)
    return _run_search(rows, step, first, choose, max_tokens=max_tokens, lookahead=lookahead)


def sample(
    step: StepFunction, first: Candidates, *, max_tokens: int, end_of_text: int
) -> list[SearchResult]:
    """Return the sampled hypothesis of each row with the highest mean log-probability per token.

    Args:
        step: reads one more token; its candidates are the drawn tokens, k = 1.
        first: tokens drawn after each row's prompt, shape (rows, sampled hypotheses).
        max_tokens: maximum length of a hypothesis.
        end_of_text: the token that ends a hypothesis.
    """
    row_count, samples = first.tokens.shape
    rows = [_SampledRow(samples, end_of_text) for _ in range(row_count)]
    return _run_search(rows, step, first, _all_candidates, max_tokens=max_tokens)


def _run_search(
    rows: Sequence["_Row"],
    step: StepFunction,
    first: Candidates,
    choose: "Choose",
    *,
    max_tokens: int,
    lookahead: Lookahead | None = None,
) -> list[SearchResult]:
    """Choose and read tokens until all rows are finished; finished rows leave the batch."""
    active = list(rows)
    candidates = Candidates(first.tokens[:, None], first.logprobs[:, None])
    while True:
        extensions = choose(candidates, np.stack([row.totals for row in active]))
        for number, row in enumerate(active):
            row.advance(extensions[number], last=len(row.steps) + 1 == max_tokens)
            while lookahead and not row.done:
                following = lookahead(number, int(row.steps[-1].tokens[0]))
                if following is None:
                    break
                [extension] = choose(following, row.totals[None])
                row.advance(extension, last=len(row.steps) + 1 == max_tokens)
        continuing = [number for number, row in enumerate(active) if not row.done]
        if not continuing:
            return [row.best for row in rows]
        active = [active[number] for number in continuing]
        tokens = np.stack([row.steps[-1].tokens for row in active])
        sources = np.stack([row.steps[-1].sources for row in active])
        candidates = step(tokens, sources, continuing)


@dataclass(frozen=True, slots=True, eq=False)
class _Extensions:
    """Tokens that can extend the hypotheses of a row, most probable first.

    Attributes:
        tokens: token ids, shape (n,).
        sources: the beam that each token extends, shape (n,).
        logprobs: the log-probability of each token, shape (n,).
        totals: the log-probability of each extended hypothesis, shape (n,).
    """

    tokens: Integers
    sources: Integers
    logprobs: Floats
    totals: Floats

    def __getitem__(self, numbers: Sequence[int]) -> "_Extensions":
        return _Extensions(
            self.tokens[numbers],
            self.sources[numbers],
            self.logprobs[numbers],
            self.totals[numbers],
        )


Choose: TypeAlias = Callable[[Candidates, Floats], list[_Extensions]]
"""Returns each row's extensions, from candidates (rows, beams, k) and the beams' totals
(rows, beams)."""


def _most_probable(candidates: Candidates, totals: Floats, *, count: int) -> list[_Extensions]:
    """Return the `count` most probable extensions of each row, over all of its beams."""
    k = candidates.tokens.shape[-1]
    tokens, logprobs, sums = _flatten_beams(candidates, totals)
    order = np.argsort(-sums, axis=1, kind="stable")[:, :count]
    return [
        _Extensions(tokens[row, best], best // k, logprobs[row, best], sums[row, best])
        for row, best in enumerate(order)
    ]


def _all_candidates(candidates: Candidates, totals: Floats) -> list[_Extensions]:
    """Return all extensions of each row, in the order of the candidates."""
    k = candidates.tokens.shape[-1]
    flat_tokens, flat_logprobs, flat_sums = _flatten_beams(candidates, totals)
    sources = np.arange(flat_tokens.shape[1]) // k
    return [
        _Extensions(tokens, sources, logprobs, sums)
        for tokens, logprobs, sums in zip(flat_tokens, flat_logprobs, flat_sums, strict=True)
    ]


def _flatten_beams(candidates: Candidates, totals: Floats) -> tuple[Integers, Floats, Floats]:
    """Return tokens, log-probabilities and totals, each of shape (rows, beams * k)."""
    rows = len(candidates.tokens)
    sums = (totals[..., None] + candidates.logprobs).reshape(rows, -1)
    return candidates.tokens.reshape(rows, -1), candidates.logprobs.reshape(rows, -1), sums


class _Row(ABC):
    """The hypotheses of one row.

    Attributes:
        best: the best hypothesis that has ended; of equally good hypotheses, the first.
        totals: the log-probability of each hypothesis that is followed.
        steps: the tokens that were chosen at each step.
        done: whether enough hypotheses have ended.
    """

    def __init__(self, end_of_text: int, length_penalty: float) -> None:
        self._end_of_text, self._length_penalty = end_of_text, length_penalty
        self.best = SearchResult((), (), (), -np.inf)
        self.totals: Floats = np.zeros(1, np.float32)
        self.steps: list[_Extensions] = []
        self.done = False

    @abstractmethod
    def advance(self, extensions: _Extensions, *, last: bool) -> None:
        """Extend the hypotheses by one token each; `last` ends all of them."""

    def _end_hypothesis(self, extensions: _Extensions, number: int) -> None:
        """End the hypothesis that extension `number` completes; keep it if it is the best."""
        total = float(extensions.totals[number])
        has_end = extensions.tokens[number] == self._end_of_text
        length = len(self.steps) + (not has_end)
        if self._score(total, length) <= self._score(self.best.logprob, len(self.best.tokens)):
            return
        beams: list[int] = []
        beam = int(extensions.sources[number])
        for step in reversed(self.steps):
            beams.append(beam)
            beam = int(step.sources[beam])
        beams.reverse()
        path = list(zip(self.steps, beams, strict=True))
        tokens = [int(step.tokens[beam]) for step, beam in path]
        logprobs = [float(step.logprobs[beam]) for step, beam in path]
        if not has_end:
            tokens.append(int(extensions.tokens[number]))
            logprobs.append(float(extensions.logprobs[number]))
        self.best = SearchResult(tuple(tokens), tuple(logprobs), tuple(beams), total)

    def _score(self, total: float, length: int) -> float:
        return total / float(max(length, 1) ** self._length_penalty)


class _BeamRow(_Row):
    """The most probable hypotheses of a row, `beam_size` at a time."""

    def __init__(
        self, beam_size: int, required_endings: int, end_of_text: int, length_penalty: float
    ) -> None:
        super().__init__(end_of_text, length_penalty)
        self._beam_size, self._required_endings, self._endings = beam_size, required_endings, 0

    def advance(self, extensions: _Extensions, *, last: bool) -> None:
        """Follow the `beam_size` most probable extensions.

        An extension that ends its hypothesis is replaced by the next extension that does not.
        """
        followed: list[int] = []
        spare = iter(range(self._beam_size, len(extensions.tokens)))
        for number in range(self._beam_size):
            chosen = number
            if extensions.tokens[number] == self._end_of_text or last:
                self._endings += 1
                self._end_hypothesis(extensions, number)
                chosen = next(
                    (n for n in spare if extensions.tokens[n] != self._end_of_text), number
                )
            followed.append(chosen)
        step = extensions[followed]
        self.steps.append(step)
        self.totals = step.totals
        self.done = last or self._endings >= self._required_endings


class _SampledRow(_Row):
    """The sampled hypotheses of a row, each independent of the others.

    Tokens drawn for a hypothesis that has ended are ignored.
    """

    def __init__(self, samples: int, end_of_text: int) -> None:
        super().__init__(end_of_text, length_penalty=1.0)
        self._unfinished = set(range(samples))

    def advance(self, extensions: _Extensions, *, last: bool) -> None:
        """Extend each hypothesis by the token that was drawn for it."""
        for number in sorted(self._unfinished):
            if extensions.tokens[number] == self._end_of_text or last:
                self._end_hypothesis(extensions, number)
                self._unfinished.remove(number)
        self.steps.append(extensions)
        self.totals = extensions.totals
        self.done = not self._unfinished
