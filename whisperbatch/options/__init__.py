"""All options: each is declared, documented and checked in one place, its field in `Options`.

options.py     the options in sections, in the order of the stages that read them
values.py      known speakers and diarizers; all values as text, on a command line or in a form
checks.py      checks that several options share
keywords.py    options as keyword arguments: types, signatures
hints.py       names from other programs, and what to use here
"""

from whisperbatch.errors import spell_in_python, spell_options
from whisperbatch.options import checks
from whisperbatch.options.checks import convert_fields, is_number, is_same, plain
from whisperbatch.options.hints import (
    OTHER_FORMATS,
    SHORT_FLAGS,
    device_hint,
    explaining,
    hint_for,
    in_python,
    same_option,
)
from whisperbatch.options.keywords import (
    DETECTION_OPTIONS,
    DETECTION_PARAMETERS,
    OPTION_NAMES,
    OPTION_PARAMETERS,
    DetectionKeywords,
    OptionKeywords,
    documented_fields,
    documented_sections,
    for_detection,
    resolve,
    with_parameters,
)
from whisperbatch.options.options import (
    DEFAULT_BATCH_SIZE,
    LANGUAGE_DETECTION_OPTIONS,
    MAX_CONTEXT_LENGTH,
    MAX_NEW_TOKENS,
    MAX_SAMPLING_RATE,
    MAX_SPEAKERS,
    MAX_TEMPERATURE,
    MIN_SAMPLING_RATE,
    NO_SPEAKERS,
    PROMPT_RESET_TEMPERATURE,
    Channel,
    CodeSwitchingOutput,
    FeatureKind,
    Options,
    SearchOptions,
    SpeakerKind,
    Task,
    Timestamps,
)
from whisperbatch.options.values import (
    TRUTH_VALUES,
    DiarizerChoice,
    KnownSpeakers,
    accepts_none,
    as_text,
    metavar_of,
    parse_text,
    without_none,
)

__all__ = [
    "DEFAULT_BATCH_SIZE",
    "DETECTION_OPTIONS",
    "DETECTION_PARAMETERS",
    "LANGUAGE_DETECTION_OPTIONS",
    "MAX_CONTEXT_LENGTH",
    "MAX_NEW_TOKENS",
    "MAX_SAMPLING_RATE",
    "MAX_SPEAKERS",
    "MAX_TEMPERATURE",
    "MIN_SAMPLING_RATE",
    "NO_SPEAKERS",
    "OPTION_NAMES",
    "OPTION_PARAMETERS",
    "OTHER_FORMATS",
    "PROMPT_RESET_TEMPERATURE",
    "SHORT_FLAGS",
    "TRUTH_VALUES",
    "Channel",
    "CodeSwitchingOutput",
    "DetectionKeywords",
    "DiarizerChoice",
    "FeatureKind",
    "KnownSpeakers",
    "OptionKeywords",
    "Options",
    "SearchOptions",
    "SpeakerKind",
    "Task",
    "Timestamps",
    "accepts_none",
    "as_text",
    "checks",
    "convert_fields",
    "device_hint",
    "documented_fields",
    "documented_sections",
    "explaining",
    "for_detection",
    "hint_for",
    "in_python",
    "is_number",
    "is_same",
    "metavar_of",
    "parse_text",
    "plain",
    "resolve",
    "same_option",
    "spell_in_python",
    "spell_options",
    "with_parameters",
    "without_none",
]
