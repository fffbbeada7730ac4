"""The items of a diarizer, checked, so that a mistake in the caller's diarizer says so."""

import math
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from whisperbatch.boundary import with_type
from whisperbatch.diarization.protocol import Progress, SpeakerLimits, TurnFinder
from whisperbatch.diarization.tracks import has_duration
from whisperbatch.errors import ClosedError, EngineError, WhisperBatchError, of_recording
from whisperbatch.text.messages import shown
from whisperbatch.types import Diarization, Samples, Turn


def items_of(
    diarizer: TurnFinder, blocks: Iterable[Samples], limits: SpeakerLimits, source: str
) -> Iterator[Progress | Diarization]:
    """Call a diarizer, and return its items, with the turns in order of their start times.

    Args:
        diarizer: finds the turns.
        blocks: audio of the recording.
        limits: of the number of speakers.
        source: name of the recording. Errors name it.

    Raises:
        OptionError: raised by the call itself: the diarizer cannot honour the limits.
        EngineError: the caller's diarizer failed, or its items are against the contract.
    """
    with _errors_of(diarizer, source):
        items = iter(diarizer(blocks, limits))
    return _checked(diarizer, items, source)


def _checked(
    diarizer: TurnFinder, items: Iterator[Progress | Diarization], source: str
) -> Iterator[Progress | Diarization]:
    while True:
        with _errors_of(diarizer, source):
            item = next(items, None)
            if item is None:
                raise EngineError(f"{_name(diarizer)} ended without a Diarization")
            checked = _in_order(diarizer, item)
            if isinstance(item, Diarization) and next(items, None) is not None:
                raise EngineError(f"{_name(diarizer)} yielded an item after its Diarization")
        yield checked
        if isinstance(item, Diarization):
            return


def _in_order(diarizer: TurnFinder, item: Progress | Diarization) -> Progress | Diarization:
    """Return an item with valid turns in order.

    Raises:
        EngineError: the item is of another type, a turn is not valid, or a speaker of `exclusive`
            has no turns.
    """
    if isinstance(item, Progress):
        return replace(item, turns=_valid(diarizer, item.turns))
    if isinstance(item, Diarization):
        turns, exclusive = _valid(diarizer, item.turns), _valid(diarizer, item.exclusive)
        unknown = _speakers(exclusive) - _speakers(turns)
        if unknown:
            raise EngineError(
                f"{_name(diarizer)} gave exclusive turns of {shown(min(unknown))}, who has no turns"
            )
        return replace(item, turns=turns, exclusive=exclusive)
    raise EngineError(
        f"{_name(diarizer)} yielded {shown(item)}, which is neither a Progress nor a Diarization"
    )


def _valid(diarizer: TurnFinder, turns: Iterable[Turn]) -> tuple[Turn, ...]:
    checked = tuple(turns)
    for turn in checked:
        if not isinstance(turn, Turn) or not isinstance(turn.speaker, str) or not turn.speaker:
            raise EngineError(
                f"{_name(diarizer)} gave {shown(turn)}, which is no Turn of a speaker"
            )
        if not 0 <= turn.start <= turn.end < math.inf:
            raise EngineError(
                f"{_name(diarizer)} gave a turn from {turn.start} to {turn.end} s; a turn starts "
                "at 0 s or later, and does not end before its start"
            )
    return tuple(sorted(checked, key=lambda turn: (turn.start, turn.end, turn.speaker)))


def _speakers(turns: Iterable[Turn]) -> set[str]:
    """Return the speakers of turns with a duration."""
    return {turn.speaker for turn in turns if has_duration(turn)}


@contextmanager
def _errors_of(diarizer: TurnFinder, source: str) -> Iterator[None]:
    """Name the recording in errors. Any exception of the caller's diarizer is an EngineError."""
    try:
        yield
    except (ClosedError, MemoryError):
        raise
    except WhisperBatchError as error:
        raise of_recording(error, source)  # noqa: B904 - the same error
    except Exception as error:
        if type(diarizer).__module__.startswith("whisperbatch."):
            raise
        failed = EngineError(f"{_name(diarizer)} failed ({with_type(error)})")
        raise of_recording(failed, source) from error


def _name(diarizer: TurnFinder) -> str:
    return f"the diarizer {shown(getattr(diarizer, 'fingerprint', type(diarizer).__name__))}"
