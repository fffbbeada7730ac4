"""The contract of diarizers: who speaks when in a stream of audio."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from whisperbatch.options import SpeakerOptions
from whisperbatch.types import Diarization, Samples, Turn


@dataclass(frozen=True, slots=True)
class SpeakerLimits:
    """What the user knows about the number of speakers.

    Attributes:
        minimum: smallest number of speakers, at least 1.
        maximum: largest number of speakers; None if there is no limit.
    """

    minimum: int = 1
    maximum: int | None = None


def limits_of(options: SpeakerOptions) -> SpeakerLimits:
    """Return the limits of the number of speakers."""
    number = options.num_speakers
    return SpeakerLimits(number or options.min_speakers or 1, number or options.max_speakers)


@dataclass(frozen=True, slots=True)
class Progress:
    """The turns of the next stretch of a recording, while the recording is read.

    Attributes:
        end: seconds; the turns up to this time are known. It never decreases.
        turns: turns after the end of the stretch before. Their speakers may change at the end of
            the recording.
    """

    end: float
    turns: tuple[Turn, ...]


@runtime_checkable
class Diarizer(Protocol):
    """Finds the speakers of recordings. One Diarizer serves several recordings at a time."""

    @property
    def fingerprint(self) -> str:
        """Identifies the weights, and everything else that the turns depend on."""
        ...

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
            EngineError: a network failed.
        """
        ...

    def close(self) -> None:
        """Free the weights. Safe to call twice."""
        ...
