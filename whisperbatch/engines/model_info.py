"""What the engines need to know about a model besides its weights: tokenizer, sizes, settings."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from tokenizers import Tokenizer

from whisperbatch.engines.layout import was_distilled
from whisperbatch.engines.special_tokens import SpecialTokens
from whisperbatch.errors import EngineError, ModelError
from whisperbatch.models.model_bin import fingerprint, read_shapes
from whisperbatch.models.tokenizer import load_tokenizer

MIN_MULTILINGUAL_VOCABULARY: Final = 51_865  # tokens; English-only models have fewer


@dataclass(frozen=True)  # no slots: a cached property needs a __dict__
class ModelInfo:
    """A model in a directory of CTranslate2 weights.

    Attributes:
        directory: of the weights.
        name: of the model, for messages.
        tokenizer: tokenizer with the model's vocabulary.
        special: ids of the special tokens.
        config: config.json of the weights.
        vocabulary_size: number of tokens.
        n_mels: number of mel bands of the encoder's input.
        distilled: see `layout.was_distilled`.
    """

    directory: Path
    name: str
    tokenizer: Tokenizer
    special: SpecialTokens
    config: Mapping[str, Any]
    vocabulary_size: int
    n_mels: int
    distilled: bool

    @classmethod
    def read(cls, directory: Path, name: str) -> "ModelInfo":
        """Read the model in a directory.

        Raises:
            ModelError: a file is missing, damaged, or not of a Whisper model.
        """
        shapes = read_shapes(directory / "model.bin")
        try:
            config = json.loads((directory / "config.json").read_text(encoding="utf-8"))
            vocabulary_size = shapes["decoder/embeddings/weight"][0]
            n_mels = shapes["encoder/conv1/weight"][1]
            distilled = was_distilled(shapes)
        except (OSError, ValueError, LookupError) as error:
            raise ModelError(f"{directory}: is not a Whisper model: {error!r}") from error
        tokenizer = load_tokenizer(directory, vocabulary_size)
        try:
            special = SpecialTokens.from_tokenizer(tokenizer)
        except LookupError as error:
            raise ModelError(f"{directory}: {error}") from error
        return cls(directory, name, tokenizer, special, config, vocabulary_size, n_mels, distilled)

    @property
    def is_multilingual(self) -> bool:
        """False for English-only models."""
        return self.vocabulary_size >= MIN_MULTILINGUAL_VOCABULARY

    @property
    def can_translate(self) -> bool:
        """See `protocols.Engine`."""
        return self.is_multilingual and not self.distilled

    @cached_property
    def fingerprint(self) -> str:
        """Identifies the weights."""
        return fingerprint(self.directory)

    def check_multilingual(self) -> None:
        """Raise an EngineError if the model is English-only."""
        if not self.is_multilingual:
            raise EngineError(f"model {self.name} is English-only: it cannot detect languages")
