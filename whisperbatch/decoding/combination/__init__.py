"""Combination: an improbable row in noise is decoded several times, and the texts are combined."""

from whisperbatch.decoding.combination.noisy_rows import NoisyRows, with_words
from whisperbatch.decoding.combination.rover import combine

__all__ = ["NoisyRows", "combine", "with_words"]
