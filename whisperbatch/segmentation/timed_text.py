"""Text with times, as the decoder returns it."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from whisperbatch.recording import Decision
from whisperbatch.types import Omission, SpeechSpan


@dataclass(frozen=True, slots=True)
class AlignedWord:
    """A word with its times in the recording.

    Attributes:
        text: text of the word, with the space before it, if any.
        start: recording sample at which the word starts.
        end: recording sample at which the word ends, not before `start`.
        probability: mean probability of the word's tokens.
        span: index of the chunk's speech span that contains the word.
        aligned: start and end of the word in chunk samples, by the alignment alone.
    """

    text: str
    start: int
    end: int
    probability: float
    span: int
    aligned: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class TimedText:
    """Text with start and end in recording samples.

    Attributes:
        start: first recording sample.
        end: recording sample after the last.
        text: text without surrounding space.
        words: the aligned words; empty if they are not available.
    """

    start: int
    end: int
    text: str
    words: tuple[AlignedWord, ...] = ()


def join_words(words: Sequence[AlignedWord]) -> TimedText:
    """Return the timed text of all the words."""
    text = "".join(word.text for word in words).strip()
    return TimedText(words[0].start, words[-1].end, text, tuple(words))


@dataclass(frozen=True, slots=True)
class Scores:
    """The scores of a decoded text, as in `types.Segment`."""

    avg_logprob: float
    no_speech_prob: float
    compression_ratio: float
    temperature: float


@dataclass(frozen=True, slots=True)
class ScoredText:
    """The text of a row, or of a part if the row was split for a retry.

    Attributes:
        language: Whisper's code of the language of the text.
        scores: of the row or part.
        timed_texts: the text, in order.
        speech: the speech spans of the row or part.
    """

    language: str
    scores: Scores
    timed_texts: tuple[TimedText, ...]
    speech: tuple[SpeechSpan, ...] = field(repr=False)

    @property
    def words(self) -> tuple[AlignedWord, ...]:
        """All words, in order."""
        return tuple(word for text in self.timed_texts for word in text.words)


@dataclass(frozen=True, slots=True)
class LanguageDoubt:
    """Speech that sounds like another language than its text.

    Attributes:
        start: first recording sample.
        end: recording sample after the last.
        language: Whisper's code of the language that the speech sounds like.
        decided: code of the language in which it was decoded.
        from_start: whether the speech of the row begins with this speech.
        to_end: whether the speech of the row ends with this speech.
    """

    start: int
    end: int
    language: str
    decided: str
    from_start: bool
    to_end: bool


@dataclass(frozen=True, slots=True)
class RowResult:
    """The text and omissions of a row.

    Attributes:
        texts: the text in order; several texts if the row was split for a retry.
        omissions: removed text, and speech without text.
        redecoded: whether the row was decoded again: its text failed the audit, was improbable in
            noise, or was in another language than the speech.
        decision: the language decision for the recording as of this row.
        section: number of the section of the row.
        doubts: stretches whose language is doubtful, in order.
        channel: the only channel of the row; None for all channels (`types.Chunk`).
        completes: whether no row of another channel follows with speech of the same time.
    """

    texts: tuple[ScoredText, ...]
    omissions: tuple[Omission, ...]
    redecoded: bool
    decision: Decision | None
    section: int = 0
    doubts: tuple[LanguageDoubt, ...] = ()
    channel: int | None = None
    completes: bool = True
