"""The sizes of a Whisper model, and the check that all of its arrays have these sizes.

The engines compute addresses from the shapes, and CTranslate2 reads and writes beyond the end of an
array if two shapes contradict each other. CTranslate2 also reads further arrays and numbers if a
model has them (relative positions, multi-query attention, ...). Whisper has none of these, so every
unknown name is an error.

`RandomModel` has random weights, to try out a device and to test models of other sizes.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NoReturn, TypeAlias

import numpy as np
import numpy.typing as npt

from whisperbatch.errors import ModelError
from whisperbatch.models.model_bin import Variable

Headers: TypeAlias = Mapping[str, Variable]
Shape: TypeAlias = tuple[int | None, ...]  # None: any size

KERNEL: Final = 3  # frames that a convolution of the encoder reads
MIN_POSITIONS: Final = {"encoder": 1500, "decoder": 448}  # 30 s; the longest text with its prompt
MAX_MELS: Final = 201  # frequencies of a frame: more mel bands than these have no content

INT8: Final = 1
FLOATS: Final = frozenset({0, 4, 5})  # numbers of types, see model_bin.py
WEIGHT_TYPES: Final = FLOATS | {INT8, 2}
INTEGERS: Final = frozenset({INT8, 2, 3})

EMBEDDINGS: Final = "decoder/embeddings/weight"
PROJECTION: Final = "decoder/projection/weight"

CONSTANTS: Final = {
    "decoder/activation": 3,  # GELU
    "decoder/scale_embeddings": 0,
    "decoder/pre_norm": 1,
}
"""Numbers that every Whisper model has."""

DECODER_FLAGS: Final = ("alibi_use_positive_positions", "scale_alibi")  # without effect


Array = npt.NDArray[Any]

FFN_RATIO: Final = 4  # size of the feed-forward layer, relative to d_model
BIAS_STD: Final = 0.02
POSITION_STD: Final = {
    "encoder/position_encodings/encodings": 0.1,
    "decoder/position_encodings/encodings": 1.0,  # large: the text does not repeat one token
}
SPECIAL_STD: Final = 0.1  # small, so that a text has no special tokens and no timestamps
LOGIT_SCALE: Final = 10.0  # of the decoder's last normalization; its mean is 9.1 in base


@dataclass(frozen=True, slots=True, kw_only=True)
class Architecture:
    """The sizes of a Whisper model.

    Attributes:
        d_model: size of a hidden state.
        heads: number of heads of each attention, by part: "encoder" and "decoder".
        layers: number of layers, by part.
        n_mels: number of mel bands of the encoder's input.
        vocabulary_size: number of tokens.
        ties_projection: the logits are computed with the token embeddings.
    """

    d_model: int
    heads: Mapping[str, int]
    layers: Mapping[str, int]
    n_mels: int
    vocabulary_size: int
    ties_projection: bool

    @property
    def is_distilled(self) -> bool:
        """Whether the model's decoder was shortened: turbo and Distil-Whisper.

        All other Whisper models have as many layers in the decoder as in the encoder. The shortened
        models were trained for transcription only: with the task "translate", they transcribe.
        """
        return self.layers["decoder"] < self.layers["encoder"]


def read_architecture(headers: Headers, path: Path) -> Architecture:
    """Return the sizes of a model, and check all of its arrays.

    Raises:
        ModelError: an array is missing, unknown, or has a wrong shape or type.
    """
    return _Reader(headers, path).read()


class _Reader:
    def __init__(self, headers: Headers, path: Path) -> None:
        self._headers, self._path = headers, path

    def read(self) -> Architecture:
        d_model = self._dimension(EMBEDDINGS, 1)
        layers = {part: self._count_layers(part) for part in MIN_POSITIONS}
        shapes = dict(array_shapes(layers, d_model, self._dimension(EMBEDDINGS, 0)))
        self._check_names(shapes)
        for name, shape in shapes.items():
            self._check_array(name, shape)
        for layer in (f"{part}/layer_{n}" for part in layers for n in range(layers[part])):
            self._check_feed_forward(f"{layer}/ffn", d_model)
        for part, positions in MIN_POSITIONS.items():
            name = f"{part}/position_encodings/encodings"
            if self._dimension(name, 0) < positions:
                self._fail(name, f"has {self._dimension(name, 0)} positions instead of {positions}")
        if not 1 <= (n_mels := self._dimension("encoder/conv1/weight", 1)) <= MAX_MELS:
            self._fail("encoder/conv1/weight", f"has {n_mels} mel bands instead of 80 or 128")
        heads = {part: self._heads(part, d_model) for part in layers}
        self._check_numbers(layers["decoder"], heads["decoder"])
        projection = self._headers.get(PROJECTION, self._headers[EMBEDDINGS])
        return Architecture(
            d_model=d_model,
            heads=heads,
            layers=layers,
            n_mels=n_mels,
            vocabulary_size=self._dimension(EMBEDDINGS, 0),
            ties_projection=projection.offset == self._headers[EMBEDDINGS].offset,
        )

    def _dimension(self, name: str, axis: int) -> int:
        shape = self._header(name).shape
        if axis >= len(shape) or not shape[axis]:
            self._fail(name, f"has shape {shape}")
        return shape[axis]

    def _header(self, name: str) -> Variable:
        header = self._headers.get(name)
        if header is None:
            self._fail(name, "is missing")
        return header

    def _count_layers(self, part: str) -> int:
        """Return the number of different layers; `_check_names` finds gaps between them."""
        start = f"{part}/layer_"
        numbers = {
            name.removeprefix(start).partition("/")[0]
            for name in self._headers
            if name.startswith(start)
        }
        return sum(number.isdigit() for number in numbers) or self._fail(f"{start}0", "is missing")

    def _check_names(self, shapes: Mapping[str, Shape]) -> None:
        """Refuse names that Whisper does not have. Flags with the value 0 have no effect."""
        scales = {f"{name}_scale" for name in shapes if name.endswith("/weight")}
        numbers = {
            *CONSTANTS,
            *(f"{part}/num_heads" for part in MIN_POSITIONS),
            *(f"decoder/{name}" for name in ("alignment_layer", "alignment_heads", *DECODER_FLAGS)),
        }
        for name, header in self._headers.items():
            is_off = header.dtype == INT8 and header.value == 0
            if name not in shapes and name not in scales and name not in numbers and not is_off:
                self._fail(name, "is not part of a Whisper model")

    def _check_array(self, name: str, expected: Shape) -> None:
        if name == PROJECTION and name not in self._headers:
            return  # in weights of transformers
        header = self._header(name)
        if not _matches(header.shape, expected):
            shape = str(tuple("any" if size is None else size for size in expected))
            wanted = shape.replace("'", "")
            self._fail(name, f"has shape {header.shape} instead of {wanted}")
        is_weight = name.endswith("/weight")
        if header.dtype not in (WEIGHT_TYPES if is_weight else FLOATS):
            self._fail(name, "has a wrong type")
        scale = self._headers.get(f"{name}_scale")
        if header.dtype in FLOATS:
            if scale is not None and is_weight:
                self._fail(scale.name, "belongs to an array that has no scale")
        elif header.dtype == INT8:
            self._check_scale(f"{name}_scale", ((header.shape[0],),))
        elif scale is not None:
            self._check_scale(f"{name}_scale", ((), (1,)))

    def _check_scale(self, name: str, shapes: tuple[tuple[int, ...], ...]) -> None:
        """Check the scale of integers: one for each row in int8, one for the array in int16."""
        header = self._header(name)
        if header.shape not in shapes or header.dtype not in FLOATS:
            self._fail(name, f"has shape {header.shape} or type {header.dtype}, which are wrong")

    def _check_feed_forward(self, name: str, d_model: int) -> None:
        size = self._dimension(f"{name}/linear_0/weight", 0)
        self._check_array(f"{name}/linear_0/bias", (size,))
        self._check_array(f"{name}/linear_1/weight", (d_model, size))

    def _heads(self, part: str, d_model: int) -> int:
        heads = self._integer(f"{part}/num_heads")
        if heads < 1 or d_model % heads:
            self._fail(f"{part}/num_heads", f"is {heads}, which does not divide {d_model}")
        return heads

    def _check_numbers(self, layers: int, heads: int) -> None:
        """Check the numbers that CTranslate2 reads."""
        for name, value in CONSTANTS.items():
            if name in self._headers or PROJECTION in self._headers:  # not in transformers
                number = self._integer(name)
                if number != value:
                    self._fail(name, f"is {number} instead of {value}")
        for name, numbers in (
            ("decoder/alignment_layer", range(-layers, layers)),
            ("decoder/alignment_heads", range(heads + 1)),
            *((f"decoder/{flag}", range(2)) for flag in DECODER_FLAGS),
        ):
            if name in self._headers and (number := self._integer(name)) not in numbers:
                self._fail(name, f"is {number}; allowed are {numbers[0]} to {numbers[-1]}")

    def _integer(self, name: str) -> int:
        header = self._header(name)
        if header.value is None or header.dtype not in INTEGERS:
            self._fail(name, "is not an integer")
        return int(header.value)

    def _fail(self, name: str, problem: str) -> NoReturn:
        raise ModelError(
            f"{self._path}: {name[:80]!r} {problem}; download or convert the model again"
        )


def _matches(shape: tuple[int, ...], expected: Shape) -> bool:
    return len(shape) == len(expected) and all(
        size == wanted or (wanted is None and size > 0)
        for size, wanted in zip(shape, expected, strict=True)
    )


def array_shapes(
    layers: Mapping[str, int],
    d_model: int,
    vocabulary_size: int,
    *,
    n_mels: int | None = None,
    ffn_size: int | None = None,
    positions: Mapping[str, int] | None = None,
) -> Iterable[tuple[str, Shape]]:
    """Yield the name and shape of every array with dimensions.

    Args:
        layers: number of layers of the "encoder" and the "decoder".
        d_model: size of a hidden state.
        vocabulary_size: number of tokens.
        n_mels: number of mel bands; None for any.
        ffn_size: size of the feed-forward layers; None for any.
        positions: maximum length, by part; None for any.
    """
    size = d_model
    yield from _module("encoder/conv1", size, n_mels, KERNEL)
    yield from _module("encoder/conv2", size, size, KERNEL)
    lengths = positions or {}
    yield "encoder/position_encodings/encodings", (lengths.get("encoder"), size)
    yield EMBEDDINGS, (vocabulary_size, size)
    yield PROJECTION, (vocabulary_size, size)
    yield "decoder/position_encodings/encodings", (lengths.get("decoder"), size)
    for part, attentions in (
        ("encoder", {"self_attention": (3, 1)}),
        ("decoder", {"self_attention": (3, 1), "attention": (1, 2, 1)}),
    ):
        for layer in (f"{part}/layer_{number}" for number in range(layers[part])):
            for attention, blocks in attentions.items():
                yield from _layer_norm(f"{layer}/{attention}/layer_norm", size)
                for number, count in enumerate(blocks):
                    yield from _module(f"{layer}/{attention}/linear_{number}", count * size, size)
            yield from _layer_norm(f"{layer}/ffn/layer_norm", size)
            yield from _module(f"{layer}/ffn/linear_0", ffn_size, size)
            yield from _module(f"{layer}/ffn/linear_1", size, ffn_size)
        yield from _layer_norm(f"{part}/layer_norm", size)


def _module(name: str, *shape: int | None) -> Iterable[tuple[str, Shape]]:
    """Yield the weight and the bias of a matrix or convolution."""
    yield f"{name}/weight", shape
    yield f"{name}/bias", shape[:1]


def _layer_norm(name: str, size: int) -> Iterable[tuple[str, Shape]]:
    yield f"{name}/gamma", (size,)
    yield f"{name}/beta", (size,)


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
