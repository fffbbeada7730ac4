"""The language of a recording: language windows or rows vote, weighted by their speech.

If a recording has random access, windows spread over the recording vote before the recording is
read (`whisperbatch.language.windows`), and their decision is final. Otherwise the first chunks
vote, and the scores of later chunks can revise the decision (`whisperbatch.language.decisions`):

    chunk      0 1 2 3 4 5 6 7 | 8 9 ... 15 | 16 17 ...       31 | 32 ...
    voters     chunks 0 to 3   | 0 to 7     | 0 to 15            | 0 to 31
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from whisperbatch.options import Options
from whisperbatch.recording import Decision
from whisperbatch.types import LanguageScores

NEAR_TIE: Final = 0.8  # fraction of the most votes from which a language competes with the winner
MIN_WINDOWS: Final = 3  # windows for a final decision: fewer may all lie in a greeting


def restrict_to(probabilities: Mapping[str, float], languages: Sequence[str]) -> dict[str, float]:
    """Return the probabilities of the candidate languages, scaled to sum to 1.

    Args:
        probabilities: probability of each language.
        languages: codes of the candidates; empty for all languages. Candidates that the model does
            not know have probability 0.
    """
    if not languages:
        return dict(probabilities)
    candidates = {code: probabilities.get(code, 0.0) for code in languages}
    total = sum(candidates.values())
    return {code: p / total if total else 1 / len(candidates) for code, p in candidates.items()}


def restricted(scores: LanguageScores, languages: Sequence[str]) -> LanguageScores:
    """Return the scores of the candidate languages (see `restrict_to`)."""
    return replace(scores, probabilities=restrict_to(scores.probabilities, languages))


def mean_scores(scores: Sequence[LanguageScores]) -> LanguageScores:
    """Return the mean of several scores, weighted by seconds of speech, with the total seconds."""
    seconds = sum(score.seconds for score in scores)
    means = {
        code: sum(score.seconds * score.probabilities[code] for score in scores) / seconds
        for code in scores[0].probabilities
    }
    return LanguageScores(means, seconds)


def decide(scores: Sequence[LanguageScores], options: Options) -> Decision:
    """Return the language of most of the speech.

    Each voter gives its seconds of speech to its most probable language, if the probability of that
    language reaches `language_detection_threshold`. Languages with at least `NEAR_TIE` of the most
    votes compete; the competitor with the highest mean probability wins. If no voter reaches the
    threshold, all languages compete.

    Args:
        scores: scores of each voter, at least one.
        options: the candidate languages and the threshold.
    """
    scores = [restricted(score, options.languages) for score in scores]
    means = mean_scores(scores).probabilities
    votes = dict.fromkeys(means, 0.0)
    for score in scores:
        best = max(score.probabilities, key=lambda code: score.probabilities[code])
        if score.probabilities[best] >= options.language_detection_threshold:
            votes[best] += score.seconds
    max_votes = max(votes.values())
    competitors = [code for code, seconds in votes.items() if seconds >= NEAR_TIE * max_votes]
    language = max(competitors, key=lambda code: means[code])
    return Decision(language, means[language], means)


def enough_to_decide(scores: Sequence[LanguageScores], options: Options) -> bool:
    """Whether the scores suffice for a final decision.

    There must be `MIN_WINDOWS` windows (or `language_detection_segments`, if smaller), and at least
    one of them must reach the threshold and vote.
    """
    min_windows = min(MIN_WINDOWS, options.language_detection_segments)
    votes = (
        max(restrict_to(score.probabilities, options.languages).values())
        >= options.language_detection_threshold
        for score in scores
    )
    return len(scores) >= min_windows and any(votes)
