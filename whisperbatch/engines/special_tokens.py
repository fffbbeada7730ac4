"""Whisper's special tokens."""

from collections.abc import Sequence
from dataclasses import dataclass

from tokenizers import Tokenizer

from whisperbatch.protocols import AlignRequest, DecodeRequest, Hypothesis
from whisperbatch.text.languages import LANGUAGES


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
