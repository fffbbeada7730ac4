"""A Whisper model with random weights, to try out a device and to test models of other sizes."""

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from whisperbatch.models.architecture import (
    CONSTANTS,
    EMBEDDINGS,
    MIN_POSITIONS,
    PROJECTION,
    array_shapes,
)

Array = npt.NDArray[Any]

FFN_RATIO: Final = 4  # size of the feed-forward layer, relative to d_model
BIAS_STD: Final = 0.02
POSITION_STD: Final = {
    "encoder/position_encodings/encodings": 0.1,
    "decoder/position_encodings/encodings": 1.0,  # large: the text does not repeat one token
}
SPECIAL_STD: Final = 0.1  # small, so that a text has no special tokens and no timestamps
LOGIT_SCALE: Final = 10.0  # of the decoder's last normalization; its mean is 9.1 in base


@dataclass(frozen=True, kw_only=True)
class RandomModel:
    """Sizes of a model whose weights are random numbers.

    Attributes:
        d_model: size of a hidden state.
        heads: number of heads in each attention.
        layers: number of layers of the encoder.
        decoder_layers: number of layers of the decoder; None: as many as the encoder has.
        vocabulary_size: number of tokens.
        text_tokens: number of text tokens, which come first in the vocabulary.
        n_mels: number of mel bands of the encoder's input.
        encoder_positions: maximum length of the encoder output.
        decoder_positions: maximum length of a text, with its prompt.
        seed: of the random numbers; equal seeds and sizes give equal weights.
        dtype: type of the weights.
    """

    d_model: int = 64
    heads: int = 2
    layers: int = 2
    decoder_layers: int | None = None
    vocabulary_size: int = 51_865
    text_tokens: int = 50_256
    n_mels: int = 80
    encoder_positions: int = 1500
    decoder_positions: int = 448
    seed: int = 0
    dtype: type[np.floating[Any]] = np.float16

    def layers_of(self, part: str) -> int:
        """Return the number of layers of the "encoder" or "decoder"."""
        return self.layers if part == "encoder" else self.decoder_layers or self.layers

    def arrays(self) -> dict[str, Array]:
        """Return the arrays by CTranslate2's names."""
        generator = np.random.default_rng(self.seed)
        shapes = array_shapes(
            {part: self.layers_of(part) for part in MIN_POSITIONS},
            self.d_model,
            self.vocabulary_size,
            n_mels=self.n_mels,
            ffn_size=FFN_RATIO * self.d_model,
            positions={"encoder": self.encoder_positions, "decoder": self.decoder_positions},
        )
        arrays: dict[str, Array] = {
            name: self._fill(name, tuple(map(int, shape)), generator).astype(self.dtype)  # type: ignore[arg-type]  # no None here
            for name, shape in shapes
            if name != PROJECTION  # an alias of the embeddings
        }
        arrays |= {f"{part}/num_heads": np.array(self.heads, np.int16) for part in MIN_POSITIONS}
        return arrays | {name: np.array(value, np.int8) for name, value in CONSTANTS.items()}

    def _fill(self, name: str, shape: tuple[int, ...], generator: np.random.Generator) -> Array:
        """Return an array in float32. Matrices and convolutions keep the variance."""
        if name.endswith("/gamma"):
            return np.full(shape, LOGIT_SCALE if name == "decoder/layer_norm/gamma" else 1.0)
        if name.endswith("/beta"):
            return np.zeros(shape)
        std = POSITION_STD.get(name) or (BIAS_STD if name.endswith("/bias") else None)
        std = std or int(np.prod(shape[1:])) ** -0.5
        array: Array = generator.standard_normal(shape, np.float32) * np.float32(std)
        if name == EMBEDDINGS:
            array[self.text_tokens :] *= SPECIAL_STD
        return array
