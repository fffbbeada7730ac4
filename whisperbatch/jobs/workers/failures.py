"""Which errors are final, and which may pass.

error                                         what a worker does
the recording is missing, damaged, changed    writes the failure as the result
an option does not fit the recording          writes the failure as the result
the store of the recording fails              tries again after `STORAGE_PAUSES`; then leaves the
                                              span to other workers and later runs
the engine fails, or a bug                    tries again once; then leaves the span to other
                                              workers; the failure is the result after `ATTEMPTS`
                                              of all workers
the worker dies                               another worker transcribes the spans of the task one
                                              at a time; the failure is the result after `ATTEMPTS`
"""

from typing import Final

from whisperbatch.addresses import without_secrets
from whisperbatch.errors import AudioError, EngineError, OptionError, WhisperBatchError
from whisperbatch.jobs.plans.format import Failure
from whisperbatch.jobs.plans.recordings import StoreError

ATTEMPTS: Final = 3
STORAGE_PAUSES: Final = (5.0, 30.0)  # seconds before further attempts of one worker
ENGINE_PAUSES: Final = (5.0,)
MAX_IN_A_ROW: Final = 3
"""Spans that fail in a row for reasons of the engine: the machine is broken, so the worker ends."""

STORAGE: Final = "storage"
_KINDS: Final[tuple[tuple[type[WhisperBatchError], str], ...]] = (
    (StoreError, STORAGE),
    (AudioError, "audio"),
    (OptionError, "option"),
    (EngineError, "engine"),
)
FINAL_KINDS: Final = ("audio", "option")


def failure_of(error: WhisperBatchError) -> Failure:
    """Return the failure of a span that ended with this error."""
    kind = next((kind for cls, kind in _KINDS if isinstance(error, cls)), "internal")
    return Failure(kind, str(error))


def is_final(failure: Failure) -> bool:
    """Return whether a further attempt would fail, too."""
    return failure.kind in FINAL_KINDS


def pauses_after(failure: Failure) -> tuple[float, ...]:
    """Return the seconds before each further attempt of one worker; () if it tries no more."""
    if is_final(failure):
        return ()
    return STORAGE_PAUSES if failure.kind == STORAGE else ENGINE_PAUSES


class EngineFailures:
    """Counts the recordings in a row that failed for reasons of the engine."""

    def __init__(self) -> None:
        self._count = 0

    def note(self, failure: Failure | None) -> None:
        """Note how a recording ended; None stands for a transcript.

        Raises:
            EngineError: this is the last of `MAX_IN_A_ROW` failures.
        """
        if failure is None:
            self._count = 0
        elif failure.kind not in (STORAGE, *FINAL_KINDS):
            self._count += 1
            if self._count == MAX_IN_A_ROW:
                raise EngineError(
                    f"{MAX_IN_A_ROW} recordings in a row failed, so this worker ends; the last: "
                    f"{failure.message}"
                )


def crash_failure(uri: str, attempts: int) -> Failure:
    """Return the failure of a span at which workers died."""
    name = without_secrets(uri, whole=True)
    return Failure(
        "crash", f"{name}: {attempts} attempts failed; the last worker died at this recording"
    )
