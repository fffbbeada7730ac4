"""The values that pass between the stages and to the user: frozen, slotted, compared by value.

Inside the pipeline, time is an integer: samples at 16 kHz from the start of the recording. Values
that users see (`Word`, `Segment`, `Omission`, `Transcript`, `Turn`, `LanguageWindow`) use seconds.
"""

from whisperbatch.types.audio import (
    HOP,
    SAMPLING_RATE,
    WINDOW,
    WINDOW_FRAMES,
    Audio,
    Chunk,
    Features,
    Samples,
    Source,
    SpeechFrames,
    SpeechSpan,
    speech_seconds,
    to_samples,
    to_seconds,
)
from whisperbatch.types.language import LanguageDetection, LanguageScores, LanguageWindow
from whisperbatch.types.speakers import Diarization, Turn
from whisperbatch.types.text import Omission, Reason, Segment, Transcript, Word

__all__ = [
    "HOP",
    "SAMPLING_RATE",
    "WINDOW",
    "WINDOW_FRAMES",
    "Audio",
    "Chunk",
    "Diarization",
    "Features",
    "LanguageDetection",
    "LanguageScores",
    "LanguageWindow",
    "Omission",
    "Reason",
    "Samples",
    "Segment",
    "Source",
    "SpeechFrames",
    "SpeechSpan",
    "Transcript",
    "Turn",
    "Word",
    "speech_seconds",
    "to_samples",
    "to_seconds",
]
