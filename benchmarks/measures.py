"""Measurements of a transcript against its truth, as values that add up."""

from dataclasses import dataclass, replace
from math import isfinite
from statistics import median

from typing_extensions import Self

from benchmarks import scoring
from benchmarks.manifest import Entry
from benchmarks.recordings import gaps
from benchmarks.scoring import Score
from benchmarks.systems import SystemTranscript

MAX_START_ERROR = 0.5  # seconds; a segment start within this error counts as right


@dataclass(frozen=True, slots=True)
class Accuracy:
    """The measurements of a recording; the sum of several objects is about all their recordings.

    Attributes:
        words: word errors.
        characters: character errors.
        seconds: duration of the audio.
        took: seconds that the transcription took.
        silence: seconds outside all utterances; 0 if the utterances are unknown.
        speech: seconds of utterances; 0 if the utterances are unknown.
        made_up: number of words recognized in silence.
        missed: seconds of utterances without a recognized word.
        uncovered: seconds of utterances that are more than 0.5 s from every word.
        starts: errors of segment starts in seconds; see `scoring.start_errors`.
    """

    words: Score
    characters: Score
    seconds: float
    took: float
    silence: float = 0.0
    speech: float = 0.0
    made_up: int = 0
    missed: float = 0.0
    uncovered: float = 0.0
    starts: tuple[float, ...] = ()

    def __add__(self, other: Self) -> Self:
        values = {name: getattr(self, name) + getattr(other, name) for name in self.__slots__}
        return replace(self, **values)

    def figures(self) -> dict[str, float | None]:
        """Return all figures by name; None for figures that need unknown utterances."""
        return {
            "wer": 100 * self.words.rate,
            "cer": 100 * self.characters.rate,
            "words": self.words.words,
            "substitutions": self.words.substitutions,
            "deletions": self.words.deletions,
            "insertions": self.words.insertions,
            "made_up_words": self.made_up if self.silence else None,
            "made_up_per_minute": 60 * self.made_up / self.silence if self.silence else None,
            "silence_seconds": self.silence,
            "missed_seconds": self.missed if self.speech else None,
            "uncovered_seconds": self.uncovered if self.speech else None,
            "speech_seconds": self.speech,
            "start_error_median": _finite(median(self.starts)) if self.starts else None,
            "starts_within_half_a_second": (
                100 * sum(error <= MAX_START_ERROR for error in self.starts) / len(self.starts)
                if self.starts
                else None
            ),
            "seconds": self.seconds,
            "took": self.took,
            "speed": self.seconds / self.took,
        }


def _finite(value: float) -> float | None:
    return value if isfinite(value) else None


def measure(entry: Entry, transcript: SystemTranscript, seconds: float, took: float) -> Accuracy:
    """Compare a transcript with the truth of its recording."""
    language = entry.language
    accuracy = Accuracy(
        scoring.word_error_rate(entry.text, transcript.text, language),
        scoring.character_error_rate(entry.text, transcript.text, language),
        seconds,
        took,
    )
    if (utterances := entry.utterances) is None:
        return accuracy
    silence = sum(end - start for start, end in gaps(utterances, seconds))
    return replace(
        accuracy,
        silence=silence,
        speech=seconds - silence,
        made_up=scoring.made_up(utterances, transcript.words, seconds, language),
        missed=sum(u.end - u.start for u in scoring.missed(utterances, transcript.text, language)),
        uncovered=scoring.uncovered(utterances, transcript.words, language),
        starts=tuple(scoring.start_errors(utterances, transcript.starts)),
    )
