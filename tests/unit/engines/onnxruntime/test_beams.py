"""The arrangement of tokens by rows and beams, and back."""

from random import Random

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from whisperbatch.engines.onnxruntime.decoder import tokens_by_beam


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
