"""The detected language of a recording. Time is in seconds."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LanguageWindow:
    """A stretch of the recording that was used to detect its language.

    Attributes:
        start: start of the first speech in the window, in seconds.
        end: end of the last speech in the window, in seconds.
        language: the most probable language of the window.
        probability: probability of `language`.
    """

    start: float
    end: float
    language: str
    probability: float


@dataclass(frozen=True, slots=True)
class LanguageScores:
    """The probability of each language in one window or row.

    Attributes:
        probabilities: probability of each language.
        seconds: seconds of speech that the probabilities come from.
    """

    probabilities: Mapping[str, float]
    seconds: float


@dataclass(frozen=True, slots=True)
class LanguageDetection:
    """The detected language of a recording.

    Attributes:
        language: Whisper's code; None if the recording has no speech.
        probability: mean over the windows, weighted by seconds of speech; 0.0 if there is none.
        probabilities: mean probability of each language, the most probable first.
        windows: the windows that were used, in order.
        reason: why no window was used, or empty.
    """

    language: str | None
    probability: float
    probabilities: Mapping[str, float]
    windows: tuple[LanguageWindow, ...] = ()
    reason: str = ""
