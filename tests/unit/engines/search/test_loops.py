"""Texts that only repeat themselves are cut off."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from whisperbatch.decoding.audit import compression_ratio
from whisperbatch.decoding.row_decoder import LOOP_RATIO
from whisperbatch.engines.search import LOOP_CHECK, Candidates, Integers, SearchResult, search
from whisperbatch.options import SearchOptions
from whisperbatch.text.loops import LOOP_TIMES, LOOP_TOKENS, MAX_PERIOD, ends_with_loop

END = 999
FREE = list(range(100, 200))  # tokens without repetition


@pytest.mark.parametrize(
    ("period", "length"),
    [(1, LOOP_TOKENS), (10, LOOP_TOKENS), (11, 11 * LOOP_TIMES), (MAX_PERIOD, 6 * MAX_PERIOD)],
)
def test_the_length_from_which_repeated_tokens_are_a_loop(period: int, length: int) -> None:
    tokens = list(range(period)) * length
    assert ends_with_loop(tokens[:length])
    assert ends_with_loop([*FREE, *tokens[:length]])
    assert not ends_with_loop(tokens[: length - 1])
    assert not ends_with_loop([*FREE, *tokens[: length - 1]])
    assert not ends_with_loop([*tokens[:length], END])


def test_text_without_repetition_is_no_loop() -> None:
    assert not ends_with_loop([])
    assert not ends_with_loop(FREE)
    assert not ends_with_loop([*range(MAX_PERIOD + 1)] * 10)


words = st.text("abcdefghijklmnopqrstuvwxyzäßжщ語", min_size=1, max_size=6)


@given(st.lists(words, min_size=1, max_size=MAX_PERIOD), st.booleans())
def test_a_loop_exceeds_the_compression_ratio_of_the_audit(
    repeated: list[str], spaces: bool
) -> None:
    times = max(LOOP_TOKENS / len(repeated), LOOP_TIMES)
    tokens = (repeated * LOOP_TOKENS)[: round(times * len(repeated))]
    assert compression_ratio((" " if spaces else "").join(tokens)) > LOOP_RATIO


class Script:
    """A decoder that always follows the same text; the other beams append other tokens."""

    def __init__(self, text: Sequence[int], beams: int) -> None:
        self.text, self.beams, self.steps = text, beams, 0

    def first(self, rows: int) -> Candidates:
        tokens, logprobs = self._after(0)
        return Candidates(np.stack([tokens] * rows), np.stack([logprobs] * rows))

    def __call__(
        self, tokens: Integers, sources: Integers, rows: Sequence[int], active: Sequence[int]
    ) -> Candidates:
        self.steps += 1
        next_tokens, logprobs = self._after(self.steps)
        shape = (*tokens.shape, len(next_tokens))
        return Candidates(np.broadcast_to(next_tokens, shape), np.broadcast_to(logprobs, shape))

    def _after(self, step: int) -> tuple[Integers, np.ndarray]:
        count = 2 * self.beams
        tokens = np.array([self.text[min(step, len(self.text) - 1)], *range(500, 499 + count)])
        logprobs = np.array([-0.01, *(-5.0 - number for number in range(count - 1))], np.float32)
        return tokens, logprobs


def decode(text: Sequence[int], beams: int, stop_loops: Sequence[bool]) -> list[SearchResult]:
    script = Script([*text, END], beams)
    return search(
        script,
        script.first(len(stop_loops)),
        SearchOptions(beam_size=beams, patience=1.0, length_penalty=1.0),
        max_tokens=224,
        end_of_text=END,
        stop_loops=stop_loops,
    )


@pytest.mark.parametrize("beams", [1, 3])
def test_a_loop_is_cut_off_at_the_next_check(beams: int) -> None:
    text = (*FREE[:7], *(1, 2, 3) * 60)
    cut, complete = decode(text, beams, [True, False])
    length = -(-(7 + LOOP_TOKENS) // LOOP_CHECK) * LOOP_CHECK
    assert cut.tokens == text[:length]
    assert len(cut.beams) == length  # every token was read: the other row continues
    assert complete.tokens == text


@pytest.mark.parametrize("beams", [1, 3])
def test_text_that_is_no_loop_is_complete(beams: int) -> None:
    text = (*FREE, *(1, 2, 3) * 10, *FREE)[:223]
    [result] = decode(text, beams, [True])
    assert result.tokens == text


def test_without_stop_loops_no_row_is_cut_off() -> None:
    text = (1,) * 200
    script = Script([*text, END], 1)
    [result] = search(
        script,
        script.first(1),
        SearchOptions(beam_size=1, patience=1.0, length_penalty=1.0),
        max_tokens=224,
        end_of_text=END,
    )
    assert result.tokens == text
