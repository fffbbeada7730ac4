"""What the engines need to know about a model besides its weights: tokenizer, sizes, settings.

    model.bin        -> names, shapes and types of the arrays -> Architecture --.
    config.json      -> ModelConfig, in the range of the architecture           |-> ModelInfo
    tokenizer.json,                                                             |
    vocabulary.*     -> tokenizer, with the ids of the special tokens ----------'

Every number that an engine uses as an index or a size is checked here, once for all engines.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from tokenizers import Tokenizer

from whisperbatch.engines.arrays import Layout, alignment_heads
from whisperbatch.errors import EngineError, ModelError
from whisperbatch.models.architecture import (
    EMBEDDINGS,
    PROJECTION,
    Architecture,
    read_architecture,
)
from whisperbatch.models.config import ModelConfig, check_config, measured_kept_frames
from whisperbatch.models.files import read_json
from whisperbatch.models.model_bin import fingerprint, read_arrays, read_headers
from whisperbatch.models.registry import loaded_revision
from whisperbatch.models.tokenizer import AFTER_LANGUAGES, TIMESTAMPS, load_tokenizer
from whisperbatch.protocols import AlignRequest, DecodeRequest, Hypothesis
from whisperbatch.text.languages import LANGUAGES
from whisperbatch.threads import cached_property


@dataclass(frozen=True, slots=True)
class SpecialTokens:
    """Ids of the special tokens that the engines use."""

    start_of_transcript: int
    end_of_text: int
    no_speech: int
    no_timestamps: int

    @classmethod
    def from_tokenizer(cls, tokenizer: Tokenizer) -> "SpecialTokens":
        """Return the ids of a model's special tokens.

        Raises:
            LookupError: the tokenizer lacks a special token, so it is not Whisper's.
        """

        def find(*names: str) -> int:
            for name in names:
                token: int | None = tokenizer.token_to_id(name)
                if token is not None:
                    return token
            raise LookupError(f"the tokenizer has no {names[0]}")

        return cls(
            start_of_transcript=find("<|startoftranscript|>"),
            end_of_text=find("<|endoftext|>"),
            no_speech=find("<|nospeech|>", "<|nocaptions|>"),
            no_timestamps=find("<|notimestamps|>"),
        )

    def text_tokens(self, tokens: Sequence[int]) -> tuple[int, ...]:
        """Return the text tokens, without special tokens and timestamp tokens."""
        return tuple(token for token in tokens if token < self.end_of_text)

    def text_of(self, request: DecodeRequest, hypothesis: Hypothesis) -> AlignRequest:
        """Return the text of a row, to be aligned: the text tokens of prefix and hypothesis."""
        tokens = self.text_tokens((*request.prefix, *hypothesis.tokens))
        return AlignRequest(request.start, tokens, request.frames)


def language_tokens(tokenizer: Tokenizer) -> dict[str, int]:
    """Return the token id of each language that the model supports, by language code."""
    tokens = {code: tokenizer.token_to_id(f"<|{code}|>") for code in LANGUAGES}
    return {code: token for code, token in tokens.items() if token is not None}


MIN_MULTILINGUAL_VOCABULARY: Final = 51_865  # tokens; English-only models have fewer


@dataclass(frozen=True)  # no slots: a cached property needs a __dict__
class ModelInfo:
    """A checked model.

    Attributes:
        directory: of the weights.
        name: of the model, for messages.
        tokenizer: tokenizer with the model's vocabulary.
        special: ids of the special tokens.
        config: the settings of the weights.
        architecture: sizes of the model.
    """

    directory: Path
    name: str
    tokenizer: Tokenizer
    special: SpecialTokens
    config: ModelConfig
    architecture: Architecture

    @classmethod
    def read(cls, directory: Path, name: str) -> "ModelInfo":
        """Read the model in a directory of CTranslate2 weights.

        Raises:
            ModelError: a file is missing, damaged, of another model, or not of a Whisper model.
        """
        weights, settings = directory / "model.bin", directory / "config.json"
        architecture = read_architecture(read_headers(weights), weights)
        config = check_config(read_json(settings, dict), settings, architecture)
        return cls.with_tokenizer(directory, name, architecture, config)

    @classmethod
    def with_tokenizer(
        cls, directory: Path, name: str, architecture: Architecture, config: ModelConfig
    ) -> "ModelInfo":
        """Read the tokenizer of a model whose other files are checked. See `read`."""
        tokenizer = load_tokenizer(directory, architecture.vocabulary_size)
        try:
            special = SpecialTokens.from_tokenizer(tokenizer)
        except LookupError as error:
            raise ModelError(f"{directory}: {error}") from error
        return cls(directory, name, tokenizer, special, config, architecture)

    @property
    def vocabulary_size(self) -> int:
        """Number of tokens of the weights."""
        return self.architecture.vocabulary_size

    @property
    def n_mels(self) -> int:
        """Number of mel bands of the encoder's input."""
        return self.architecture.n_mels

    @property
    def is_multilingual(self) -> bool:
        """False for English-only models."""
        return self.vocabulary_size >= MIN_MULTILINGUAL_VOCABULARY

    @property
    def can_translate(self) -> bool:
        """See `protocols.Engine`."""
        return self.is_multilingual and not self.architecture.is_distilled

    @property
    def revision(self) -> str | None:
        """The commit of the model on the Hugging Face hub; None if it comes from somewhere else."""
        return loaded_revision(self.directory)

    @property
    def origin(self) -> str:
        """The revision as the end of an engine's fingerprint; "" if there is none."""
        return f", revision {self.revision}" if self.revision else ""

    @cached_property
    def fingerprint(self) -> str:
        """Identifies the weights by their content: two revisions may have the same weights."""
        return fingerprint(self.directory)

    def frames_to_keep(self, chosen: float | None) -> float:
        """Return the share of the encoder's frames that is kept.

        Args:
            chosen: by the user; None for the share that was measured for the model, otherwise 1.
        """
        return measured_kept_frames(self.directory) if chosen is None else chosen

    def check_multilingual(self) -> None:
        """Raise an EngineError if the model is English-only."""
        if not self.is_multilingual:
            raise EngineError(f"model {self.name} is English-only: it cannot detect languages")

    def check_projection(self) -> None:
        """Check that the logits are computed with the token embeddings, as in all Whisper models.

        Raises:
            ModelError: the weights have another projection, which only CTranslate2 can use.
        """
        path = self.directory / "model.bin"
        if self.architecture.ties_projection:
            return
        arrays = read_arrays(path, "decoder/")
        if not np.array_equal(arrays[EMBEDDINGS], arrays[PROJECTION]):
            raise ModelError(
                f"{path}: {PROJECTION!r} differs from {EMBEDDINGS!r}; "
                'load the model with engine="ctranslate2"'
            )

    def missing_settings(self) -> dict[str, Any]:
        """Return the settings that CTranslate2 needs and config.json lacks.

        CTranslate2 reads a missing list from undefined memory. `align` needs the alignment heads.
        `detect_language` needs the tokens of the languages; conversions of models without a list of
        languages also list <|nospeech|> and others.
        """
        settings: dict[str, Any] = {field: [] for field in self.config.missing}
        if not self.config.alignment_heads:
            layout = Layout.of(self.architecture, "decoder")
            settings["alignment_heads"] = alignment_heads(layout, self.config)
        if self.is_multilingual:
            tokens = self._language_ids()
            if tokens != list(self.config.lang_ids):
                settings["lang_ids"] = tokens
        return settings

    def _language_ids(self) -> list[int]:
        """Return the listed tokens of languages, otherwise those of the tokenizer.

        A language stands before <|translate|>, or was added after the timestamps.
        """
        after_languages = self.tokenizer.token_to_id(AFTER_LANGUAGES) or 0
        last_timestamp = self.special.no_timestamps + TIMESTAMPS
        listed = [
            token
            for token in self.config.lang_ids
            if self.special.start_of_transcript < token < after_languages or token > last_timestamp
        ]
        return listed or sorted(language_tokens(self.tokenizer).values())
