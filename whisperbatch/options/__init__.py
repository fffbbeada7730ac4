"""Every option, declared once and checked once.

Options are grouped by the stage that reads them. `Options` has the fields of all groups, so a stage
declares its own group as its parameter and accepts an `Options`:

    Options ── AudioOptions     audio/                 track, channel, time ranges
            ├─ VadOptions       vad/, chunking/        where speech starts and ends
            ├─ ChunkOptions     chunking/              how speech becomes rows of at most 30 s
            ├─ FeatureOptions   features/              the input of the encoder
            ├─ LanguageOptions  language/              which languages are spoken, and where
            └─ DecodeOptions    decoding/, engines/    how text is searched, checked and timed

The groups have no slots, because Python cannot combine several slotted bases.
"""

from whisperbatch.options.decoding import (
    MOST_TOKENS,
    PROMPT_RESET_TEMPERATURE,
    DecodeOptions,
    Task,
    Timestamps,
)
from whisperbatch.options.groups import (
    DETECTION,
    AudioOptions,
    Channel,
    ChunkOptions,
    CodeSwitchingOutput,
    FeatureKind,
    FeatureOptions,
    LanguageOptions,
    VadOptions,
)
from whisperbatch.options.keywords import (
    DetectionKeywords,
    OptionKeywords,
    for_detection,
    resolve,
)
from whisperbatch.options.options import Options
from whisperbatch.options.signatures import DETECTION_PARAMETERS, OPTION_PARAMETERS, shows

__all__ = [
    "DETECTION",
    "DETECTION_PARAMETERS",
    "MOST_TOKENS",
    "OPTION_PARAMETERS",
    "PROMPT_RESET_TEMPERATURE",
    "AudioOptions",
    "Channel",
    "ChunkOptions",
    "CodeSwitchingOutput",
    "DecodeOptions",
    "DetectionKeywords",
    "FeatureKind",
    "FeatureOptions",
    "LanguageOptions",
    "OptionKeywords",
    "Options",
    "Task",
    "Timestamps",
    "VadOptions",
    "for_detection",
    "resolve",
    "shows",
]
