"""The decoder's token embeddings and position encodings, as arrays."""

import numpy as np

from whisperbatch.engines.layout import Arrays
from whisperbatch.engines.quantization import stored_scales
from whisperbatch.engines.search.hypotheses import Floats, Integers
from whisperbatch.models.model_bin import release_pages


class TokenEmbeddings:
    """The embeddings of all tokens, mapped from model.bin.

    Args:
        arrays: the arrays "decoder/..." of model.bin, as stored.

    Attributes:
        vocabulary_size: number of tokens.
        max_length: number of tokens that the decoder can read, with the prompt.
    """

    def __init__(self, arrays: Arrays) -> None:
        self._embeddings = arrays["decoder/embeddings/weight"]
        self._scales = stored_scales(arrays, "decoder/embeddings/weight")
        self._positions = arrays["decoder/position_encodings/encodings"].astype(np.float32)
        self.vocabulary_size = len(self._embeddings)
        self.max_length = len(self._positions)

    def __call__(self, tokens: Integers) -> Floats:
        """Return the embeddings of tokens (...), shape (..., d_model)."""
        embedded: Floats = self._embeddings[tokens].astype(np.float32)
        if self._scales is not None:
            # in int16, all tokens share one scale
            embedded *= self._scales[tokens] if len(self._scales) > 1 else self._scales[0]
        return embedded

    def with_positions(self, tokens: Integers, first: int) -> Floats:
        """Return the embeddings of tokens plus their position encodings.

        Args:
            tokens: shape (sequences, length).
            first: the position of the first token of each sequence.

        Returns:
            Shape (sequences, length, d_model).
        """
        embedded = self(tokens)
        embedded += self._positions[first : first + tokens.shape[1]]
        return embedded

    def release(self) -> None:
        """Release the memory of the embeddings that were read from model.bin."""
        release_pages(self._embeddings)
