"""Which language a recording is in: what is heard here and there in it votes.

A recording that can be read out of order is listened to all over before it is read
(`whisperbatch.windows`), and that decides. Of any other the first chunks decide, and what is heard
later can revise it:

    chunk      0 1 2 3 4 5 6 7 | 8 9 ... 15 | 16 17 ...       31 | 32 ...
    decoded in the language of
               chunks 0 to 3   | 0 to 7     | 0 to 15            | 0 to 31
"""

import logging
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from whisperbatch.options import LanguageOptions

log = logging.getLogger(__name__)

NEAR: Final = 0.8  # of the winner's votes: with as many another language is as good
FEW: Final = 3  # places: fewer may all lie in a greeting
REVISED: Final = 8  # chunks heard before the first revision; each later one takes twice as many
SETTLED: Final = 64  # chunks after which nobody listens any more


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


@dataclass(frozen=True, slots=True)
class Heard:
    """What was heard in one place.

    Attributes:
        probabilities: of each language.
        seconds: of speech there.
    """

    probabilities: Mapping[str, float]
    seconds: float


def among(probabilities: Mapping[str, float], languages: Sequence[str]) -> dict[str, float]:
    """The probabilities of the candidates alone, summing to 1; of all languages for none.

    Candidates that the model does not know have none.
    """
    if not languages:
        return dict(probabilities)
    found = {code: probabilities.get(code, 0.0) for code in languages}
    total = sum(found.values())
    return {code: p / total if total else 1 / len(found) for code, p in found.items()}


def together(heard: Sequence[Heard]) -> Heard:
    """What is heard in several places, each counted by its speech."""
    seconds = sum(one.seconds for one in heard)
    means = {
        code: sum(one.seconds * one.probabilities[code] for one in heard) / seconds
        for code in heard[0].probabilities
    }
    return Heard(means, seconds)


def decide(heard: Sequence[Heard], options: LanguageOptions) -> Decision:
    """The language that most of the speech is in.

    Each place votes for its most probable language with its seconds of speech, if that one reaches
    `language_detection_threshold`. Where nothing does, or another language has `NEAR` as many
    votes, the mean probabilities decide, weighted by speech.

    Args:
        heard: at least one place.
        options: candidates and threshold.
    """
    heard = [
        replace(one, probabilities=among(one.probabilities, options.languages)) for one in heard
    ]
    means = together(heard).probabilities
    votes = dict.fromkeys(means, 0.0)
    for one in heard:
        best = max(one.probabilities, key=lambda code: one.probabilities[code])
        if one.probabilities[best] >= options.language_detection_threshold:
            votes[best] += one.seconds
    most = max(votes.values())
    running = [code for code, count in votes.items() if count >= NEAR * most]
    language = max(running, key=lambda code: means[code])
    return Decision(language, means[language], means)


def decides(heard: Sequence[Heard], options: LanguageOptions) -> bool:
    """Whether enough was heard to go by it to the end: a few places, one of which votes."""
    few = min(FEW, options.language_detection_segments)
    sure = (
        max(among(one.probabilities, options.languages).values())
        >= options.language_detection_threshold
        for one in heard
    )
    return len(heard) >= few and any(sure)


class Languages:
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

    def count(self, recording: int, language: str, heard: Heard) -> None:
        """A row that is in a language of its own: the recording's is that of most speech."""
        with self._changed:
            known = self._known.setdefault(recording, _Known())
            known.seconds[language] = known.seconds.get(language, 0.0) + heard.seconds
            probable = among(heard.probabilities, self._options.languages).get(language, 0.0)
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

    def listens(self, recording: int, index: int) -> bool:
        """Whether a chunk is to be listened to."""
        return not self.settled(recording) and index < SETTLED

    def hear(self, recording: int, index: int, heard: Heard) -> None:
        """What a chunk sounds like. Of each that `listens` asks for, before `of` it is asked."""
        with self._changed:
            self._known[recording].heard[index] = heard
            self._changed.notify_all()

    def of(self, recording: int, index: int = 0) -> Decision | None:
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
    heard: dict[int, Heard] = field(default_factory=dict)  # by chunk
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
