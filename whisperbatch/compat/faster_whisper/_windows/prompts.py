"""The parts of a prompt.

<|startofprev|> context   <|startoftranscript|> language task   <|notimestamps|>   prefix
                          '------------ start ------------'
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from whisperbatch.errors import OptionError
from whisperbatch.text import shown

if TYPE_CHECKING:
    from tokenizers import Tokenizer

N_TIMESTAMPS: Final = 1501  # tokens from 0.00 to 30.00 s


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt.

    Attributes:
        tokens: all token ids.
        start: from the start of transcript: with language and task for a multilingual model.
        context_length: number of tokens before the start.
        prefix: the tokens with which the result begins.
        has_timestamps: whether the result has timestamp tokens.
    """

    tokens: tuple[int, ...]
    start: tuple[int, ...]
    context_length: int
    prefix: tuple[int, ...]
    has_timestamps: bool

    @property
    def form(self) -> tuple[int, int, int, bool]:
        """Prompts with equal forms can be decoded in one call of an engine."""
        return len(self.tokens), self.context_length, len(self.prefix), self.has_timestamps


def parse_prompt(prompt: Iterable[int | str], tokenizer: "Tokenizer") -> Prompt:
    """Return the parts of a prompt.

    Args:
        prompt: token ids, or tokens as text.
        tokenizer: the model's.

    Raises:
        OptionError: the prompt has no start of transcript, or a token is unknown.
    """
    tokens = tuple(_token_id(token, tokenizer) for token in prompt)
    start_of_transcript, end_of_text, no_timestamps = (
        _token_id(f"<|{name}|>", tokenizer)
        for name in ("startoftranscript", "endoftext", "notimestamps")
    )
    if start_of_transcript not in tokens:
        raise OptionError(f"prompt {shown(list(tokens))} has no <|startoftranscript|>")
    first = tokens.index(start_of_transcript)
    end = first + 1
    while end < len(tokens) and tokens[end] > end_of_text:
        if 0 <= tokens[end] - no_timestamps <= N_TIMESTAMPS:
            break
        end += 1
    has_timestamps = tokens[end : end + 1] != (no_timestamps,)
    prefix = tokens[end if has_timestamps else end + 1 :]
    return Prompt(tokens, tokens[first:end], first, prefix, has_timestamps)


def _token_id(token: int | str, tokenizer: "Tokenizer") -> int:
    number = tokenizer.token_to_id(token) if isinstance(token, str) else token
    if number is None or not 0 <= int(number) <= _last_token(tokenizer):
        raise OptionError(f"prompt: {shown(token)} is not a token of this model")
    return int(number)


def _last_token(tokenizer: "Tokenizer") -> int:
    """Return the last token: a tokenizer may lack the timestamps, which are the last tokens."""
    no_timestamps = tokenizer.token_to_id("<|notimestamps|>") or 0
    return max(tokenizer.get_vocab_size() - 1, no_timestamps + N_TIMESTAMPS)


def groups_of_equal_form(prompts: Sequence[Prompt]) -> list[list[int]]:
    """Return the numbers of the prompts that can be decoded in one call, group by group."""
    groups: dict[tuple[int, int, int, bool], list[int]] = {}
    for number, prompt in enumerate(prompts):
        groups.setdefault(prompt.form, []).append(number)
    return list(groups.values())
