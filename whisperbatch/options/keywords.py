"""Options as keyword arguments: their types, and the `Options` value made from them."""

from dataclasses import fields, replace
from typing import TypedDict

from typing_extensions import Unpack

from whisperbatch.errors import OptionError
from whisperbatch.options.decoding import Task, Timestamps
from whisperbatch.options.groups import Channel, CodeSwitchingOutput, FeatureKind
from whisperbatch.options.hints import hint_for
from whisperbatch.options.options import Options


class DetectionKeywords(TypedDict, total=False):
    """The options that have an effect on `detect_language`, as keywords."""

    track: int
    channel: Channel
    sampling_rate: int | None
    clip_timestamps: tuple[tuple[float, float | None], ...]
    vad: bool
    vad_onset: float
    vad_offset: float
    min_speech_duration: float
    min_silence_duration: float
    speech_pad: float
    features: FeatureKind
    languages: tuple[str, ...]
    language_detection_segments: int
    language_detection_length: float
    language_detection_threshold: float


class OptionKeywords(DetectionKeywords, total=False):
    """All options as keywords, for type checkers. A test compares them with `Options`."""

    max_speech_duration: float
    chunk_length: float
    max_silence: float | None
    language: str | None
    multilingual: bool
    code_switching_output: CodeSwitchingOutput
    latin_names: bool
    task: Task
    batch_size: int
    beam_size: int
    patience: float
    length_penalty: float
    repetition_penalty: float
    no_repeat_ngram_size: int
    suppress_blank: bool
    suppress_tokens: tuple[int, ...]
    max_initial_timestamp: float
    max_new_tokens: int | None
    temperature: float | tuple[float, ...]
    best_of: int
    seed: int
    compression_ratio_threshold: float | None
    log_prob_threshold: float | None
    no_speech_threshold: float | None
    coverage_threshold: float | None
    hallucination_filter: bool
    initial_prompt: str | tuple[int, ...] | None
    hotwords: str | None
    prefix: str | None
    condition_on_previous_text: bool
    timestamps: Timestamps
    word_timestamps: bool


def for_detection(**keywords: Unpack[DetectionKeywords]) -> Options:
    """Return the options of a language detection.

    Raises:
        OptionError: an option is unknown, wrong, or has no effect on `detect_language`.
    """
    known = DetectionKeywords.__annotations__
    for name in keywords:
        if name not in known and name in OptionKeywords.__annotations__:
            raise OptionError(f"{name} has no effect on detect_language; leave it out")
    return resolve(None, **keywords)


def resolve(options: Options | None, **keywords: Unpack[OptionKeywords]) -> Options:
    """Return `options` (None: the defaults) with the fields that `keywords` name replaced.

    Raises:
        OptionError: an option is unknown or wrong, or `options` is not an Options value.
    """
    if options is not None and not isinstance(options, Options):
        raise OptionError(f"options must be an Options value, not {type(options).__name__}")
    known = {field.name for field in fields(Options)}
    for name in keywords:
        if name not in known:
            hint = hint_for(name) or "help(whisperbatch.transcribe) lists all options"
            raise OptionError(f"{name} is not an option; {hint}")
    return replace(options or Options(), **keywords)
