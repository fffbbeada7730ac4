"""Who speaks when. Time is in seconds."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt


def unnamed_speaker(number: int) -> str:
    """Return the name of a speaker who has no name: of a channel, or of a voice."""
    return f"SPEAKER_{number:02d}"


@dataclass(frozen=True, slots=True)
class Turn:
    """A stretch of the recording in which one person speaks. Turns of several speakers may overlap.

    Attributes:
        start: start time in seconds.
        end: end time in seconds.
        speaker: name of the speaker, as in `Diarization.speakers`.
        confidence: from 0 to 1: how much closer the voice is to this speaker than to the others.
    """

    start: float
    end: float
    speaker: str
    confidence: float


@dataclass(frozen=True, slots=True)
class Diarization:
    """The speakers of a recording and their turns.

    Attributes:
        turns: in order of their start times. Turns of one speaker do not overlap.
        source: name of the recording.
        duration: seconds that were read of the recording.
        embeddings: the mean voice embedding of each speaker, shape (n_dimensions,), of length 1;
            empty if the diarizer has none.
        exclusive: turns of the dominant speaker at each time, without overlap, which decide who
            says a word; empty if `turns` decide. With `speaker="channel"`, the loudest speaker.
    """

    turns: tuple[Turn, ...]
    source: str = ""
    duration: float = 0.0
    embeddings: Mapping[str, npt.NDArray[np.float32]] = field(
        default_factory=dict, repr=False, compare=False
    )
    exclusive: tuple[Turn, ...] = field(default=(), repr=False)

    @property
    def speakers(self) -> tuple[str, ...]:
        """The names of the speakers, in order of their first turns."""
        return tuple(dict.fromkeys(turn.speaker for turn in self.turns))
