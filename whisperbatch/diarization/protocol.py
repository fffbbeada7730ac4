"""The contract of diarizers: who speaks when in a stream of audio."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol, TypeAlias, runtime_checkable

import numpy as np
import numpy.typing as npt

from whisperbatch.options import Options
from whisperbatch.types import Diarization, Samples, Turn

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
