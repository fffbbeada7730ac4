"""Diarizers that need the complete recording: its samples wait in a temporary file."""

import tempfile
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from whisperbatch.boundary import with_type
from whisperbatch.diarization.protocol import Progress, SpeakerLimits
from whisperbatch.errors import EngineError, WhisperBatchError
from whisperbatch.threads import Lock
from whisperbatch.types import SAMPLING_RATE, Diarization, Samples, Turn, to_samples, to_seconds

STEP: Final = 5 * SAMPLING_RATE  # samples between two Progress items
CONFIDENCE: Final = 1.0  # of each turn: these packages tell none


Labelled: TypeAlias = tuple[float, float, str]  # start and end of a turn in seconds, its label


class Found(NamedTuple):
    """The result of a package.

    Attributes:
        turns: of all labels; turns of different labels may overlap.
        embeddings: the mean embedding of each label, if the package tells it.
        exclusive: turns of the same labels, one at a time, if the package tells them.
    """

    turns: Sequence[Labelled]
    embeddings: Mapping[str, npt.NDArray[np.float32]]
    exclusive: Sequence[Labelled] = ()


class WholeRecordingDiarizer(ABC):
    """Writes a recording to a temporary file, and finds its turns at the end.

    The file takes 230 MB for each hour, in the directory of temporary files (`TMPDIR`). Recordings
    that end at the same time wait for each other.

    Attributes:
        fingerprint: identifies the package and the weights.
    """

    fingerprint: str

    def __init__(self) -> None:
        self._lock = Lock()  # the packages are not thread-safe

    @abstractmethod
    def find(self, samples: Samples, limits: SpeakerLimits) -> Found:
        """Return the turns of a recording.

        Args:
            samples: the complete recording, from -1 to 1; at least one sample.
            limits: of the number of speakers.
        """

    def check(self, limits: SpeakerLimits) -> None:  # noqa: B027 - some accept all limits
        """Raise an OptionError if the package cannot honour the limits."""

    def __call__(
        self, blocks: Iterable[Samples], limits: SpeakerLimits
    ) -> Iterator[Progress | Diarization]:
        """See `protocol.Diarizer`."""
        self.check(limits)
        return self._items(blocks, limits)

    def close(self) -> None:  # noqa: B027 - for all packages
        """Free nothing: the weights are shared until the end of the process."""

    def _items(
        self, blocks: Iterable[Samples], limits: SpeakerLimits
    ) -> Iterator[Progress | Diarization]:
        with tempfile.TemporaryFile(prefix="whisperbatch-") as file:
            written = told = 0
            for block in blocks:
                try:
                    file.write(np.clip(block, -1, 1).astype(np.float32).tobytes())
                except OSError as error:
                    raise EngineError(
                        f"the recording cannot be written to {tempfile.gettempdir()} "
                        f"({error.strerror or error}); set TMPDIR to a directory with 230 MB of "
                        "free space for each hour"
                    ) from error
                written += len(block)
                if written - told >= STEP:
                    told = written
                    yield Progress(to_seconds(written), ())
            if not written:
                yield Diarization(())
                return
            file.flush()
            samples = np.memmap(file, np.float32, "r", shape=(written,))
            yield self._diarization(samples, limits)
            del samples

    def _diarization(self, samples: Samples, limits: SpeakerLimits) -> Diarization:
        try:
            with self._lock:
                found = self.find(samples, limits)
        except WhisperBatchError:
            raise
        except Exception as error:  # the package may raise anything
            raise EngineError(f"{self.fingerprint} failed: {with_type(error)}") from error
        end = to_seconds(len(samples))
        turns, exclusive = (_within(end, given) for given in (found.turns, found.exclusive))
        labels = dict.fromkeys(label for _, _, label in turns)
        names = {label: f"SPEAKER_{number:02d}" for number, label in enumerate(labels)}
        embeddings = {
            names[label]: vector / np.linalg.norm(vector)
            for label, vector in found.embeddings.items()
            if label in names and np.isfinite(vector).all() and np.any(vector)
        }
        return Diarization(
            _turns(turns, names), embeddings=embeddings, exclusive=_turns(exclusive, names)
        )


def _within(end: float, turns: Iterable[Labelled]) -> list[Labelled]:
    """Return the parts of the turns before `end`, in order."""
    parts = ((max(start, 0.0), min(stop, end), label) for start, stop, label in turns)
    return sorted(part for part in parts if to_samples(part[0]) < to_samples(part[1]))


def _turns(turns: Iterable[Labelled], names: Mapping[str, str]) -> tuple[Turn, ...]:
    """Return the turns of the labels that have names."""
    return tuple(
        Turn(start, end, names[label], CONFIDENCE) for start, end, label in turns if label in names
    )
