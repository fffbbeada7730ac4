"""The language decisions of a run: made once for each recording, and shared by all threads."""

import logging
import threading
from dataclasses import dataclass, field
from typing import Final

from whisperbatch.language.voting import Decision, decide, restrict_to
from whisperbatch.options import LanguageOptions
from whisperbatch.types import LanguageScores

log = logging.getLogger(__name__)

FIRST_REVISION: Final = 8  # chunks scored before the first revision; doubles for each later one
LAST_REVISION: Final = 64  # chunks scored before the last revision; later chunks are not scored


class LanguageDecisions:
    """The languages of a run's recordings, for threads that decode batches at the same time.

    The batch with the first row of a recording decides its language. `expect_decision` is called in
    the order of the batches, so that a thread only waits for a decision that another thread is
    making. The revision for a chunk waits for the scores of all chunks that it is made from, and
    therefore does not depend on how batches are filled.

    Args:
        options: the given language, or the candidates and the threshold.
    """

    def __init__(self, options: LanguageOptions) -> None:
        self._options = options
        self._given = Decision(options.language, 1.0) if options.language else None
        self._recordings: dict[int, _RecordingState] = {}
        self._changed = threading.Condition()

    def expect_decision(self, recording: int) -> None:
        """Register that the next batch decides for this recording.

        Called in the order of the batches, by one thread.
        """
        with self._changed:
            self._recordings[recording] = _RecordingState()

    def set_decision(self, recording: int, decision: Decision, *, final: bool = False) -> None:
        """Set the first decision for a recording; with `final`, later scores do not revise it."""
        log.info("recording %d: %s (%.2f)", recording, decision.language, decision.probability)
        with self._changed:
            state = self._recordings.setdefault(recording, _RecordingState())
            state.decisions[0] = decision
            state.final = final
            self._changed.notify_all()

    def add_speech(self, recording: int, language: str, scores: LanguageScores) -> None:
        """Add a row with its own language; the recording's language is that of most speech.

        Args:
            recording: number of the recording.
            language: language of the row.
            scores: scores of the row.
        """
        with self._changed:
            state = self._recordings.setdefault(recording, _RecordingState())
            state.seconds[language] = state.seconds.get(language, 0.0) + scores.seconds
            probability = restrict_to(scores.probabilities, self._options.languages).get(
                language, 0.0
            )
            state.weighted_seconds[language] = (
                state.weighted_seconds.get(language, 0.0) + probability * scores.seconds
            )
            best = max(state.seconds, key=lambda code: state.seconds[code])
            mean = state.weighted_seconds[best] / state.seconds[best]
            state.decisions[0] = Decision(best, mean)

    def fail(self, recording: int, error: BaseException) -> None:
        """Raise `error` in all threads that wait for scores of this recording, now or later."""
        with self._changed:
            if state := self._recordings.get(recording):
                state.error = error
                self._changed.notify_all()

    def is_final(self, recording: int) -> bool:
        """Whether the language needs no scores: given, one for each row, or decided finally."""
        state = self._recordings.get(recording)
        needs_no_decision = self._given is not None or self._options.multilingual
        return needs_no_decision or (state is not None and state.final)

    def needs_scores(self, recording: int, index: int) -> bool:
        """Whether chunk `index` must be scored, because a revision uses its scores."""
        return not self.is_final(recording) and index < LAST_REVISION

    def add_scores(self, recording: int, index: int, scores: LanguageScores) -> None:
        """Add the scores of a chunk that needs scores. Call before `decision_for` of the chunk."""
        with self._changed:
            self._recordings[recording].scores[index] = scores
            self._changed.notify_all()

    def decision_for(self, recording: int, index: int = 0) -> Decision | None:
        """Return the decision for a chunk; wait until it can be made.

        Returns:
            None if the recording has no speech.

        Raises:
            BaseException: the error that was passed to `fail`.
        """
        if self._given:
            return self._given
        with self._changed:
            state = self._recordings.get(recording)
            if state is None:
                return None
            count = 0 if state.final else _voter_count(index)
            self._changed.wait_for(lambda: state.error or state.ready(count))
            if not state.ready(count):
                raise state.error or AssertionError
            if count not in state.decisions:
                decision = decide([state.scores[n] for n in range(count)], self._options)
                previous = state.latest()
                if previous and previous.language != decision.language:
                    log.warning(
                        "recording %d: language %s from chunk %d on; %s before",
                        recording,
                        decision.language,
                        count,
                        previous.language,
                    )
                state.decisions[count] = decision
            return state.decisions[count]

    def latest(self, recording: int) -> Decision | None:
        """Return the last decision for a recording, if there is any."""
        with self._changed:
            state = self._recordings.get(recording)
            return self._given or (state.latest() if state else None)

    def forget(self, recording: int) -> None:
        """Delete the decisions of a recording that has ended."""
        with self._changed:
            self._recordings.pop(recording, None)


@dataclass(slots=True)
class _RecordingState:
    """The decisions for one recording, and the scores that they are made from.

    Attributes:
        decisions: the decision made from the first n chunks, by n; 0 for the first decision.
        scores: scores of each chunk, by index.
        seconds: seconds of speech of each language (code-switching).
        weighted_seconds: seconds of speech times the probability of the language.
        error: the failure that was passed to `fail`.
        final: whether the first decision is never revised.
    """

    decisions: dict[int, Decision] = field(default_factory=dict)
    scores: dict[int, LanguageScores] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    weighted_seconds: dict[str, float] = field(default_factory=dict)
    error: BaseException | None = None
    final: bool = False

    def ready(self, count: int) -> bool:
        """Whether the decision from the first `count` chunks exists or can be made.

        A count of 0 means the first decision.
        """
        if not count:
            return 0 in self.decisions
        return count in self.decisions or all(n in self.scores for n in range(count))

    def latest(self) -> Decision | None:
        return self.decisions[max(self.decisions)] if self.decisions else None


def _voter_count(index: int) -> int:
    """Return the number of first chunks that decide for chunk `index`; 0 for the first decision."""
    count = 0
    boundary = FIRST_REVISION
    while boundary <= min(index, LAST_REVISION):
        count = boundary
        boundary *= 2
    return count
