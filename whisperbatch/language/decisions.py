"""The language of a recording: language windows or rows vote, weighted by their speech.

If a recording has random access, windows spread over the recording vote before the recording is
read (`language.windows`), and their decision is final. Otherwise the first chunks vote, and the
scores of later chunks can revise the decision:

    chunk      0 1 2 3 4 5 6 7 | 8 9 ... 15 | 16 17 ...       31 | 32 ...
    voters     chunks 0 to 3   | 0 to 7     | 0 to 15            | 0 to 31

A language that is given, or that language windows decided, is final. Otherwise the first `VOTERS`
chunks decide, and the decision is revised when a chunk comes before which 8, 16, 32 or 64 chunks
were scored. A decision depends on the index of the chunk only, not on how batches are filled.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from whisperbatch.options import Options
from whisperbatch.recording import Decision, Item, RecordingState, Row
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


log = logging.getLogger(__name__)

VOTERS: Final = 4  # first chunks of a recording, which make the first decision
FIRST_REVISION: Final = 8  # chunks scored before the first revision; doubles for each later one
LAST_REVISION: Final = 64  # chunks scored before the last revision; later chunks are not scored


def needs_scores(item: Item, options: Options) -> bool:
    """Return whether an item is a row whose language scores the language stage needs."""
    if not isinstance(item, Row):
        return False
    if options.multilingual:
        return True
    return not item.recording.language.final and item.chunk.index < LAST_REVISION


def decide_from_windows(
    recording: RecordingState, scores: Sequence[LanguageScores], options: Options
) -> None:
    """Make the final decision for a recording, if the scores of its language windows suffice."""
    if enough_to_decide(scores, options):
        _first_decision(recording, scores, options)
        recording.language.final = True


def decision_for(recording: RecordingState, index: int, options: Options) -> Decision:
    """Return the decision for a chunk, and make the decision if the chunk is the first to need it.

    The chunks of a recording come in order.

    Args:
        recording: state of the chunk's recording, with the scores of all chunks before this chunk
            that need scores. For the first chunk, the state has the scores of all voters.
        index: index of the chunk.
        options: the candidate languages and the threshold.
    """
    language = recording.language
    decision = language.decision
    if decision is None:
        scores = [language.scores[n] for n in range(VOTERS) if n in language.scores]
        decision = _first_decision(recording, scores, options)
    voters = 0 if language.final else _revision_voters(index)
    if voters > language.voters:
        decision = _revision(recording, decision, voters, options)
    return decision


def add_speech(
    recording: RecordingState, language: str, scores: LanguageScores, options: Options
) -> Decision:
    """Add the speech of a row that has its own language; return the new decision.

    The language of the recording is the language of most of its speech so far.

    Args:
        recording: state of the row's recording.
        language: language of the row.
        scores: scores of the row.
        options: the candidate languages.
    """
    switching = recording.switching
    seconds, weighted = switching.seconds, switching.weighted_seconds
    probability = restrict_to(scores.probabilities, options.languages).get(language, 0.0)
    seconds[language] = seconds.get(language, 0.0) + scores.seconds
    weighted[language] = weighted.get(language, 0.0) + probability * scores.seconds
    best = max(seconds, key=lambda code: seconds[code])
    decision = recording.language.decision = Decision(best, weighted[best] / seconds[best])
    return decision


def _first_decision(
    recording: RecordingState, scores: Sequence[LanguageScores], options: Options
) -> Decision:
    decision = recording.language.decision = decide(scores, options)
    log.info("recording %d: %s (%.2f)", recording.number, decision.language, decision.probability)
    return decision


def _revision(
    recording: RecordingState, previous: Decision, voters: int, options: Options
) -> Decision:
    """Decide again, from the first `voters` chunks."""
    language = recording.language
    decision = decide([language.scores[n] for n in range(voters)], options)
    if decision.language != previous.language:
        log.warning(
            "recording %d: language %s from chunk %d on; %s before",
            recording.number,
            decision.language,
            voters,
            previous.language,
        )
    language.decision, language.voters = decision, voters
    return decision


def _revision_voters(index: int) -> int:
    """Return the number of first chunks that decide for chunk `index`; 0 for the first decision."""
    voters = 0
    boundary = FIRST_REVISION
    while boundary <= min(index, LAST_REVISION):
        voters = boundary
        boundary *= 2
    return voters
