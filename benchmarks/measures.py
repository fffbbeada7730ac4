"""All that is measured of a transcript whose truth is known, as values that add up."""

from dataclasses import dataclass, replace
from math import isfinite
from statistics import median
from typing import Self

from benchmarks import scoring
from benchmarks.manifest import Entry
from benchmarks.recordings import gaps
from benchmarks.scoring import Score
from benchmarks.systems import Heard

NEAR = 0.5  # seconds


@dataclass(frozen=True, slots=True)
class Accuracy:
    """What was measured of one recording, or of several: these add up.

    Attributes:
        words: word errors.
        characters: character errors.
        seconds: of audio.
        took: seconds to transcribe it.
        silence: seconds outside all utterances, where they are known.
        speech: seconds of utterances, where they are known.
        made_up: words in the silence.
        missed: seconds of utterances with no word found.
        starts: see `scoring.start_errors`.
    """

    words: Score
    characters: Score
    seconds: float
    took: float
    silence: float = 0.0
    speech: float = 0.0
    made_up: int = 0
    missed: float = 0.0
    starts: tuple[float, ...] = ()

    def __add__(self, other: Self) -> Self:
        values = {name: getattr(self, name) + getattr(other, name) for name in self.__slots__}
        return replace(self, **values)

    def figures(self) -> dict[str, float | None]:
        """All figures by name; None for what is not known."""
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
            "speech_seconds": self.speech,
            "start_error_median": _finite(median(self.starts)) if self.starts else None,
            "starts_within_half_a_second": (
                100 * sum(error <= NEAR for error in self.starts) / len(self.starts)
                if self.starts
                else None
            ),
            "seconds": self.seconds,
            "took": self.took,
            "speed": self.seconds / self.took,
        }


def _finite(value: float) -> float | None:
    return value if isfinite(value) else None


def measure(entry: Entry, heard: Heard, seconds: float, took: float) -> Accuracy:
    """Compare what was heard with what is known of a recording."""
    language = entry.language
    accuracy = Accuracy(
        scoring.word_error_rate(entry.text, heard.text, language),
        scoring.character_error_rate(entry.text, heard.text, language),
        seconds,
        took,
    )
    if (spoken := entry.utterances) is None:
        return accuracy
    silence = sum(end - start for start, end in gaps(spoken, seconds))
    return replace(
        accuracy,
        silence=silence,
        speech=seconds - silence,
        made_up=scoring.made_up(spoken, heard.words, seconds, language),
        missed=sum(u.end - u.start for u in scoring.missed(spoken, heard.text, language)),
        starts=tuple(scoring.start_errors(spoken, heard.starts)),
    )
