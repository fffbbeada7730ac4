"""The contract of diarizers: who speaks when in a stream of audio.

What a diarizer yields is checked, so that the error of a caller's diarizer names the mistake.
"""

import math
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Final, Protocol, TypeAlias, runtime_checkable

import numpy as np
import numpy.typing as npt

from whisperbatch.boundary import with_type
from whisperbatch.errors import ClosedError, EngineError, WhisperBatchError, of_recording
from whisperbatch.options import Options
from whisperbatch.text.messages import shown
from whisperbatch.types import Diarization, Samples, Turn, to_samples

Embedding: TypeAlias = npt.NDArray[np.float32]
"""A voice: shape (n_dimensions,), of length 1."""
MAX_LAG: Final = 30.0
"""Seconds. A diarizer that hears so much more audio than its last Progress covers is stopped with
an error: segments wait for the turns, and the audio is only read when the segments are taken."""


@dataclass(frozen=True, slots=True)
class SpeakerLimits:
    """What the user knows about the number of speakers, and needs to know about them.

    Attributes:
        minimum: smallest number of speakers, at least 1.
        maximum: largest number of speakers; None if there is no limit.
        needs_voices: whether a single speaker needs an embedding, too: to be compared with the
            known speakers.
    """

    minimum: int = 1
    maximum: int | None = None
    needs_voices: bool = False


def limits_of(options: Options) -> SpeakerLimits:
    """Return the limits of the number of speakers."""
    number = options.num_speakers
    return SpeakerLimits(
        number or options.min_speakers or 1,
        number or options.max_speakers,
        needs_voices=options.known_speakers is not None,
    )


@dataclass(frozen=True, slots=True)
class Progress:
    """The turns of the next stretch of a recording, while the recording is read.

    Attributes:
        end: seconds; the turns up to this time are known. It never decreases, and is at most 30 s
            behind the audio that was taken, or `reads_ahead` more (see `Listener`).
        turns: turns after the end of the stretch before. Their speakers may change at the end of
            the recording. A diarizer that knows no turns before the end of the recording gives
            none: the segments of a stream then have no speakers before the end.
        embeddings: of each speaker so far, in order of their first speech; empty if the diarizer
            knows the voices at the end only.
    """

    end: float
    turns: tuple[Turn, ...]
    embeddings: Mapping[str, Embedding] = field(default_factory=dict)


class TurnFinder(Protocol):
    """Finds the turns of recordings. One TurnFinder serves several recordings at a time."""

    def __call__(
        self, blocks: Iterable[Samples], limits: SpeakerLimits
    ) -> Iterator[Progress | Diarization]:
        """Yield the progress while a recording is read, and its Diarization as the last item.

        The turns depend only on the samples and the limits, not on the sizes of the blocks. The
        iterator holds a bounded number of samples.

        Args:
            blocks: mono audio at 16 kHz, consecutive, each of shape (n_samples,) and of any length.
            limits: of the number of speakers.

        Raises:
            OptionError: raised by the call itself: the diarizer cannot honour the limits.
            EngineError: a network failed.
        """
        ...


@runtime_checkable
class Diarizer(TurnFinder, Protocol):
    """Finds the speakers of recordings by their voices."""

    @property
    def fingerprint(self) -> str:
        """Identifies the weights, and everything else that the turns depend on."""
        ...

    def close(self) -> None:
        """Free the weights. Safe to call twice."""
        ...


@runtime_checkable
class VoiceDiarizer(Diarizer, Protocol):
    """A Diarizer that also compares voices: `known_speakers` needs one."""

    @property
    def same_voice(self) -> float:
        """The `similarity` from which two voices are one person's."""
        ...

    def voice(self, samples: Samples) -> Embedding:
        """Return the embedding of a voice, to be compared with those of a `Diarization`.

        Args:
            samples: a recording of this voice.

        Raises:
            AudioError: the samples have less than about 1 s of speech, or several voices.
            EngineError: a network failed.
        """
        ...

    def similarity(self, one: Embedding, other: Embedding) -> float:
        """Return how similar two voices are: the higher, the surer that they are one person's."""
        ...


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
    return _check_items(diarizer, items, source)


def _check_items(
    diarizer: TurnFinder, items: Iterator[Progress | Diarization], source: str
) -> Iterator[Progress | Diarization]:
    while True:
        with _errors_of(diarizer, source):
            item = next(items, None)
            if item is None:
                raise EngineError(f"{_name(diarizer)} ended without a Diarization")
            checked = _check_item(diarizer, item)
            if isinstance(item, Diarization) and next(items, None) is not None:
                raise EngineError(f"{_name(diarizer)} yielded an item after its Diarization")
        yield checked
        if isinstance(item, Diarization):
            return


def _check_item(diarizer: TurnFinder, item: Progress | Diarization) -> Progress | Diarization:
    """Return an item with valid turns in order.

    Raises:
        EngineError: the item is of another type, a turn is not valid, or a speaker of `exclusive`
            has no turns.
    """
    if isinstance(item, Progress):
        return replace(item, turns=_check_turns(diarizer, item.turns))
    if isinstance(item, Diarization):
        turns, exclusive = (_check_turns(diarizer, given) for given in (item.turns, item.exclusive))
        unknown = _speakers(exclusive) - _speakers(turns)
        if unknown:
            raise EngineError(
                f"{_name(diarizer)} gave exclusive turns of {shown(min(unknown))}, who has no turns"
            )
        return replace(item, turns=turns, exclusive=exclusive)
    raise EngineError(
        f"{_name(diarizer)} yielded {shown(item)}, which is neither a Progress nor a Diarization"
    )


def _check_turns(diarizer: TurnFinder, turns: Iterable[Turn]) -> tuple[Turn, ...]:
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
    return in_order(checked)


def in_order(turns: Iterable[Turn]) -> tuple[Turn, ...]:
    """Return turns in the order of their starts, then of their ends and speakers."""
    return tuple(sorted(turns, key=lambda turn: (turn.start, turn.end, turn.speaker)))


def has_duration(turn: Turn) -> bool:
    """Return whether a turn has at least one sample."""
    return to_samples(turn.start) < to_samples(turn.end)


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
