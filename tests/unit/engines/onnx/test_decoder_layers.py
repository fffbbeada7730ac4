"""Tokens by rows and beams, and back; the cache holds what copies of whole sequences would hold."""

from random import Random

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from whisperbatch.engines.arrays import Layout
from whisperbatch.engines.onnx.decoder_layers import COLUMNS, TokenCache, tokens_by_beam
from whisperbatch.engines.search import Floats, Integers

LAYOUT = Layout(layers=2, heads=2, d_model=6)


def new_tokens(sequences: int, length: int, first: float) -> Floats:
    """Different numbers for each layer, kind, sequence, head, token and channel."""
    shape = (2 * LAYOUT.layers, sequences, LAYOUT.heads, length, LAYOUT.head_size)
    return (first + np.arange(np.prod(shape), dtype=np.float32)).reshape(shape)


def append(cache: TokenCache, tokens: Floats, places: Integers) -> None:
    tokens = tokens[:, np.argsort(places)]
    keys = [array.transpose(0, 1, 3, 2) for array in tokens[::2]]
    cache.append(keys, list(tokens[1::2]))


def check(cache: TokenCache, places: Integers, expected: Floats) -> None:
    assert sorted(places) == list(range(expected.shape[1]))
    arrays, mask = cache.arrays(), cache.mask()
    assert cache.length == expected.shape[3]
    assert len(mask) % COLUMNS == 0
    assert np.array_equal(mask == 0, np.arange(len(mask)) < cache.length)
    assert np.isinf(mask[cache.length :]).all()
    for number, array in enumerate(arrays):
        assert array.flags.c_contiguous
        tokens = array if number % 2 else array.transpose(0, 1, 3, 2)
        assert np.array_equal(tokens[places, :, : cache.length], expected[number])
        assert not tokens[:, :, cache.length :].any()  # a weight of zero times infinity is not zero


@given(
    st.integers(1, 3),
    st.integers(1, 40),
    st.lists(st.lists(st.integers(0, 99), min_size=1, max_size=6), max_size=40),
)
def test_sequences_go_on_from_their_sources(rows: int, prompt: int, steps: list[list[int]]) -> None:
    cache = TokenCache(LAYOUT, rows)
    expected = new_tokens(rows, prompt, 1)
    places = cache.select(np.arange(rows))
    append(cache, expected, places)
    check(cache, places, expected)
    for number, step in enumerate(steps):
        sources = np.array(step) % expected.shape[1]
        tokens = new_tokens(len(sources), 1, 1000 * (number + 1))
        places = cache.select(sources)
        append(cache, tokens, places)
        expected = np.concatenate((expected[:, sources], tokens), axis=3)
        check(cache, places, expected)


@given(st.lists(st.integers(1, 5), min_size=1, max_size=4), st.integers(1, 3), st.randoms())
def test_each_beam_gets_the_tokens_of_its_sequence(
    counts: list[int], length: int, random: Random
) -> None:
    slots = np.repeat(np.arange(len(counts)), counts)
    order = list(range(len(slots)))
    random.shuffle(order)
    places = np.array(order)
    beams, back = tokens_by_beam(slots, places, length)
    tokens = np.arange(len(slots) * length) * 10  # of the sequences, by place
    by_beam = tokens[beams].reshape(len(counts), max(counts), length)
    np.testing.assert_array_equal(by_beam.ravel()[back], tokens)
    by_place = tokens.reshape(-1, length)
    sequence = iter(places)
    for row, count in enumerate(counts):
        own = [next(sequence) for _ in range(count)]
        np.testing.assert_array_equal(by_beam[row, :count], by_place[own])
        assert (by_beam[row, count:] == by_place[own[0]]).all()
