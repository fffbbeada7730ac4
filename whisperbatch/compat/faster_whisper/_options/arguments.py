"""The arguments of a call of faster-whisper's `transcribe`, and their names in messages."""

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from itertools import islice
from typing import Any, Final, cast

from whisperbatch.compat.faster_whisper._options.defaults import is_explicit
from whisperbatch.errors import OptionError
from whisperbatch.options import checks, is_number, plain
from whisperbatch.text import given_language, shown

FASTER_WHISPER_NAMES: Final = {
    "vad_onset": "threshold of vad_parameters",
    "vad_offset": "neg_threshold of vad_parameters",
    "min_speech_duration": "min_speech_duration_ms of vad_parameters",
    "max_speech_duration": "max_speech_duration_s of vad_parameters",
    "min_silence_duration": "min_silence_duration_ms of vad_parameters",
    "speech_pad": "speech_pad_ms of vad_parameters",
    "vad": "vad_filter",
    "inter_threads": "num_workers",
    "intra_threads": "cpu_threads",
}
"""faster-whisper's names of our options and settings, where the names differ."""


TRUTH_VALUES: Final = ("log_progress", "without_timestamps", "multilingual", "vad_filter")
"""Parameters of which faster-whisper only tests the truth: programs pass None, 0 and 1, too."""


@contextmanager
def faster_whisper_names() -> Iterator[None]:
    """Add faster-whisper's names of options to the message of an OptionError."""
    try:
        yield
    except OptionError as error:
        message = str(error)
        names = [
            name for name in FASTER_WHISPER_NAMES if re.search(rf"(?<!\w){name}(?!\w)", message)
        ]
        hint = "; ".join(f"{name} is {FASTER_WHISPER_NAMES[name]}" for name in names)
        raise OptionError(f"{message} ({hint})" if hint else message) from error


@dataclass(frozen=True, kw_only=True)
class TranscribeArguments:
    """The arguments of a call of faster-whisper's `transcribe`.

    Tokens of a prompt are a tuple; the language is a code, or None to detect the language.
    """

    language: str | None
    task: str
    log_progress: bool
    beam_size: int
    best_of: int
    patience: float
    length_penalty: float
    repetition_penalty: float
    no_repeat_ngram_size: int
    temperature: float | Sequence[float]
    compression_ratio_threshold: float | None
    log_prob_threshold: float | None
    no_speech_threshold: float | None
    condition_on_previous_text: bool
    prompt_reset_on_temperature: float
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
    vad_filter: bool
    vad_parameters: object
    max_new_tokens: int | None
    chunk_length: int | None
    clip_timestamps: object
    hallucination_silence_threshold: float | None
    hotwords: str | None
    language_detection_threshold: float | None
    language_detection_segments: int
    batch_size: int | None = None  # of BatchedInferencePipeline only

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name in TRUTH_VALUES:
                value = flag(field.name, value)
            elif field.type is bool and is_explicit(value):
                value = plain(value)
                checks.boolean(field.name, value)
            elif field.name in ("initial_prompt", "suppress_tokens"):
                value = _tokens(field.name, value)
            elif is_explicit(value):
                value = plain(value)
            object.__setattr__(self, field.name, value)
        if self.language is not None:
            object.__setattr__(self, "language", given_language(self.language))


def flag(name: str, value: object) -> Any:  # noqa: ANN401 - see below
    """Return True or False, or an implicit default; None, 0 and 1 are accepted, too."""
    if not is_explicit(value):
        return value
    value = plain(value)
    if value is None or is_number(value, 0) or is_number(value, 1):
        return bool(value)
    checks.boolean(name, value)
    return value


def _tokens(name: str, value: object) -> object:
    """Return token ids as a tuple, which can be read more than once; None and text unchanged."""
    value = plain(value)
    if value is None or type(value) in {str, tuple}:
        return value
    try:  # at most one token more than an option can hold: an iterator may have no end
        return tuple(map(plain, islice(cast("Any", value), checks.MAX_TOKEN + 1)))
    except Exception as error:  # an iterator of the caller may raise anything
        raise OptionError(f"{name} must be token ids, not {shown(value)}") from error
