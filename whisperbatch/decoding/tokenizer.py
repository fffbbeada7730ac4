"""Whisper's vocabulary: special tokens, prompts, and the text of tokens.

`segment_by_timestamps` makes text with times from Whisper's timestamp tokens.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from tokenizers import Tokenizer

from whisperbatch.errors import ModelError
from whisperbatch.options import Task
from whisperbatch.segmentation.timed_text import TimedText
from whisperbatch.text.languages import foreign_letters
from whisperbatch.threads import cached_property
from whisperbatch.types import Chunk, SpeechSpan, to_samples

if TYPE_CHECKING:
    from faster_whisper.tokenizer import Tokenizer as FasterWhisperTokenizer

TIMESTAMP_STEP: Final = 0.02  # seconds
TIMESTAMP_TOKENS: Final = 1501  # from 0 to 30 s in steps of 20 ms


class WhisperTokenizer:
    """The tokens of one model.

    Args:
        tokenizer: tokenizer of the model.
        multilingual: False for an English-only model, whose prompt has neither language nor task.
    """

    def __init__(self, tokenizer: Tokenizer, *, multilingual: bool) -> None:
        self._tokenizer = tokenizer
        self._multilingual = multilingual
        self.for_language = lru_cache(maxsize=None)(self._for_language)
        self.foreign_tokens = lru_cache(maxsize=None)(self._foreign_tokens)

    def _for_language(self, language: str, task: Task = "transcribe") -> "FasterWhisperTokenizer":
        """Return faster-whisper's tokenizer, which splits text into words for each language."""
        from faster_whisper import tokenizer  # noqa: PLC0415 - heavy

        return tokenizer.Tokenizer(
            self._tokenizer, self._multilingual, task=task, language=language
        )

    def _foreign_tokens(self, language: str, *, latin: bool) -> tuple[int, ...]:
        """Return the text tokens with letters of scripts that the language does not use.

        Args:
            language: language of the text.
            latin: whether Latin letters are allowed in every language.
        """
        return tuple(
            token
            for token in range(self.end_of_text)
            if foreign_letters(str(self._tokenizer.decode([token])), language, latin=latin)
        )

    @cached_property
    def end_of_text(self) -> int:
        """The end-of-text token; all smaller ids are text tokens."""
        return self._special("<|endoftext|>")

    @cached_property
    def no_timestamps(self) -> int:
        """The last token of a prompt that asks for text without timestamp tokens."""
        return self._special("<|notimestamps|>")

    @cached_property
    def start_of_previous(self) -> int:
        """The first token of a row's context."""
        return self._special("<|startofprev|>")

    @property
    def size(self) -> int:
        """Number of all tokens, including the timestamps at the end of the vocabulary.

        Some tokenizers do not list their timestamps.
        """
        return self.no_timestamps + 1 + TIMESTAMP_TOKENS

    def has_language(self, language: str) -> bool:
        """Return whether the model has a token for this language."""
        return self._tokenizer.token_to_id(f"<|{language}|>") is not None

    def _special(self, token: str) -> int:
        token_id = self._tokenizer.token_to_id(token)
        if token_id is None:
            raise ModelError(f"the tokenizer has no {token}: it is not a Whisper tokenizer")
        return token_id

    def prompt(self, language: str, task: Task) -> list[int]:
        """Return start of transcript, language and task: the tokens at which alignment starts."""
        return list(self.for_language(language, task).sot_sequence)

    def encode(self, text: str) -> list[int]:
        """Return the token ids of a text that stands in the middle of a transcript."""
        return list(self._tokenizer.encode(f" {text.strip()}", add_special_tokens=False).ids)

    def text(self, tokens: Sequence[int]) -> str:
        """Return the text of tokens, without special tokens."""
        return str(self._tokenizer.decode(self.text_tokens(tokens)))

    def text_tokens(self, tokens: Sequence[int]) -> list[int]:
        """Return the text tokens, without special tokens and timestamps."""
        return [token for token in tokens if token < self.end_of_text]

    def timestamp(self, token: int) -> float | None:
        """Return the seconds from the start of the chunk; None if `token` is no timestamp."""
        if token > self.no_timestamps:
            return (token - self.no_timestamps - 1) * TIMESTAMP_STEP
        return None

    def words(self, tokens: Sequence[int], language: str) -> list[list[int]]:
        """Return text tokens grouped by word, or by character in languages without spaces."""
        _, groups = self.for_language(language).split_to_word_tokens(list(tokens))
        words = [group for group in groups if group]
        grouped = sum(len(group) for group in words)
        if grouped < len(tokens):  # the groups end at invalid UTF-8; keep the tokens after it
            words.append(list(tokens[grouped:]))
        return words


def segment_by_timestamps(
    tokens: Sequence[int], chunk: Chunk, vocabulary: WhisperTokenizer
) -> list[tuple[TimedText, list[int]]]:
    """Return the segments that Whisper's timestamp tokens delimit, each with its text tokens.

    Every text token is in one segment, except blank tokens at the end. No segment begins before or
    ends after the speech of the chunk: a retry may have added silence around it.
    """
    speech = chunk.speech or chunk.pieces
    limits = (speech[0].start, speech[-1].end)
    segments: list[tuple[TimedText, list[int]]] = []
    start, text_tokens = 0.0, list[int]()

    def close(end: int) -> None:
        nonlocal text_tokens
        if text := vocabulary.text(text_tokens).strip():  # blank tokens go to the next segment
            first = chunk.recording_time(to_samples(start))
            span = SpeechSpan(first, max(first, end)).within(*limits)
            segments.append((TimedText(span.start, span.end, text), text_tokens))
            text_tokens = []

    for token in tokens:
        time = vocabulary.timestamp(token)
        if time is None:
            if token < vocabulary.end_of_text:
                text_tokens.append(token)
            continue
        if text_tokens:
            # map the last sample of the segment, so that an end at the joint of two pieces is
            # placed before the pause that was cut out
            close(min(chunk.recording_time(to_samples(time) - 1) + 1, chunk.end))
        start = time
    close(chunk.end)
    return segments


def speech_within(speech: Sequence[SpeechSpan], start: int, end: int) -> list[SpeechSpan]:
    """Return the parts of the spans from `start` to `end`.

    If no speech lies between them, return one span from `start` to `end`.
    """
    clipped = [span.within(start, end) for span in speech]
    return [span for span in clipped if span.length] or [SpeechSpan(start, end)]
