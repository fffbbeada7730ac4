"""Options as keyword arguments: their types, the `Options` value made from them, and signatures.

The types and signatures are for type checkers, editors and `help()`.
"""

import functools
import inspect
import re
from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from typing import Final, TypedDict, TypeVar, cast

from typing_extensions import Unpack

from whisperbatch.errors import OptionError
from whisperbatch.options.hints import RECORDINGS, hint_for, in_python
from whisperbatch.options.options import (
    Channel,
    CodeSwitchingOutput,
    FeatureKind,
    Options,
    Segments,
    SpeakerKind,
    Task,
    Timestamps,
)
from whisperbatch.options.values import DiarizerChoice, KnownSpeakers
from whisperbatch.text.messages import one_line

F = TypeVar("F", bound=Callable[..., object])


class DetectionKeywords(TypedDict, total=False):
    """The options that have an effect on `detect_language`."""

    track: int | None
    channel: Channel
    sampling_rate: int | None
    clip_timestamps: tuple[tuple[float, float | None], ...]
    max_duration: float | None
    vad: bool
    vad_onset: float
    vad_offset: float
    min_speech_duration: float
    min_silence_duration: float
    speech_pad: float
    second_opinion: bool
    second_opinion_threshold: float
    features: FeatureKind
    languages: tuple[str, ...]
    language_detection_segments: int
    language_detection_length: float
    language_detection_threshold: float


class OptionKeywords(DetectionKeywords, total=False):
    """All options."""

    max_speech_duration: float
    chunk_length: float
    max_silence: float | None
    language: str | None
    multilingual: bool
    code_switching_output: CodeSwitchingOutput
    latin_names: bool
    beam_size: int
    patience: float
    length_penalty: float
    repetition_penalty: float
    no_repeat_ngram_size: int
    suppress_blank: bool
    suppress_tokens: tuple[int, ...]
    max_initial_timestamp: float
    max_new_tokens: int | None
    task: Task
    batch_size: int | None
    readers: int | None
    reader_processes: bool
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
    segments: Segments
    word_timestamps: bool
    diarize: bool
    speaker: SpeakerKind
    num_speakers: int | None
    min_speakers: int | None
    max_speakers: int | None
    known_speakers: KnownSpeakers | None
    diarizer: DiarizerChoice


OPTION_NAMES: Final = tuple(field.name for field in fields(Options))

DETECTION_OPTIONS: Final = tuple(DetectionKeywords.__annotations__)
"""The names of the options that have an effect on `detect_language`."""

OPTION_PARAMETERS: Final = tuple(
    inspect.Parameter(
        field.name, inspect.Parameter.KEYWORD_ONLY, default=field.default, annotation=field.type
    )
    for field in fields(Options)
)
"""All options."""

DETECTION_PARAMETERS: Final = tuple(
    parameter for parameter in OPTION_PARAMETERS if parameter.name in DETECTION_OPTIONS
)
"""The options that have an effect on `detect_language`."""


def for_detection(**keywords: Unpack[DetectionKeywords]) -> Options:
    """Return the options of a language detection.

    Raises:
        OptionError: an option is unknown, wrong, or has no effect on `detect_language`.
    """
    for name in keywords:
        if name in OPTION_NAMES and name not in DETECTION_OPTIONS:
            raise OptionError(f"`{name}` has no effect on detect_language; leave it out")
    return resolve(None, **keywords)


def resolve(options: Options | None, **keywords: Unpack[OptionKeywords]) -> Options:
    """Return `options` (None: the defaults) with the fields that `keywords` name replaced.

    Raises:
        OptionError: an option is unknown or wrong, or `options` is not an Options value.
    """
    if options is not None and not issubclass(type(options), Options):
        raise OptionError(f"options must be an Options value, not {type(options).__name__}")
    for name in keywords:
        if name not in OPTION_NAMES:
            spell = in_python(OPTION_NAMES, "a keyword of load")
            hint = (
                hint_for(name, OPTION_NAMES, spell)
                or "help(whisperbatch.Options) lists all options"
            )
            raise OptionError(f"{one_line(name)} is not an option; {hint}")
    return replace(options or Options(), **keywords)


def with_parameters(*keywords: inspect.Parameter, texts: type | None = None) -> Callable[[F], F]:
    """Return a decorator that shows `keywords` in the signature in place of `**keywords`.

    `help()` and editors then list every option with its type and default.

    Args:
        *keywords: the parameters.
        texts: a class whose docstring ends with "Attributes"; they follow the function's "Args".
    """

    def decorate(function: F) -> F:
        signature = inspect.signature(function)
        parameters = [p for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD]
        if texts and (described := inspect.getdoc(function)):  # without indent, as in Python 3.13
            arguments, returns, rest = described.partition("\n\nReturns:")
            function.__doc__ = f"{arguments}\n{_section(texts).rstrip()}{returns}{rest}"
        names = [p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]
        if {"source", "sources"} & {*names}:
            function = _explaining(function, names)
        documented = signature.replace(parameters=[*parameters, *keywords])
        function.__signature__ = documented  # type: ignore[attr-defined]  # inspect reads this
        return function

    return decorate


def _explaining(function: F, names: Sequence[str]) -> F:
    """Return a function that says where the recording goes if another keyword has it.

    Args:
        function: takes a recording, or several.
        names: its positional parameters.
    """

    @functools.wraps(function)
    def checked(*arguments: object, **keywords: object) -> object:
        if not {*names[len(arguments) :]} <= keywords.keys():
            for name in keywords:
                if name in RECORDINGS:
                    raise OptionError(f"{name} is not an option; {hint_for(name, ())}")
        return function(*arguments, **keywords)

    return cast("F", checked)


def documented_fields(documented: object) -> dict[str, str]:
    """Return the entries of a docstring's "Attributes" or "Args" section, each on one line.

    An entry ends at the next entry or at an empty line.
    """
    return _entries(_section(documented))


def documented_sections() -> dict[str, dict[str, str]]:
    """Return the entries of the docstring of `Options` below each heading: "Who speaks"."""
    _, *parts = re.split(r"^    (\w+ .*):\n\n", _section(Options), flags=re.MULTILINE)
    return {heading: _entries(text) for heading, text in zip(parts[::2], parts[1::2], strict=True)}


def _section(documented: object) -> str:
    """Return the "Attributes" or "Args" section of a docstring; "" if there is none."""
    text = inspect.getdoc(documented) or ""
    section = re.search(r"^(?:Attributes|Args):\n(.*?)(?=^\S|\Z)", text, re.DOTALL | re.MULTILINE)
    return section.group(1) if section else ""


def _entries(section: str) -> dict[str, str]:
    found = re.findall(
        r"^    (\w+): (.*?)(?=^    \*{0,2}\w+: |^$|\Z)", section, re.DOTALL | re.MULTILINE
    )
    return {name: " ".join(text.split()) for name, text in found}
