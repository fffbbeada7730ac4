"""What decoding makes of a chunk: one part, or several where it was cut anew."""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

from whisperbatch.decoding.segments import TimedText
from whisperbatch.decoding.words import AlignedWord
from whisperbatch.options import Task
from whisperbatch.rows import Row
from whisperbatch.types import Chunk, Hypothesis


@dataclass(frozen=True, eq=False)  # no slots: they hold what is computed once
class DecodedRow:
    """A stretch of a chunk, and its text.

    Attributes:
        row: what was decoded.
        language: in which it was.
        hypothesis: what the engine gave, the prefix included.
        text: of the hypothesis.
        drafts: its words, placed; by timestamp tokens if it has such, otherwise in one draft.
        temperature: at which it was decoded.
        task: what was asked for.
    """

    row: Row
    language: str
    hypothesis: Hypothesis
    text: str
    drafts: tuple[TimedText, ...] = field(repr=False)
    temperature: float = 0.0
    task: Task = "transcribe"

    @property
    def written(self) -> str:
        """The language of its text."""
        return "en" if self.task == "translate" else self.language

    @property
    def chunk(self) -> Chunk:
        """The stretch."""
        return self.row.chunk

    @cached_property
    def words(self) -> tuple[AlignedWord, ...]:
        """All words, in order."""
        return tuple(word for draft in self.drafts for word in draft.words)

    @cached_property
    def compression_ratio(self) -> float:
        """Of its text."""
        return compression_ratio(self.text)


def compression_ratio(text: str) -> float:
    """UTF-8 bytes over zlib bytes: high for text that repeats itself (openai/whisper)."""
    encoded = text.encode()
    return len(encoded) / len(zlib.compress(encoded))


def normalized(words: Sequence[AlignedWord]) -> list[str]:
    """Words as they are compared: lower case, letters and digits alone."""
    return [_compared(word.text) for word in words]


def normalized_text(text: str) -> list[str]:
    """The words of a text, likewise."""
    return [_compared(word) for word in text.split()]


def _compared(word: str) -> str:
    return "".join(c for c in word.casefold() if c.isalnum())
