"""The tokens that steer Whisper's decoder, and those that it never says."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from tokenizers import Tokenizer

from whisperbatch.engines.search.beam_search import Floats
from whisperbatch.options import DecodeOptions
from whisperbatch.text.languages import LANGUAGES

MULTILINGUAL: Final = 51_865  # tokens that a multilingual model has, or more


@dataclass(frozen=True, slots=True)
class SpecialTokens:
    """Ids of the tokens that steer the decoder."""

    start_of_transcript: int
    end_of_text: int
    no_speech: int
    no_timestamps: int

    @classmethod
    def of(cls, tokenizer: Tokenizer) -> "SpecialTokens":
        """Those of a model.

        Raises:
            LookupError: it is not one of Whisper's.
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
    """The token of each language that a model knows, by its code."""
    known = {code: tokenizer.token_to_id(f"<|{code}|>") for code in LANGUAGES}
    return {code: token for code, token in known.items() if token is not None}


def biases(
    options: DecodeOptions,
    config: Mapping[str, Any],
    special: SpecialTokens,
    size: int,
    *,
    timestamps: bool = False,
) -> tuple[Floats, Floats]:
    """What is added to the logits of all tokens, and of those at a row's start.

    Args:
        options: of the decoding.
        config: config.json of the weights.
        special: ids of the special tokens.
        size: of the vocabulary.
        timestamps: whether timestamp tokens may be said.
    """
    later = np.zeros(size, np.float32)
    never = set(options.suppress_tokens)
    if -1 in never:
        never |= set(config.get("suppress_ids", ()))
    later[sorted(never - {-1})] = -np.inf
    later[special.no_timestamps : special.no_timestamps + 1 if timestamps else None] = -np.inf
    first = later.copy()
    if options.suppress_blank:
        first[config.get("suppress_ids_begin", [])] = -np.inf
    return later, first
