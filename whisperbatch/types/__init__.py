"""The values that pass between the stages and to the user: frozen, slotted, compared by value.

Inside the pipeline, time is an integer: samples at 16 kHz from the start of the recording. Values
that users see (`Word`, `Segment`, `Omission`, `Notice`,
`Transcript`, `Turn`, `LanguageWindow`) use seconds.
"""

from whisperbatch.types.audio import (
    HOP,
    WINDOW,
    WINDOW_FRAMES,
    Audio,
    Chunk,
    DeferredSource,
    Features,
    Samples,
    Source,
    SpanSource,
    SpeechFrames,
    SpeechSpan,
    speech_seconds,
)
from whisperbatch.types.language import LanguageDetection, LanguageScores, LanguageWindow
from whisperbatch.types.notices import (
    SILENT,
    Notice,
    NoticeKind,
    Notices,
    concerns_empty_only,
    merged,
)
from whisperbatch.types.sections import (
    CHUNK_RULES,
    SEARCH,
    SECTION,
    WARM_UP,
    WHOLE,
    SectionSound,
    Span,
    first_section,
)
from whisperbatch.types.serialization import check_fields, from_values, to_values
from whisperbatch.types.time import MAX_DURATION, SAMPLING_RATE, to_samples, to_seconds
from whisperbatch.types.transcript import (
    Diarization,
    Omission,
    Reason,
    Segment,
    Transcript,
    Turn,
    Word,
    unnamed_speaker,
)

__all__ = [
    "CHUNK_RULES",
    "HOP",
    "MAX_DURATION",
    "SAMPLING_RATE",
    "SEARCH",
    "SECTION",
    "SILENT",
    "WARM_UP",
    "WHOLE",
    "WINDOW",
    "WINDOW_FRAMES",
    "Audio",
    "Chunk",
    "DeferredSource",
    "Diarization",
    "Features",
    "LanguageDetection",
    "LanguageScores",
    "LanguageWindow",
    "Notice",
    "NoticeKind",
    "Notices",
    "Omission",
    "Reason",
    "Samples",
    "SectionSound",
    "Segment",
    "Source",
    "Span",
    "SpanSource",
    "SpeechFrames",
    "SpeechSpan",
    "Transcript",
    "Turn",
    "Word",
    "check_fields",
    "concerns_empty_only",
    "first_section",
    "from_values",
    "merged",
    "speech_seconds",
    "to_samples",
    "to_seconds",
    "to_values",
    "unnamed_speaker",
]
