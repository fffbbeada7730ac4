"""Which language a recording is in: its first chunks decide, together."""

import logging
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Decision:
    """The language of a recording.

    Attributes:
        language: Whisper's code.
        probability: from 0 to 1; 1 where the language was given.
    """

    language: str
    probability: float


def decide(rows: Sequence[Mapping[str, float]], weights: Sequence[float]) -> Decision:
    """The language with the highest mean probability.

    Args:
        rows: probability of each language, for each chunk listened to.
        weights: of each chunk: its seconds of speech.
    """
    total = sum(weights)
    means = {
        language: sum(w * row[language] for row, w in zip(rows, weights, strict=True)) / total
        for language in rows[0]
    }
    language = max(means, key=lambda code: means[code])
    return Decision(language, means[language])


class Languages:
    """The decision for each recording of a run, made once and waited for by later batches.

    The batch that brings a recording's first row decides; decisions are claimed in the order of the
    batches, so that nobody waits for one that is not being made.
    """

    def __init__(self, given: str | None) -> None:
        self._given = Decision(given, 1.0) if given else None
        self._decisions: dict[int, Future[Decision]] = {}

    def claim(self, recording: int) -> None:
        """The next batch will decide for this recording. Called in order, by one thread."""
        self._decisions[recording] = Future()

    def settle(self, recording: int, decision: Decision) -> None:
        """What the claimed decision is."""
        log.info("recording %d: %s (%.2f)", recording, decision.language, decision.probability)
        self._decisions[recording].set_result(decision)

    def fail(self, recording: int, error: BaseException) -> None:
        """The claimed decision cannot be made: raise `error` in all who wait for it."""
        if not self._decisions[recording].done():
            self._decisions[recording].set_exception(error)

    def of(self, recording: int) -> Decision | None:
        """The decision, waited for; None where the recording had no speech."""
        if self._given:
            return self._given
        future = self._decisions.get(recording)
        return future.result() if future else None
