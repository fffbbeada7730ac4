"""The settings of a model: config.json of CTranslate2, generation_config.json of transformers.

The engines use the numbers in these files as indexes of logits, layers and heads. CTranslate2 does
not check them.

How many similar frames of the encoder can be merged (engines/onnx/encoder.py) was measured
for some models. A model that is not in the list keeps all frames.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from whisperbatch.errors import ModelError
from whisperbatch.models.architecture import Architecture
from whisperbatch.models.model_bin import read_headers, read_variable

FIELDS: Final = ("suppress_ids", "suppress_ids_begin", "lang_ids", "alignment_heads")
"""The names in CTranslate2's config.json."""

MAX_VALUE: Final = 80  # characters of a value in a message


IDENTIFYING: Final = ("encoder/conv1/bias", "decoder/layer_norm/beta")
"""Arrays that every conversion stores in a float type, and that training changes."""

MEASURED: Final[Mapping[str, float]] = MappingProxyType(
    {
        "a89bc6d18267a89b53fbe53b86c01a41": 0.7,  # base
        "58d98f2f0cf88e382af44f686a22c390": 0.7,  # tiny.en
    }
)
"""The share of the frames of clear rows, by the digest of a model's weights.

The word errors of base were 15.59 % with all frames and 15.58 % with this share (35,659 words in
five languages; docs/explanation/choices.md). Those of tiny.en were 3.78 % and 3.66 % (2,489 words).
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelConfig:
    """The settings of a model. All numbers are in range.

    Attributes:
        suppress_ids: tokens that are not decoded by default.
        suppress_ids_begin: tokens that do not begin a text.
        lang_ids: tokens of the languages, as listed.
        alignment_heads: the decoder's heads whose cross-attention follows the speech, as
            (layer, head); empty if the file lists none for this decoder.
        missing: names of fields that the file does not have.
    """

    suppress_ids: tuple[int, ...] = ()
    suppress_ids_begin: tuple[int, ...] = ()
    lang_ids: tuple[int, ...] = ()
    alignment_heads: tuple[tuple[int, int], ...] = ()
    missing: tuple[str, ...] = ()


def check_config(
    content: Mapping[str, Any],
    path: Path,
    architecture: Architecture,
    names: Mapping[str, str] | None = None,
) -> ModelConfig:
    """Return the settings of a model.

    Raises:
        ModelError: a value has the wrong type or is out of range.
    """
    checker = _Checker(content, path, names or {}, architecture)
    epsilon = content.get("layer_norm_epsilon")  # CTranslate2 reads it
    if epsilon is not None and (type(epsilon) is not float or not 0 < epsilon < 1):
        raise checker.error("layer_norm_epsilon", "is not a number between 0 and 1")
    return ModelConfig(
        suppress_ids=checker.tokens("suppress_ids"),
        suppress_ids_begin=checker.tokens("suppress_ids_begin"),
        lang_ids=checker.tokens("lang_ids"),
        alignment_heads=checker.heads("alignment_heads"),
        missing=tuple(field for field in FIELDS if field not in content),
    )


@dataclass(frozen=True, slots=True)
class _Checker:
    content: Mapping[str, Any]
    path: Path
    names: Mapping[str, str]
    architecture: Architecture

    def tokens(self, field: str) -> tuple[int, ...]:
        size = self.architecture.vocabulary_size
        tokens = self._list(field)
        if not all(_in_range(token, size) for token in tokens):
            raise self.error(field, f"is not a list of tokens from 0 to {size - 1}")
        return tuple(tokens)

    def heads(self, field: str) -> tuple[tuple[int, int], ...]:
        """Return the heads; none if a shortened decoder has the list of the complete decoder.

        Such a list is common: conversions of Distil-Whisper and of its fine-tuned versions contain
        the list of the model that they were distilled from (SYSTRAN/faster-whisper#688, #1283).
        """
        heads = self.architecture.heads["decoder"]
        layers = self.architecture.layers["decoder"]
        largest = self.architecture.layers["encoder"] if self.architecture.is_distilled else layers
        pairs = self._list(field)
        if not all(
            isinstance(pair, list)
            and len(pair) == len(("layer", "head"))
            and _in_range(pair[0], largest)
            and _in_range(pair[1], heads)
            for pair in pairs
        ):
            raise self.error(
                field, f"is not a list of [layer, head], layers below {layers}, heads below {heads}"
            )
        if any(layer >= layers for layer, _ in pairs):
            return ()
        return tuple((layer, head) for layer, head in pairs)

    def _list(self, field: str) -> list[Any]:
        value = self.content.get(field)
        if value is None:
            return []
        if not isinstance(value, list):
            raise self.error(field, "is not a list")
        return value

    def error(self, field: str, problem: str) -> ModelError:
        text = repr(self.content[field])
        value = text if len(text) <= MAX_VALUE else f"{text[: MAX_VALUE - 3]}..."
        return ModelError(
            f"{self.path}: {self.names.get(field, field)}={value} {problem}; copy the file from "
            "the source of the model"
        )


def _in_range(value: object, size: int) -> bool:
    """Return whether a value is an integer from 0 to size - 1; a truth value is not."""
    return type(value) is int and 0 <= value < size


def measured_kept_frames(directory: Path) -> float:
    """Return the share of the frames that a model needs; 1 if it was not measured.

    Raises:
        ModelError: the weights are damaged.
    """
    if not (directory / "model.bin").exists():
        return 1.0
    return MEASURED.get(weights_digest(directory), 1.0)


def weights_digest(directory: Path) -> str:
    """Return a hash that is equal for all conversions of the same weights.

    The arrays of `IDENTIFYING` are compared in float16, the type in which OpenAI published Whisper.
    A model that was trained further has another hash, unless the training left these arrays alone.

    Raises:
        ModelError: the weights are missing or damaged.
    """
    path = directory / "model.bin"
    headers = read_headers(path)
    digest = hashlib.blake2b(digest_size=16)
    for name in IDENTIFYING:
        digest.update(read_variable(path, headers[name]).astype("<f2").tobytes())
    return digest.hexdigest()
