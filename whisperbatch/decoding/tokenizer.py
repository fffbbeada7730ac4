"""Whisper's vocabulary: special tokens, prompts, and text from tokens."""

from collections.abc import Sequence
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Final

from tokenizers import Tokenizer

from whisperbatch.errors import ModelError
from whisperbatch.options import Task
from whisperbatch.text.scripts import foreign

if TYPE_CHECKING:
    from faster_whisper.tokenizer import Tokenizer as FasterWhisperTokenizer

TIMESTAMPS: Final = 1501  # from 0 to 30 s in steps of 20 ms


class WhisperTokenizer:
    """The tokens of one model.

    Args:
        tokenizer: of the model.
        multilingual: an English-only model's prompt has neither language nor task.
    """

    def __init__(self, tokenizer: Tokenizer, *, multilingual: bool) -> None:
        self._tokenizer = tokenizer
        self._multilingual = multilingual
        self.for_language = lru_cache(maxsize=None)(self._for_language)
        self.foreign = lru_cache(maxsize=None)(self._foreign)

    def _for_language(self, language: str, task: Task = "transcribe") -> "FasterWhisperTokenizer":
        """faster-whisper's tokenizer, which knows how to split words in each language."""
        from faster_whisper import tokenizer  # noqa: PLC0415 - heavy

        return tokenizer.Tokenizer(
            self._tokenizer, self._multilingual, task=task, language=language
        )

    def _foreign(self, language: str, *, latin: bool) -> tuple[int, ...]:
        """Text tokens with letters that are not of the language's scripts."""
        return tuple(
            token
            for token in range(self.end_of_text)
            if foreign(str(self._tokenizer.decode([token])), language, latin=latin)
        )

    @cached_property
    def end_of_text(self) -> int:
        """Text tokens are those below it."""
        return self._special("<|endoftext|>")

    @cached_property
    def no_timestamps(self) -> int:
        """Ends a prompt that asks for plain text."""
        return self._special("<|notimestamps|>")

    @cached_property
    def start_of_previous(self) -> int:
        """Begins what comes before a row."""
        return self._special("<|startofprev|>")

    @property
    def size(self) -> int:
        """Number of all tokens. Timestamps, the last, are not in every tokenizer's own list."""
        return self.no_timestamps + 1 + TIMESTAMPS

    def knows(self, language: str) -> bool:
        """Whether the model can be told that a row is in this language."""
        return self._tokenizer.token_to_id(f"<|{language}|>") is not None

    def _special(self, token: str) -> int:
        number = self._tokenizer.token_to_id(token)
        if number is None:
            raise ModelError(f"the tokenizer has no {token}: it is not one of Whisper's")
        return number

    def prompt(self, language: str, task: Task) -> list[int]:
        """Start of transcript, language and task: what alignment starts from."""
        return list(self.for_language(language, task).sot_sequence)

    def encode(self, text: str) -> list[int]:
        """Token ids of a text, as in the middle of a transcript."""
        return list(self._tokenizer.encode(f" {text.strip()}", add_special_tokens=False).ids)

    def text(self, tokens: Sequence[int]) -> str:
        """Without special tokens."""
        return str(self._tokenizer.decode(self.text_tokens(tokens)))

    def text_tokens(self, tokens: Sequence[int]) -> list[int]:
        """The tokens that are text: no special ones, no timestamps."""
        return [token for token in tokens if token < self.end_of_text]

    def timestamp(self, token: int) -> float | None:
        """Seconds from the start of the chunk, if it is a timestamp token."""
        return (token - self.no_timestamps - 1) * 0.02 if token > self.no_timestamps else None

    def words(self, tokens: Sequence[int], language: str) -> list[list[int]]:
        """Text tokens grouped by word; in languages without spaces, by character."""
        _, groups = self.for_language(language).split_to_word_tokens(list(tokens))
        words = [group for group in groups if group]
        grouped = sum(len(group) for group in words)
        if grouped < len(tokens):  # bytes that are no text: what follows them is still text
            words.append(list(tokens[grouped:]))
        return words
