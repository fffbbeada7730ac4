"""Decoded rows: the text and aligned words of a chunk, or of a part if the chunk was split."""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field

from whisperbatch.caching import cached_property
from whisperbatch.decoding.loops import Repeat, find_repeats
from whisperbatch.decoding.spoken_repeats import Verdict, judge
from whisperbatch.options import Task
from whisperbatch.protocols import Hypothesis
from whisperbatch.rows import Row
from whisperbatch.segmentation.timed_text import AlignedWord, TimedText
from whisperbatch.types import Chunk


@dataclass(frozen=True, eq=False)  # no slots: cached properties need a __dict__
class DecodedRow:
    """A row with its text and aligned words.

    Attributes:
        row: the row that was decoded.
        language: language in which the row was decoded.
        hypothesis: result of the engine, with the prefix.
        text: text of the hypothesis.
        timed_texts: the aligned words: with timestamp tokens, a timed text for each pair of
            timestamps, otherwise a single timed text.
        temperature: temperature at which the row was decoded.
        task: task for which the row was decoded.
    """

    row: Row
    language: str
    hypothesis: Hypothesis
    text: str
    timed_texts: tuple[TimedText, ...] = field(repr=False)
    temperature: float = 0.0
    task: Task = "transcribe"

    @property
    def text_language(self) -> str:
        """Language of the text: English for a translation."""
        return "en" if self.task == "translate" else self.language

    @property
    def chunk(self) -> Chunk:
        """The chunk of the row."""
        return self.row.chunk

    @cached_property
    def words(self) -> tuple[AlignedWord, ...]:
        """All words, in order."""
        return tuple(word for text in self.timed_texts for word in text.words)

    @cached_property
    def compression_ratio(self) -> float:
        """Compression ratio of the text."""
        return compression_ratio(self.text)

    @cached_property
    def repeats(self) -> tuple[Repeat, ...]:
        """Places where the same words occur at least three times in a row."""
        return tuple(find_repeats(normalize_words(self.words)))

    @cached_property
    def verdicts(self) -> tuple[Verdict, ...]:
        """What speaks for each of the repeats. The words of a translation do not follow speech."""
        if self.task == "translate":
            return tuple(Verdict() for _ in self.repeats)
        return judge(self.words, self.chunk, self.language, self.repeats)


def compression_ratio(text: str) -> float:
    """Return UTF-8 bytes over zlib bytes: high for text that repeats itself (openai/whisper)."""
    encoded = text.encode()
    return len(encoded) / len(zlib.compress(encoded))


def normalize_words(words: Sequence[AlignedWord]) -> list[str]:
    """Return the words in lower case with only letters and digits, for comparisons."""
    return [_normalize(word.text) for word in words]


def normalize_text(text: str) -> list[str]:
    """Return the words of a text in lower case with only letters and digits."""
    return [_normalize(word) for word in text.split()]


def _normalize(word: str) -> str:
    return "".join(character for character in word.casefold() if character.isalnum())
