from collections.abc import Sequence
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from whisperbatch.engines.search.beam_search import Candidates, Integers, SearchResult, search

END = 3
TOKENS = 4
WIDEST = 81


class Chain:
    """A toy decoder: how likely a token is depends on the one before it, and on the row."""

    def __init__(self, seeds: Sequence[int], *, ends: float = 0.0) -> None:
        self.logprobs = []
        for seed in seeds:
            logits = np.random.default_rng(seed).normal(0, 1.5, (TOKENS, TOKENS))
            logits[:, END] += ends
            table = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
            self.logprobs.append(table.astype(np.float32))
        self.rows = list(range(len(seeds)))
        self.calls: list[tuple[int, int]] = []
        self.texts: list[list[list[int]]] = [[[]] for _ in seeds]

    def first(self) -> Candidates:
        found = [self._after(row, END) for row in self.rows]
        return Candidates(np.stack([t for t, _ in found]), np.stack([p for _, p in found]))

    def __call__(self, tokens: Integers, sources: Integers, rows: Sequence[int]) -> Candidates:
        self.rows = [self.rows[row] for row in rows]
        self.calls.append((len(rows), tokens.shape[1]))
        for place, row in enumerate(self.rows):
            self.texts[row] = [
                [*self.texts[row][source], int(token)]
                for token, source in zip(tokens[place], sources[place], strict=True)
            ]
        found = [
            [self._after(row, int(token)) for token in tokens[place]]
            for place, row in enumerate(self.rows)
        ]
        return Candidates(
            np.array([[t for t, _ in row] for row in found]),
            np.array([[p for _, p in row] for row in found]),
        )

    def _after(self, row: int, token: int) -> tuple[Integers, np.ndarray]:
        """All tokens, and impossible ones up to what the widest search asks for."""
        likely = np.argsort(-self.logprobs[row][token], kind="stable")
        none = np.full(2 * WIDEST - TOKENS, -np.inf, np.float32)
        return (
            np.pad(likely, (0, len(none))),
            np.concatenate((self.logprobs[row][token][likely], none)),
        )

    def score(self, row: int, tokens: Sequence[int]) -> float:
        pairs = zip((END, *tokens), tokens, strict=False)
        return float(sum(self.logprobs[row][before, token] for before, token in pairs))


def run(
    chain: Chain, beams: int, most: int = 5, penalty: float = 1.0, patience: float = 1.0
) -> list[SearchResult]:
    return search(
        chain,
        chain.first(),
        beam_size=beams,
        patience=patience,
        length_penalty=penalty,
        most=most,
        end=END,
    )


@given(st.integers(0, 10_000), st.floats(-2, 2))
def test_one_beam_is_greedy(seed: int, ends: float) -> None:
    chain = Chain([seed], ends=ends)
    [found] = run(chain, 1)
    wanted: list[int] = []
    token = END
    while len(wanted) < 5:
        token = int(np.argmax(chain.logprobs[0][token]))
        if token == END:
            break
        wanted.append(token)
    assert list(found.tokens) == wanted
    ended = () if len(wanted) == 5 else (END,)
    assert found.logprob == pytest.approx(chain.score(0, (*wanted, *ended)), abs=1e-4)


@given(st.integers(0, 10_000), st.floats(-2, 2), st.sampled_from([0.0, 0.7, 1.0]))
def test_wide_beams_find_the_best_of_all(seed: int, ends: float, penalty: float) -> None:
    chain = Chain([seed], ends=ends)
    [found] = run(chain, WIDEST, most=4, penalty=penalty, patience=10)
    every = [
        (*text, END)[:4] if len(text) < 4 else text
        for length in range(5)
        for text in product(range(END), repeat=length)
    ]

    def worth(tokens: Sequence[int]) -> float:
        said = [token for token in tokens if token != END]
        return float(chain.score(0, tokens) / max(len(said), 1) ** penalty)

    best = max(every, key=worth)
    own = found.logprob / max(len(found.tokens), 1) ** penalty
    assert own == pytest.approx(worth(best), abs=1e-4)


@given(st.lists(st.integers(0, 10_000), min_size=1, max_size=5), st.integers(1, 4))
def test_a_row_does_not_depend_on_the_rows_beside_it(seeds: list[int], beams: int) -> None:
    together = run(Chain(seeds), beams)
    assert together == [run(Chain([seed]), beams)[0] for seed in seeds]


@given(st.integers(0, 10_000), st.integers(1, 4))
def test_a_hypothesis_knows_how_it_came_about(seed: int, beams: int) -> None:
    chain = Chain([seed])
    seen: list[list[list[int]]] = []
    step = chain.__call__

    class Watched(Chain):
        def __call__(self, tokens: Integers, sources: Integers, rows: Sequence[int]) -> Candidates:
            found = step(tokens, sources, rows)
            seen.append(chain.texts[0])
            return found

    watched = Watched([seed])
    [found] = run(watched, beams)
    for number, beam in enumerate(found.beams):
        assert tuple(seen[number][beam]) == found.tokens[: number + 1]
    for before, token, logprob in zip(
        (END, *found.tokens), found.tokens, found.logprobs, strict=False
    ):
        assert logprob == pytest.approx(float(chain.logprobs[0][before, token]))


def test_rows_that_are_done_leave() -> None:
    quick, slow = Chain([0]), Chain([0])
    quick.logprobs[0][:, END], slow.logprobs[0][:, END] = 0.0, -50.0
    both = Chain([0, 0])
    both.logprobs = [quick.logprobs[0], slow.logprobs[0]]
    found = run(both, 2)
    assert [len(one.tokens) for one in found] == [0, 5]
    assert {rows for rows, _ in both.calls[1:]} == {1}
    assert len(both.calls) == 4  # nothing is read after the last token


def test_patience_waits_for_more_hypotheses() -> None:
    lengths = {}
    for patience in (0.1, 1.0, 3.0):
        chain = Chain([7], ends=0.5)
        run(chain, 3, most=30, patience=patience)
        lengths[patience] = len(chain.calls)
    assert lengths[0.1] <= lengths[1.0] < lengths[3.0]
