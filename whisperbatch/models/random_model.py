"""A Whisper model with random weights, to try out a device and to test models of other sizes."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

GELU: Final = 3  # number of the activation function in CTranslate2's specifications
FFN_RATIO: Final = 4  # size of the feed-forward layer, relative to d_model
ENCODER_POSITION_STD: Final = 0.1
DECODER_POSITION_STD: Final = 1.0  # large, so that the text does not repeat one token
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
        """Return the arrays by CTranslate2's names, in the order of their creation."""
        generator = np.random.default_rng(self.seed)
        return {
            name: array.astype(self.dtype) if array.dtype == np.float32 else array
            for name, array in self._generate(generator)
        }

    def _generate(self, generator: np.random.Generator) -> Iterator[tuple[str, Array]]:
        """Yield each array with its name: weights in float32, numbers in integer types."""

        def normal(*shape: int, std: float) -> Array:
            return generator.standard_normal(shape, np.float32) * np.float32(std)

        def module(name: str, *shape: int) -> Iterator[tuple[str, Array]]:
            """Yield a matrix or convolution that keeps the variance, and its bias."""
            inputs = int(np.prod(shape[1:]))
            yield f"{name}/weight", normal(*shape, std=inputs**-0.5)
            yield f"{name}/bias", normal(shape[0], std=0.02)

        size = self.d_model
        yield from module("encoder/conv1", size, self.n_mels, 3)
        yield from module("encoder/conv2", size, size, 3)
        yield (
            "encoder/position_encodings/encodings",
            normal(self.encoder_positions, size, std=ENCODER_POSITION_STD),
        )
        embeddings = normal(self.vocabulary_size, size, std=size**-0.5)
        embeddings[self.text_tokens :] *= SPECIAL_STD
        yield "decoder/embeddings/weight", embeddings
        yield (
            "decoder/position_encodings/encodings",
            normal(self.decoder_positions, size, std=DECODER_POSITION_STD),
        )
        for part, attentions in (
            ("encoder", {"self_attention": (3, 1)}),
            ("decoder", {"self_attention": (3, 1), "attention": (1, 2, 1)}),
        ):
            for layer in range(self.layers_of(part)):
                prefix = f"{part}/layer_{layer}"
                for attention, blocks in attentions.items():
                    yield from _layer_norm(f"{prefix}/{attention}/layer_norm", size)
                    for number, count in enumerate(blocks):
                        yield from module(
                            f"{prefix}/{attention}/linear_{number}", count * size, size
                        )
                yield from _layer_norm(f"{prefix}/ffn/layer_norm", size)
                yield from module(f"{prefix}/ffn/linear_0", FFN_RATIO * size, size)
                yield from module(f"{prefix}/ffn/linear_1", size, FFN_RATIO * size)
            scale = LOGIT_SCALE if part == "decoder" else 1.0
            yield from _layer_norm(f"{part}/layer_norm", size, scale)
            yield f"{part}/num_heads", np.array(self.heads, np.int16)
        yield "decoder/activation", np.array(GELU, np.int8)
        yield "decoder/pre_norm", np.array(1, np.int8)
        yield "decoder/scale_embeddings", np.array(0, np.int8)


def _layer_norm(name: str, size: int, scale: float = 1.0) -> Iterator[tuple[str, Array]]:
    yield f"{name}/gamma", np.full(size, scale, np.float32)
    yield f"{name}/beta", np.zeros(size, np.float32)
