"""The options as keywords: their types for type checkers, and an `Options` from them."""

import difflib
from dataclasses import fields, replace
from typing import TypedDict, Unpack

from whisperbatch.errors import OptionError
from whisperbatch.options.decoding import Task, Timestamps
from whisperbatch.options.groups import Channel, CodeSwitchingOutput, FeatureKind
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
    """The fields of `Options` as keywords, for type checkers; a test holds the two together."""

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
    """The options of a detection; others than `DetectionKeywords` are refused."""
    known = DetectionKeywords.__annotations__
    for name in keywords:
        if name not in known and name in OptionKeywords.__annotations__:
            raise OptionError(f"{name} has no effect on detect_language; leave it out")
    return resolve(None, **keywords)


def resolve(options: Options | None, **keywords: Unpack[OptionKeywords]) -> Options:
    """`options`, or the defaults, with the keywords in place of the fields they name."""
    if options is not None and not isinstance(options, Options):
        raise OptionError(f"options must be an Options value, not {type(options).__name__}")
    known = {field.name for field in fields(Options)}
    for name in keywords:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(sorted(known))}"
            raise OptionError(f"{name} is not an option; {hint}")
    return replace(options or Options(), **keywords)
