"""faster-whisper's result classes. They are not frozen, because programs set their attributes."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any
from warnings import warn

from whisperbatch.compat.faster_whisper.vad import VadOptions


@dataclass
class Word:
    """A word of a segment.

    Attributes:
        start: in seconds from the start of the recording.
        end: in seconds from the start of the recording.
        word: its text, with the space before it.
        probability: mean probability of its tokens.
    """

    start: float
    end: float
    word: str
    probability: float

    def _asdict(self) -> dict[str, Any]:
        return _deprecated_asdict(self)


@dataclass
class Segment:
    """A sentence, or the text of a chunk.

    With text from several chunks, the probabilities are means; the compression ratio and the
    temperature are the highest.

    Attributes:
        id: its number, from 1.
        seek: its start, in feature frames of 10 ms. (In faster-whisper, the start of the 30 s
            window that the segment was decoded in; there are no such windows here.)
        start: in seconds from the start of the recording.
        end: in seconds from the start of the recording.
        text: with a space before it, except in languages that are written without spaces.
        tokens: ids of its text, without timestamps. They are the text encoded again: a segment is
            made of words, and some words of the chunk may have been removed, so it does not
            correspond to a range of decoded tokens.
        avg_logprob: of the segment's chunk.
        compression_ratio: of the segment's chunk.
        no_speech_prob: of the segment's chunk.
        words: its words with `word_timestamps=True`, otherwise None.
        temperature: of the sampling that decoded the segment's chunk.
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
        return _deprecated_asdict(self)


def _deprecated_asdict(value: Word | Segment) -> dict[str, Any]:
    name = type(value).__name__
    warn(f"use dataclasses.asdict({name}) for {name}._asdict()", DeprecationWarning, stacklevel=3)
    return asdict(value)


@dataclass
class TranscriptionOptions:
    """The options in effect, as described in `WhisperModel.transcribe`.

    Options that the program left at their defaults have whisperbatch's values.
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
    """Properties of a recording that are available before its segments.

    Attributes:
        language: given or detected; "en" with probability 0 if the recording has no speech.
        language_probability: 1 if the language was given.
        duration: of the recording in seconds, as its container states it. If a stream does not
            state its duration, the duration read so far: the whole stream after the last segment.
        duration_after_vad: seconds of speech. They are measured when the attribute is first read
            (also by `repr` and `asdict`), in a pass over the recording that takes about a second
            for every five minutes. The same as `duration` if the recording cannot be read twice.
        all_language_probs: the languages and their probabilities, the most probable first; None
            if the language was not detected.
        transcription_options: the options in effect.
        vad_options: the VAD options in effect; None with `vad_filter=False`.
    """

    language: str
    language_probability: float
    duration: float
    duration_after_vad: float
    all_language_probs: list[tuple[str, float]] | None
    transcription_options: TranscriptionOptions
    vad_options: VadOptions | None

    def __getstate__(self) -> dict[str, Any]:
        """Return the state of a copy, in which durations that are still functions are numbers."""
        measured = {"duration": self.duration, "duration_after_vad": self.duration_after_vad}
        return {**vars(self), **measured}


class _LazyNumber:
    """A dataclass field that holds a number, or a function that is called to read the field."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, instance: object | None, owner: type) -> float:
        if instance is None:  # like a field without a default
            raise AttributeError(self._name)
        value = vars(instance)[self._name]
        return float(value() if callable(value) else value)

    def __set__(self, instance: object, value: float | Callable[[], float]) -> None:
        vars(instance)[self._name] = value


# Set after the class: `dataclass` would take a descriptor in the class body for a default value.
for _name in ("duration", "duration_after_vad"):
    setattr(TranscriptionInfo, _name, _LazyNumber(_name))
