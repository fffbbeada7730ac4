"""All options: each is declared, documented and checked in one place.

The declaration of an option is a field of its group: name, type, default, an entry under
"Attributes" and a check. `make declarations` writes the texts that repeat a part of it: the types
of keywords (keyword_types.py), the docstring of `Options` and the tables in docs/reference/.

Options are grouped by the stage that reads them. `Options` inherits the fields of all groups, so a
stage can declare its group as the type of a parameter and accept an `Options` value:

    Options ── AudioOptions     audio/                 track, channel, time ranges
            ├─ VadOptions       vad/, chunking/        how speech is found
            ├─ ChunkOptions     chunking/              how speech is joined to chunks
            ├─ FeatureOptions   features/              the input of the encoder
            ├─ LanguageOptions  language/              how the language is decided
            ├─ SearchOptions    engines/               how the tokens of a row are searched
            ├─ DecodeOptions    decoding/              how text is chosen, checked and timed
            └─ SpeakerOptions   diarization/           who speaks

The groups are dataclasses without slots: Python cannot inherit from several classes with slots.
"""

from whisperbatch.options import checks
from whisperbatch.options.decoding import (
    DEFAULT_BATCH_SIZE,
    MAX_TEMPERATURE,
    PROMPT_RESET_TEMPERATURE,
    DecodeOptions,
    Task,
    Timestamps,
)
from whisperbatch.options.groups import (
    DETECTION_OPTIONS,
    LANGUAGE_DETECTION_OPTIONS,
    MAX_SAMPLING_RATE,
    MIN_SAMPLING_RATE,
    AudioOptions,
    Channel,
    ChunkOptions,
    CodeSwitchingOutput,
    FeatureKind,
    FeatureOptions,
    LanguageOptions,
    VadOptions,
)
from whisperbatch.options.hints import hint_for
from whisperbatch.options.keyword_types import DetectionKeywords, OptionKeywords
from whisperbatch.options.keywords import for_detection, resolve
from whisperbatch.options.known_speakers import KnownSpeakers
from whisperbatch.options.options import Options
from whisperbatch.options.search import MAX_NEW_TOKENS, SearchOptions
from whisperbatch.options.signatures import (
    DETECTION_PARAMETERS,
    OPTION_PARAMETERS,
    documented_fields,
    with_parameters,
)
from whisperbatch.options.speakers import (
    MAX_SPEAKERS,
    DiarizerChoice,
    SpeakerKind,
    SpeakerOptions,
)
from whisperbatch.options.texts import (
    PARSERS,
    TRUTH_VALUES,
    accepts_none,
    metavar_of,
    parse_text,
    without_none,
)
from whisperbatch.options.values import convert_fields, is_number, is_same, plain

__all__ = [
    "DEFAULT_BATCH_SIZE",
    "DETECTION_OPTIONS",
    "DETECTION_PARAMETERS",
    "LANGUAGE_DETECTION_OPTIONS",
    "MAX_NEW_TOKENS",
    "MAX_SAMPLING_RATE",
    "MAX_SPEAKERS",
    "MAX_TEMPERATURE",
    "MIN_SAMPLING_RATE",
    "OPTION_PARAMETERS",
    "PARSERS",
    "PROMPT_RESET_TEMPERATURE",
    "TRUTH_VALUES",
    "AudioOptions",
    "Channel",
    "ChunkOptions",
    "CodeSwitchingOutput",
    "DecodeOptions",
    "DetectionKeywords",
    "DiarizerChoice",
    "FeatureKind",
    "FeatureOptions",
    "KnownSpeakers",
    "LanguageOptions",
    "OptionKeywords",
    "Options",
    "SearchOptions",
    "SpeakerKind",
    "SpeakerOptions",
    "Task",
    "Timestamps",
    "VadOptions",
    "accepts_none",
    "checks",
    "convert_fields",
    "documented_fields",
    "for_detection",
    "hint_for",
    "is_number",
    "is_same",
    "metavar_of",
    "parse_text",
    "plain",
    "resolve",
    "with_parameters",
    "without_none",
]
