"""The language of a recording as a result for users: `LanguageDetection`."""

from collections.abc import Sequence
from typing import Final

from whisperbatch.language.voting import decide, restrict_to
from whisperbatch.options import Options
from whisperbatch.types import (
    Chunk,
    LanguageDetection,
    LanguageScores,
    LanguageWindow,
    to_seconds,
)

NO_SPEECH: Final = LanguageDetection(None, 0.0, {}, reason="the recording has no speech")
"""The result for a recording without speech."""

UNREADABLE: Final = LanguageDetection(
    None, 0.0, {}, reason="detection needs the whole recording, but read_through is False"
)
"""The result for an open reader, if only reading the whole recording could detect the language."""


def english_only(model: str) -> LanguageDetection:
    """Return the result of an English-only model, which cannot detect languages."""
    return LanguageDetection("en", 1.0, {"en": 1.0}, reason=f"model {model} is English-only")


def detection(
    windows: Sequence[Chunk], scores: Sequence[LanguageScores], options: Options
) -> LanguageDetection:
    """Return the language that the windows vote for, with the result of each window.

    Args:
        windows: at least one, in the order of the recording.
        scores: scores of each window.
        options: the candidate languages and the threshold.
    """
    decision = decide(scores, options)
    results = []
    for window, window_scores in zip(windows, scores, strict=True):
        probabilities = restrict_to(window_scores.probabilities, options.languages)
        best = max(probabilities, key=lambda code: probabilities[code])
        start, end = to_seconds(window.start), to_seconds(window.end)
        results.append(LanguageWindow(start, end, best, probabilities[best]))
    ranked = sorted(decision.probabilities.items(), key=lambda item: -item[1])
    return LanguageDetection(
        decision.language, decision.probability, dict(ranked), windows=tuple(results)
    )
