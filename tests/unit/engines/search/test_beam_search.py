from collections.abc import Sequence
from itertools import product
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from whisperbatch.engines.search import MARGIN, Candidates, Integers, SearchResult, search

END = 3
VOCABULARY = 4  # tokens, END included
WIDEST_BEAM = 81  # number of texts of four tokens without END: 3 ** 4


class MarkovDecoder:
    """A toy decoder: the probability of a token depends on the previous token and on the row.

    Args:
        seeds: the random seed of each row's probabilities.
        end_bonus: added to the logits of END.
    """

    def __init__(self, seeds: Sequence[int], *, end_bonus: float = 0.0) -> None:
        self.logprobs = []
        for seed in seeds:
            logits = np.random.default_rng(seed).normal(0, 1.5, (VOCABULARY, VOCABULARY))
            logits[:, END] += end_bonus
            table = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
            self.logprobs.append(table.astype(np.float32))
        self.rows = list(range(len(seeds)))
        self.calls: list[tuple[int, int]] = []  # (rows, beams) of each step
        self.active: list[list[int]] = []  # beams of each row that are followed, of each step
        self.texts: list[list[list[int]]] = [[[]] for _ in seeds]  # of each row's beams

    def first(self) -> Candidates:
        """Return the candidates for the first token of each row."""
        pairs = [self._after(row, END) for row in self.rows]
        return Candidates(
            np.stack([tokens for tokens, _ in pairs]), np.stack([logprobs for _, logprobs in pairs])
        )

    def __call__(
        self, tokens: Integers, sources: Integers, rows: Sequence[int], active: Sequence[int]
    ) -> Candidates:
        before = self.active[-1] if self.active else [1] * len(self.rows)
        for number, row in enumerate(rows):
            assert (sources[number, : active[number]] < before[row]).all()
        self.rows = [self.rows[row] for row in rows]
        self.calls.append((len(rows), tokens.shape[1]))
        self.active.append(list(active))
        for number, row in enumerate(self.rows):
            self.texts[row] = [
                [*self.texts[row][source], int(token)]
                for token, source in zip(tokens[number], sources[number], strict=True)
            ]
        pairs = [
            [self._after(row, int(token)) for token in tokens[number]]
            for number, row in enumerate(self.rows)
        ]
        logprobs = np.array([[logprobs for _, logprobs in row] for row in pairs])
        for row_logprobs, count in zip(logprobs, active, strict=True):
            row_logprobs[count:] = 0  # these candidates must have no effect
        return Candidates(
            np.array([[next_tokens for next_tokens, _ in row] for row in pairs]), logprobs
        )

    def _after(self, row: int, token: int) -> tuple[Integers, np.ndarray]:
        """Return all tokens and their log-probabilities after `token`, most probable first.

        Impossible tokens are added, because a search needs twice as many candidates as beams.
        """
        order = np.argsort(-self.logprobs[row][token], kind="stable")
        impossible = np.full(2 * WIDEST_BEAM - VOCABULARY, -np.inf, np.float32)
        return (
            np.pad(order, (0, len(impossible))),
            np.concatenate((self.logprobs[row][token][order], impossible)),
        )

    def logprob(self, row: int, tokens: Sequence[int]) -> float:
        """Return the total log-probability of a text."""
        pairs = zip((END, *tokens), tokens, strict=False)
        return float(sum(self.logprobs[row][previous, token] for previous, token in pairs))


def run(
    decoder: MarkovDecoder,
    beam_size: int,
    max_tokens: int = 5,
    length_penalty: float = 1.0,
    patience: float = 1.0,
    *,
    prunes: bool = False,
) -> list[SearchResult]:
    options: Any = SimpleNamespace(  # without the limits of SearchOptions
        beam_size=beam_size, patience=patience, length_penalty=length_penalty
    )
    return search(
        decoder,
        decoder.first(),
        options,
        max_tokens=max_tokens,
        end_of_text=END,
        prunes=prunes,
    )


@given(st.integers(0, 10_000), st.floats(-2, 2))
def test_one_beam_is_greedy(seed: int, end_bonus: float) -> None:
    decoder = MarkovDecoder([seed], end_bonus=end_bonus)
    [result] = run(decoder, 1)
    expected: list[int] = []
    token = END
    while len(expected) < 5:
        token = int(np.argmax(decoder.logprobs[0][token]))
        if token == END:
            break
        expected.append(token)
    assert list(result.tokens) == expected
    end = () if len(expected) == 5 else (END,)
    assert result.logprob == pytest.approx(decoder.logprob(0, (*expected, *end)), abs=1e-4)


@given(st.integers(0, 10_000), st.floats(-2, 2), st.sampled_from([0.0, 0.7, 1.0]))
def test_the_widest_beam_finds_the_best_hypothesis_of_all(
    seed: int, end_bonus: float, length_penalty: float
) -> None:
    decoder = MarkovDecoder([seed], end_bonus=end_bonus)
    [result] = run(decoder, WIDEST_BEAM, max_tokens=4, length_penalty=length_penalty, patience=10)
    hypotheses = [
        (*text, END)[:4] if len(text) < 4 else text
        for length in range(5)
        for text in product(range(END), repeat=length)
    ]

    def score(tokens: Sequence[int]) -> float:
        length = sum(token != END for token in tokens)
        return float(decoder.logprob(0, tokens) / max(length, 1) ** length_penalty)

    result_score = result.logprob / max(len(result.tokens), 1) ** length_penalty
    assert result_score == pytest.approx(score(max(hypotheses, key=score)), abs=1e-4)


@given(st.lists(st.integers(0, 10_000), min_size=1, max_size=5), st.integers(1, 4), st.booleans())
def test_a_row_does_not_depend_on_the_other_rows(
    seeds: list[int], beam_size: int, prunes: bool
) -> None:
    together = run(MarkovDecoder(seeds), beam_size, prunes=prunes)
    alone = [run(MarkovDecoder([seed]), beam_size, prunes=prunes)[0] for seed in seeds]
    assert together == alone


@given(st.integers(0, 10_000), st.integers(1, 4), st.booleans())
def test_a_result_names_the_beam_and_log_probability_of_each_token(
    seed: int, beam_size: int, prunes: bool
) -> None:
    decoder = MarkovDecoder([seed])
    texts_by_step: list[list[list[int]]] = []
    step = decoder.__call__

    class RecordingDecoder(MarkovDecoder):
        def __call__(
            self, tokens: Integers, sources: Integers, rows: Sequence[int], active: Sequence[int]
        ) -> Candidates:
            candidates = step(tokens, sources, rows, active)
            texts_by_step.append(decoder.texts[0])
            return candidates

    [result] = run(RecordingDecoder([seed]), beam_size, prunes=prunes)
    for number, beam in enumerate(result.beams):
        assert tuple(texts_by_step[number][beam]) == result.tokens[: number + 1]
    for previous, token, logprob in zip(
        (END, *result.tokens), result.tokens, result.logprobs, strict=False
    ):
        assert logprob == pytest.approx(float(decoder.logprobs[0][previous, token]))


def test_finished_rows_leave_the_batch() -> None:
    short, long = MarkovDecoder([0]), MarkovDecoder([0])
    short.logprobs[0][:, END], long.logprobs[0][:, END] = 0.0, -50.0
    batch = MarkovDecoder([0, 0])
    batch.logprobs = [short.logprobs[0], long.logprobs[0]]
    results = run(batch, 2)
    assert [len(result.tokens) for result in results] == [0, 5]
    assert {rows for rows, _ in batch.calls[1:]} == {1}
    assert len(batch.calls) == 4  # the last token is not read


def test_more_patience_waits_for_more_hypotheses() -> None:
    steps = {}
    for patience in (0.1, 1.0, 3.0):
        decoder = MarkovDecoder([7], end_bonus=0.5)
        run(decoder, 3, max_tokens=30, patience=patience)
        steps[patience] = len(decoder.calls)
    assert steps[0.1] <= steps[1.0] < steps[3.0]


def decoder_with(logprobs: Sequence[Sequence[float]]) -> MarkovDecoder:
    """Return a decoder with these log-probabilities of the tokens after each token."""
    decoder = MarkovDecoder([0])
    decoder.logprobs = [np.array(logprobs, np.float32)]
    return decoder


@pytest.mark.parametrize(("difference", "followed"), [(MARGIN - 0.1, 2), (MARGIN + 0.1, 1)])
def test_an_improbable_hypothesis_is_not_followed(difference: float, followed: int) -> None:
    row = [0.0, -difference, -50.0, -60.0]
    decoder = decoder_with([row] * VOCABULARY)
    run(decoder, 3, max_tokens=2, prunes=True)
    assert decoder.active == [[followed]]
    decoder = decoder_with([row] * VOCABULARY)
    run(decoder, 3, max_tokens=2)
    assert decoder.active == [[3]]


def test_an_improbable_end_does_not_end_a_search_with_few_hypotheses() -> None:
    """With 5 beams, the end of text is among the 5 best extensions, as there are 4 tokens."""
    row = [0.0, -30.0, -40.0, -(MARGIN + 5)]
    decoder = decoder_with([row] * VOCABULARY)
    [result] = run(decoder, 5, max_tokens=30, prunes=True)
    assert result.tokens == (0,) * 30
    assert decoder.active == [[1]] * 29


def test_a_search_ends_if_no_hypothesis_is_better_than_the_best_that_has_ended() -> None:
    row = [-4.0, -5.0, -6.0, 0.0]  # the end of text is certain after the first token
    logprobs = [row] * 3 + [[0.0, -9.0, -9.0, -9.0]]
    decoder = decoder_with(logprobs)
    [result] = run(decoder, 3, max_tokens=30, prunes=True)
    assert result.tokens == (0,)
    assert len(decoder.calls) == 1
    unpruned = decoder_with(logprobs)
    assert run(unpruned, 3, max_tokens=30) == [result]
    assert len(unpruned.calls) > 1


@given(st.integers(0, 10_000), st.floats(-2, 2))
def test_pruning_changes_nothing_with_one_beam(seed: int, end_bonus: float) -> None:
    results = [
        run(MarkovDecoder([seed], end_bonus=end_bonus), 1, prunes=prunes)
        for prunes in (False, True)
    ]
    assert results[0] == results[1]
