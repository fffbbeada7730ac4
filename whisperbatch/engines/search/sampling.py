"""Random noise that turns a search for the most probable token into sampling.

The Gumbel-max trick: the token with the highest `logit + temperature * noise` is a sample of the
distribution softmax(logits / temperature), if the noise of each token is an independent number from
the standard Gumbel distribution (Gumbel, Statistical theory of extreme values, 1954; Maddison et
al., A* sampling, 2014). A decoder that returns the most probable tokens can thus sample, without
the probabilities of all tokens.
"""

from collections.abc import Sequence

import numpy as np

from whisperbatch.engines.search.hypotheses import Floats
from whisperbatch.protocols import Sampling


class TokenNoise:
    """Noise for the tokens of the sampled hypotheses of a batch.

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
