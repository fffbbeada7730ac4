"""Whisper's special tokens, and the biases that keep the decoder from predicting a token."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from tokenizers import Tokenizer

from whisperbatch.engines.search.beam_search import Floats
from whisperbatch.options import DecodeOptions
from whisperbatch.text.languages import LANGUAGES

MIN_MULTILINGUAL_VOCABULARY: Final = 51_865  # tokens; English-only models have fewer

CONFIGURED_TOKENS: Final = -1  # in `suppress_tokens`: the tokens that config.json lists


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


def language_tokens(tokenizer: Tokenizer) -> dict[str, int]:
    """Return the token id of each language that the model supports, by language code."""
    tokens = {code: tokenizer.token_to_id(f"<|{code}|>") for code in LANGUAGES}
    return {code: token for code, token in tokens.items() if token is not None}


def logit_biases(
    options: DecodeOptions,
    config: Mapping[str, Any],
    special_tokens: SpecialTokens,
    vocabulary_size: int,
    *,
    timestamps: bool = False,
) -> tuple[Floats, Floats]:
    """Return the biases to add to the logits: minus infinity for suppressed tokens, else 0.

    Args:
        options: suppress_tokens and suppress_blank.
        config: config.json of the weights.
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
        suppressed |= set(config.get("suppress_ids", ()))
    biases[sorted(suppressed - {CONFIGURED_TOKENS})] = -np.inf
    no_timestamps = special_tokens.no_timestamps  # timestamp tokens follow it in the vocabulary
    biases[no_timestamps : no_timestamps + 1 if timestamps else None] = -np.inf
    first_biases = biases.copy()
    if options.suppress_blank:
        first_biases[config.get("suppress_ids_begin", [])] = -np.inf
    return biases, first_biases
