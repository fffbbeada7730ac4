"""The language of each recording of a run, decided once and shared by all threads."""

import logging
import threading
from dataclasses import dataclass, field
from typing import Final

from whisperbatch.language.voting import Decision, decide, restrict_to
from whisperbatch.options import LanguageOptions
from whisperbatch.types import LanguageScores

log = logging.getLogger(__name__)

REVISED: Final = 8  # chunks heard before the first revision; each later one takes twice as many
SETTLED: Final = 64  # chunks after which nobody listens any more


class LanguageDecisions:
    """The languages of a run's recordings, decided once for all who wait.

    The batch that brings a recording's first row decides; decisions are claimed in the order of
    the batches, so that nobody waits for one that is not being made. Later ones wait for what
    earlier batches have heard, so they do not depend on how batches come to be filled.
    """

    def __init__(self, options: LanguageOptions) -> None:
        self._options = options
        given = options.language
        self._given = Decision(given, 1.0) if given else None
        self._known: dict[int, _Known] = {}
        self._changed = threading.Condition()

    def claim(self, recording: int) -> None:
        """The next batch will decide for this recording. Called in order, by one thread."""
        with self._changed:
            self._known[recording] = _Known()

    def settle(self, recording: int, decision: Decision, *, final: bool = False) -> None:
        """What the decision is; with `final`, nothing that is heard later revises it."""
        log.info("recording %d: %s (%.2f)", recording, decision.language, decision.probability)
        with self._changed:
            known = self._known.setdefault(recording, _Known())
            known.decisions[0] = decision
            known.final = final
            self._changed.notify_all()

    def add_speech(self, recording: int, language: str, heard: LanguageScores) -> None:
        """A row that is in a language of its own: the recording's is that of most speech."""
        with self._changed:
            known = self._known.setdefault(recording, _Known())
            known.seconds[language] = known.seconds.get(language, 0.0) + heard.seconds
            probable = restrict_to(heard.probabilities, self._options.languages).get(language, 0.0)
            known.probable[language] = known.probable.get(language, 0.0) + probable * heard.seconds
            most = max(known.seconds, key=lambda code: known.seconds[code])
            mean = known.probable[most] / known.seconds[most]
            known.decisions[0] = Decision(most, mean)

    def fail(self, recording: int, error: BaseException) -> None:
        """What was to be heard of the recording will not be: raise `error` in all who wait."""
        with self._changed:
            if known := self._known.get(recording):
                known.error = error
                self._changed.notify_all()

    def settled(self, recording: int) -> bool:
        """Whether nothing is to be decided for it: each row has its language, or all have."""
        known = self._known.get(recording)
        decided = self._given is not None or self._options.multilingual
        return decided or (known is not None and known.final)

    def needs_scores(self, recording: int, index: int) -> bool:
        """Whether a chunk is to be listened to."""
        return not self.settled(recording) and index < SETTLED

    def add_scores(self, recording: int, index: int, heard: LanguageScores) -> None:
        """Add the scores of a chunk that needs them, before its decision is asked for."""
        with self._changed:
            self._known[recording].heard[index] = heard
            self._changed.notify_all()

    def decision_for(self, recording: int, index: int = 0) -> Decision | None:
        """The decision for a chunk, waited for; None where the recording had no speech."""
        if self._given:
            return self._given
        with self._changed:
            known = self._known.get(recording)
            if known is None:
                return None
            needed = 0 if known.final else _needed(index)
            self._changed.wait_for(lambda: known.error or known.ready(needed))
            if not known.ready(needed):
                raise known.error or AssertionError
            if needed not in known.decisions:
                decision = decide([known.heard[n] for n in range(needed)], self._options)
                before = known.latest()
                if before and before.language != decision.language:
                    log.warning(
                        "recording %d: %s from chunk %d on; until then it was taken for %s",
                        recording,
                        decision.language,
                        needed,
                        before.language,
                    )
                known.decisions[needed] = decision
            return known.decisions[needed]

    def latest(self, recording: int) -> Decision | None:
        """The last decision that was made, if any."""
        with self._changed:
            known = self._known.get(recording)
            return self._given or (known.latest() if known else None)

    def forget(self, recording: int) -> None:
        """The recording has ended, and been told of."""
        with self._changed:
            self._known.pop(recording, None)


@dataclass(slots=True)
class _Known:
    """What is known of a recording."""

    decisions: dict[int, Decision] = field(default_factory=dict)  # by chunks that they came from
    heard: dict[int, LanguageScores] = field(default_factory=dict)  # by chunk
    seconds: dict[str, float] = field(default_factory=dict)  # of speech, by language
    probable: dict[str, float] = field(default_factory=dict)  # the same, times its probability
    error: BaseException | None = None
    final: bool = False

    def ready(self, needed: int) -> bool:
        """Whether that many chunks have been heard; for 0, whether the first decision is made."""
        if not needed:
            return 0 in self.decisions
        return needed in self.decisions or all(n in self.heard for n in range(needed))

    def latest(self) -> Decision | None:
        return self.decisions[max(self.decisions)] if self.decisions else None


def _needed(index: int) -> int:
    """How many chunks decide for this one; 0 where the first decision stands."""
    needed = 0
    boundary = REVISED
    while boundary <= min(index, SETTLED):
        needed = boundary
        boundary *= 2
    return needed
