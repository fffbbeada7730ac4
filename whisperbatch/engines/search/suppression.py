"""Tokens that must not be decoded: suppressed tokens, and repetitions of n-grams."""

from collections.abc import Sequence
from typing import Final

import numpy as np

from whisperbatch.engines.search.hypotheses import Floats
from whisperbatch.engines.special_tokens import SpecialTokens
from whisperbatch.models.config import ModelConfig
from whisperbatch.options import SearchOptions

CONFIGURED_TOKENS: Final = -1  # in `suppress_tokens`: the tokens that config.json lists


def logit_biases(
    options: SearchOptions,
    config: ModelConfig,
    special_tokens: SpecialTokens,
    vocabulary_size: int,
    *,
    timestamps: bool = False,
) -> tuple[Floats, Floats]:
    """Return the biases to add to the logits: minus infinity for suppressed tokens, else 0.

    Args:
        options: suppress_tokens and suppress_blank.
        config: settings of the weights.
        special_tokens: ids of the special tokens.
        vocabulary_size: number of tokens.
        timestamps: allow timestamp tokens.

    Returns:
        The biases of every token but a row's first, and of a row's first token; both of shape
        (vocabulary_size,).
    """
    biases = np.zeros(vocabulary_size, np.float32)
    suppressed = set(options.suppress_tokens)
    if CONFIGURED_TOKENS in suppressed:
        suppressed |= set(config.suppress_ids)
    biases[sorted(suppressed - {CONFIGURED_TOKENS})] = -np.inf
    no_timestamps = special_tokens.no_timestamps  # timestamp tokens follow it in the vocabulary
    biases[no_timestamps : no_timestamps + 1 if timestamps else None] = -np.inf
    first_biases = biases.copy()
    if options.suppress_blank:
        first_biases[list(config.suppress_ids_begin)] = -np.inf
    return biases, first_biases


def blocked_by_ngrams(text: Sequence[int], size: int) -> list[int]:
    """Return the tokens that would complete an n-gram of `size` tokens that `text` contains.

    As in CTranslate2, `text` is the decoded text without its prompt.
    """
    last = tuple(text[len(text) - size + 1 :])
    starts = range(len(text) - size + 1)
    return [
        text[start + size - 1] for start in starts if tuple(text[start : start + size - 1]) == last
    ]
