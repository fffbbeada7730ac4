"""Which language a recording is in: what is heard here and there in it votes.

A recording that can be read out of order is listened to all over before it is read
(`whisperbatch.windows`), and that decides. Of any other the first chunks decide, and what is heard
later can revise it:

    chunk      0 1 2 3 4 5 6 7 | 8 9 ... 15 | 16 17 ...       31 | 32 ...
    decoded in the language of
               chunks 0 to 3   | 0 to 7     | 0 to 15            | 0 to 31
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from whisperbatch.options import LanguageOptions
from whisperbatch.types import LanguageScores

NEAR: Final = 0.8  # of the winner's votes: with as many another language is as good
FEW: Final = 3  # places: fewer may all lie in a greeting


@dataclass(frozen=True, slots=True)
class Decision:
    """The language of a recording.

    Attributes:
        language: Whisper's code.
        probability: from 0 to 1; 1 where the language was given.
        probabilities: mean probability of each language over all that was heard.
    """

    language: str
    probability: float
    probabilities: Mapping[str, float] = field(default_factory=dict, compare=False)


def restrict_to(probabilities: Mapping[str, float], languages: Sequence[str]) -> dict[str, float]:
    """The probabilities of the candidates alone, summing to 1; of all languages for none.

    Candidates that the model does not know have none.
    """
    if not languages:
        return dict(probabilities)
    found = {code: probabilities.get(code, 0.0) for code in languages}
    total = sum(found.values())
    return {code: p / total if total else 1 / len(found) for code, p in found.items()}


def mean_scores(heard: Sequence[LanguageScores]) -> LanguageScores:
    """What is heard in several places, each counted by its speech."""
    seconds = sum(one.seconds for one in heard)
    means = {
        code: sum(one.seconds * one.probabilities[code] for one in heard) / seconds
        for code in heard[0].probabilities
    }
    return LanguageScores(means, seconds)


def decide(heard: Sequence[LanguageScores], options: LanguageOptions) -> Decision:
    """The language that most of the speech is in.

    Each place votes for its most probable language with its seconds of speech, if that one reaches
    `language_detection_threshold`. Where nothing does, or another language has `NEAR` as many
    votes, the mean probabilities decide, weighted by speech.

    Args:
        heard: at least one place.
        options: candidates and threshold.
    """
    heard = [
        replace(one, probabilities=restrict_to(one.probabilities, options.languages))
        for one in heard
    ]
    means = mean_scores(heard).probabilities
    votes = dict.fromkeys(means, 0.0)
    for one in heard:
        best = max(one.probabilities, key=lambda code: one.probabilities[code])
        if one.probabilities[best] >= options.language_detection_threshold:
            votes[best] += one.seconds
    most = max(votes.values())
    running = [code for code, count in votes.items() if count >= NEAR * most]
    language = max(running, key=lambda code: means[code])
    return Decision(language, means[language], means)


def enough_to_decide(heard: Sequence[LanguageScores], options: LanguageOptions) -> bool:
    """Whether enough was heard to go by it to the end: a few places, one of which votes."""
    few = min(FEW, options.language_detection_segments)
    sure = (
        max(restrict_to(one.probabilities, options.languages).values())
        >= options.language_detection_threshold
        for one in heard
    )
    return len(heard) >= few and any(sure)
