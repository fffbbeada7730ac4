"""Greedy search, beam search and sampling. The decoder is a function (`StepFunction`).

The decoder reads a token as its next input, and returns the candidates for the token after it.

The rules are CTranslate2's, which follow openai/whisper. The score of a hypothesis is its total
log-probability divided by `length ** length_penalty`. A row is done when `beam_size * patience` of
its hypotheses have ended. Beam search with one beam is greedy search. The sampled hypotheses of a
row are decoded side by side, and the row is done when all have ended.

    first candidates -> extend -> advance -> all rows done -> best hypothesis of each row
                          ^          |
                          +-- step <-+
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol, TypeAlias

import numpy as np

from whisperbatch.engines.search.hypotheses import (
    BeamSearchState,
    Extensions,
    Floats,
    Integers,
    RowState,
    SamplingState,
    SearchResult,
)


@dataclass(frozen=True, slots=True, eq=False)
class Candidates:
    """Candidates for the next token: the most probable first, or drawn at random.

    Attributes:
        tokens: token ids, shape (..., k).
        logprobs: natural-log probability of each candidate, shape (..., k).
    """

    tokens: Integers
    logprobs: Floats


class StepFunction(Protocol):
    """A decoder that has already read the prompt of each row."""

    def __call__(
        self, tokens: Integers, sources: Integers, rows: Sequence[int], active: Sequence[int]
    ) -> Candidates:
        """Read one more token of each beam.

        Args:
            tokens: the token of each beam, shape (rows, beams).
            sources: for each token, the beam of the previous step whose hypothesis the token
                extends, within the same row; shape (rows, beams). Before the first step, each row
                has a single beam, 0.
            rows: the rows that continue, as indices into the rows of the previous step.
            active: for each row, how many of its beams are followed: the first ones. The decoder
                may leave out the other beams. No later source is one of them.

        Returns:
            The same number of candidates after each token, shape (rows, beams, k). Those of beams
            that are not followed do not matter.
        """
        ...


Lookahead: TypeAlias = Callable[[int, int], Candidates | None]
"""Returns the candidates after a token, if the decoder has already read the token as a guess.

Speculative decoding reads several guessed tokens of a row in one step.

Args:
    row: index into the rows of the previous step.
    token: the token that the search chose for the row.

Returns:
    The candidates after the token, shape (1, 1, k), or None if the token is not the next guess. If
    candidates are returned, the guess is accepted: the next call for the row refers to the next
    guess.
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
    stop_loops: Sequence[bool] | None = None,
    lookahead: Lookahead | None = None,
    prunes: bool = False,
) -> list[SearchResult]:
    """Return the best hypothesis of each row, by greedy or beam search.

    Args:
        step: the decoder. It returns at least 2 * beam_size candidates for each beam.
        first: candidates after each row's prompt, shape (rows, k), k at least 2 * beam_size.
        beam_size: number of hypotheses of a row that are followed at the same time.
        patience: a row is done when beam_size * patience (rounded, at least 1) hypotheses ended.
        length_penalty: a hypothesis is scored by logprob / length ** length_penalty.
        max_tokens: a hypothesis that reaches this number of tokens is cut off.
        end_of_text: the token that ends a hypothesis.
        stop_loops: for each row, whether its hypotheses are cut off when the most probable
            hypothesis is a loop; None for no row.
        lookahead: for a decoder that reads guessed tokens; requires beam_size 1.
        prunes: see `BeamSearchState`.

    Returns:
        One result for each row of `first`, in the same order.
    """
    required_endings = max(1, int(beam_size * patience + 0.5))
    rows = [
        BeamSearchState(
            beam_size,
            required_endings,
            end_of_text,
            length_penalty,
            stops_loop=stops_loop,
            prunes=prunes,
        )
        for stops_loop in stop_loops or [False] * len(first.tokens)
    ]
    extend = partial(_most_probable, count=2 * beam_size)
    return _run_search(rows, step, first, extend, max_tokens=max_tokens, lookahead=lookahead)


def sample(
    step: StepFunction, first: Candidates, *, max_tokens: int, end_of_text: int
) -> list[SearchResult]:
    """Return the sampled hypothesis of each row with the highest logprob / number of tokens.

    Args:
        step: the decoder. It returns one drawn token for each sampled hypothesis (k = 1).
        first: tokens drawn after each row's prompt, shape (rows, sampled hypotheses).
        max_tokens: a hypothesis that reaches this number of tokens is cut off.
        end_of_text: the token that ends a hypothesis.

    Returns:
        One result for each row of `first`, in the same order.
    """
    row_count, hypothesis_count = first.tokens.shape
    rows = [SamplingState(hypothesis_count, end_of_text) for _ in range(row_count)]
    return _run_search(rows, step, first, _all_candidates, max_tokens=max_tokens)


def _run_search(
    rows: Sequence[RowState],
    step: StepFunction,
    first: Candidates,
    extend: "_Extend",
    *,
    max_tokens: int,
    lookahead: Lookahead | None = None,
) -> list[SearchResult]:
    """Extend the hypotheses until all rows are done. A row that is done leaves the batch."""
    active = list(rows)
    candidates = Candidates(first.tokens[:, None], first.logprobs[:, None])
    while True:
        extensions = extend(candidates, np.stack([row.totals for row in active]))
        for number, row in enumerate(active):
            row.advance(extensions[number], last=len(row.followed) + 1 == max_tokens)
            while lookahead and not row.done:
                next_candidates = lookahead(number, int(row.followed[-1].tokens[0]))
                if next_candidates is None:
                    break
                [row_extensions] = extend(next_candidates, row.totals[None])
                row.advance(row_extensions, last=len(row.followed) + 1 == max_tokens)
        continuing = [number for number, row in enumerate(active) if not row.done]
        if not continuing:
            return [row.best for row in rows]
        active = [active[number] for number in continuing]
        tokens = np.stack([row.followed[-1].tokens for row in active])
        sources = np.stack([row.followed[-1].sources for row in active])
        candidates = step(tokens, sources, continuing, [row.active for row in active])


_Extend: TypeAlias = Callable[[Candidates, Floats], list[Extensions]]
"""Returns the possible extensions of each row, from the candidates (rows, beams, k) and the total
log-probability of each beam's hypothesis (rows, beams)."""


def _most_probable(candidates: Candidates, totals: Floats, *, count: int) -> list[Extensions]:
    """Return the `count` best extensions of each row's beams, the highest total first."""
    k = candidates.tokens.shape[-1]
    tokens, logprobs, new_totals = _flatten_beams(candidates, totals)
    order = np.argsort(-new_totals, axis=1, kind="stable")[:, :count]
    return [
        Extensions(tokens[row, best], best // k, logprobs[row, best], new_totals[row, best])
        for row, best in enumerate(order)
    ]


def _all_candidates(candidates: Candidates, totals: Floats) -> list[Extensions]:
    """Return all extensions of each row, in the order of the candidates."""
    k = candidates.tokens.shape[-1]
    tokens, logprobs, new_totals = _flatten_beams(candidates, totals)
    sources = np.arange(tokens.shape[1]) // k
    return [
        Extensions(tokens[row], sources, logprobs[row], new_totals[row])
        for row in range(len(tokens))
    ]


def _flatten_beams(candidates: Candidates, totals: Floats) -> tuple[Integers, Floats, Floats]:
    """Return tokens, log-probabilities and new totals, each of shape (rows, beams * k)."""
    rows = len(candidates.tokens)
    new_totals = (totals[..., None] + candidates.logprobs).reshape(rows, -1)
    return candidates.tokens.reshape(rows, -1), candidates.logprobs.reshape(rows, -1), new_totals
