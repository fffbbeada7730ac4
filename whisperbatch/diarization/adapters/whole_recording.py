"""Diarizers that need the complete recording: its samples wait in a temporary file."""

import tempfile
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from whisperbatch.diarization.protocol import Progress, SpeakerLimits
from whisperbatch.errors import EngineError, WhisperBatchError
from whisperbatch.types import SAMPLING_RATE, Diarization, Samples, Turn, to_seconds

STEP: Final = 5 * SAMPLING_RATE  # samples between two Progress items
CONFIDENCE: Final = 1.0  # of each turn: these packages tell none


class Found(NamedTuple):
    """The result of a package.

    Attributes:
        turns: (start, end, label) of each turn, in seconds.
        embeddings: the mean embedding of each label, if the package tells it.
    """

    turns: Sequence[tuple[float, float, str]]
    embeddings: Mapping[str, npt.NDArray[np.float32]]


class WholeRecordingDiarizer(ABC):
    """Writes a recording to a temporary file, and finds its turns at the end.

    The file takes 230 MB for each hour, in the directory of temporary files (`TMPDIR`). Recordings
    that end at the same time wait for each other.

    Attributes:
        fingerprint: identifies the package and the weights.
    """

    fingerprint: str

    def __init__(self) -> None:
        self._lock = threading.Lock()  # the packages are not thread-safe

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
            raise EngineError(
                f"{self.fingerprint} failed: {type(error).__name__}: {error}"
            ) from error
        ordered = sorted(found.turns)
        labels = list(dict.fromkeys(label for _, _, label in ordered))
        names = {label: f"SPEAKER_{number:02d}" for number, label in enumerate(labels)}
        end = to_seconds(len(samples))
        turns = [
            Turn(max(start, 0.0), min(stop, end), names[label], CONFIDENCE)
            for start, stop, label in ordered
            if max(start, 0.0) < min(stop, end)
        ]
        embeddings = {
            names[label]: vector / np.linalg.norm(vector)
            for label, vector in found.embeddings.items()
            if label in names and np.isfinite(vector).all() and np.any(vector)
        }
        return Diarization(tuple(turns), embeddings=embeddings)
