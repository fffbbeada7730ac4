"""faster-whisper's results: not frozen, as theirs are not, since programs write to them."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any
from warnings import warn

from whisperbatch.compat.faster_whisper.vad import VadOptions


@dataclass
class Word:
    """A word; the space before it belongs to it.

    Attributes:
        start: seconds from the start of the recording.
        end: likewise.
        word: its text.
        probability: mean probability of its tokens.
    """

    start: float
    end: float
    word: str
    probability: float

    def _asdict(self) -> dict[str, Any]:
        return _warned(self)


@dataclass
class Segment:
    """A sentence or phrase.

    Attributes:
        id: its number, from 1.
        seek: where it starts, in frames of 10 ms. (Theirs: where the window that it was decoded
            in starts. There are no such windows here.)
        start: seconds from the start of the recording.
        end: likewise.
        text: with a space before it, except in languages that are written without spaces.
        tokens: ids of its text, without timestamps: the text encoded again, since a segment is
            made of words, of which some may be left out, and not of a stretch of decoded tokens.
        avg_logprob: of the chunk it comes from.
        compression_ratio: likewise.
        no_speech_prob: likewise.
        words: with `word_timestamps=True`, otherwise None.
        temperature: at which its chunk was decoded.
    """

    id: int
    seek: int
    start: float
    end: float
    text: str
    tokens: list[int]
    avg_logprob: float
    compression_ratio: float
    no_speech_prob: float
    words: list[Word] | None
    temperature: float | None

    def _asdict(self) -> dict[str, Any]:
        return _warned(self)


def _warned(value: Word | Segment) -> dict[str, Any]:
    name = type(value).__name__
    warn(f"use dataclasses.asdict({name}) for {name}._asdict()", DeprecationWarning, stacklevel=3)
    return asdict(value)


@dataclass
class TranscriptionOptions:
    """The options in effect: of those that were left at their defaults, what they are here.

    See `WhisperModel.transcribe`.
    """

    beam_size: int
    best_of: int
    patience: float
    length_penalty: float
    repetition_penalty: float
    no_repeat_ngram_size: int
    log_prob_threshold: float | None
    no_speech_threshold: float | None
    compression_ratio_threshold: float | None
    condition_on_previous_text: bool
    prompt_reset_on_temperature: float
    temperatures: list[float]
    initial_prompt: str | Iterable[int] | None
    prefix: str | None
    suppress_blank: bool
    suppress_tokens: Sequence[int] | None
    without_timestamps: bool
    max_initial_timestamp: float
    word_timestamps: bool
    prepend_punctuations: str
    append_punctuations: str
    multilingual: bool
    max_new_tokens: int | None
    clip_timestamps: str | list[float]
    hallucination_silence_threshold: float | None
    hotwords: str | None


@dataclass
class TranscriptionInfo:
    """What is known of a recording before it is transcribed.

    Attributes:
        language: given or detected; "en" where nobody speaks, of probability 0.
        language_probability: 1 where the language was given.
        duration: of the recording in seconds, as its container states it. Of a stream that does
            not say, what has been read of it so far: all of it after the last segment.
        duration_after_vad: seconds of speech. Looked for when it is first asked for (so also by
            `repr` and `asdict`), in a pass over the recording that takes about a second for five
            minutes of it. The same as `duration` where the recording cannot be read twice.
        all_language_probs: the languages and their probabilities, the most probable first; None
            where none was detected.
        transcription_options: the options in effect.
        vad_options: likewise; None with `vad_filter=False`.
    """

    language: str
    language_probability: float
    duration: float
    duration_after_vad: float
    all_language_probs: list[tuple[str, float]] | None
    transcription_options: TranscriptionOptions
    vad_options: VadOptions | None

    def __getstate__(self) -> dict[str, Any]:
        """What is measured goes into a copy as a number."""
        measured = {"duration": self.duration, "duration_after_vad": self.duration_after_vad}
        return {**vars(self), **measured}


class _Measured:
    """A field that may be set to a function: whoever reads the field gets what it returns."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, instance: object | None, owner: type) -> float:
        if instance is None:  # as of any field without a default
            raise AttributeError(self._name)
        value = vars(instance)[self._name]
        return float(value() if callable(value) else value)

    def __set__(self, instance: object, value: float | Callable[[], float]) -> None:
        vars(instance)[self._name] = value


# set here, since a dataclass would take what is set above for a default
for _name in ("duration", "duration_after_vad"):
    setattr(TranscriptionInfo, _name, _Measured(_name))
