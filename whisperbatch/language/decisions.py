"""The rules by which the scores of a recording's chunks decide its language.

A language that is given, or that language windows decided, is final. Otherwise the first `VOTERS`
chunks decide, and the decision is revised when a chunk comes before which 8, 16, 32 or 64 chunks
were scored. A decision depends on the index of the chunk only, not on how batches are filled.
"""

import logging
from collections.abc import Sequence
from typing import Final

from whisperbatch.language.voting import decide, enough_to_decide, restrict_to
from whisperbatch.options import Options
from whisperbatch.recording import Decision, RecordingState
from whisperbatch.rows import Item, Row
from whisperbatch.types import LanguageScores

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
