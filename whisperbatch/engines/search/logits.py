"""What is added to the logits: biases of suppressed tokens and n-grams, and noise for sampling."""

from collections.abc import Sequence
from typing import Final

import numpy as np

from whisperbatch.engines.search.hypotheses import Floats
from whisperbatch.engines.special_tokens import SpecialTokens
from whisperbatch.models.config import ModelConfig
from whisperbatch.options import SearchOptions
from whisperbatch.protocols import Sampling

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


class TokenNoise:
    """Noise for the tokens of the sampled hypotheses of a batch.

    The Gumbel-max trick: the token with the highest `logit + temperature * noise` is a sample of
    the distribution softmax(logits / temperature), if the noise of each token is an independent
    number from the standard Gumbel distribution (Gumbel, Statistical theory of extreme values,
    1954; Maddison et al., A* sampling, 2014). A decoder that returns the most probable tokens can
    thus sample, without the probabilities of all tokens.

    Each hypothesis has its own generator (Philox: Salmon et al., Parallel random numbers: as easy
    as 1, 2, 3, 2011), whose key is the row's seed and the number of the hypothesis. A sampled
    hypothesis therefore depends neither on earlier batches nor on the other rows.

    Args:
        sampling: for each row of the batch; `best_of` is equal for all rows.
        vocabulary_size: number of tokens.

    Attributes:
        best_of: number of sampled hypotheses of a row.
    """

    def __init__(self, sampling: Sequence[Sampling], vocabulary_size: int) -> None:
        self._vocabulary_size = vocabulary_size
        self._temperatures = [row.temperature for row in sampling]
        self.best_of = sampling[0].best_of
        self._generators = [
            [_generator(row.seed, hypothesis) for hypothesis in range(row.best_of)]
            for row in sampling
        ]

    def __call__(self, row: int, hypothesis: int) -> Floats:
        """Return the noise for the next token of a hypothesis, shape (vocabulary,).

        The noise is already multiplied by the row's temperature. The logarithm of an exponentially
        distributed number is the negative of a number with the Gumbel distribution. The exponential
        numbers are float64: in float32 one of 2**23 would be 0, whose noise is infinite.
        """
        exponential = self._generators[row][hypothesis].standard_exponential(self._vocabulary_size)
        noise: Floats = np.log(exponential.astype(np.float32))
        noise *= -self._temperatures[row]
        return noise


def _generator(seed: int, hypothesis: int) -> np.random.Generator:
    return np.random.Generator(np.random.Philox(key=np.array([seed, hypothesis], np.uint64)))
