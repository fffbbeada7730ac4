"""Pipelines of pyannote.audio 4 as diarizers, from a folder or from the Hugging Face hub."""

import os
import warnings
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import numpy as np

from whisperbatch.diarization.adapters.whole_recording import (
    Found,
    Labelled,
    WholeRecordingDiarizer,
)
from whisperbatch.diarization.protocol import SpeakerLimits
from whisperbatch.errors import MissingExtraError, ModelError
from whisperbatch.types import SAMPLING_RATE, Samples

PIPELINE_FILE: Final = "config.yaml"  # in a folder with a pipeline
DEFAULT_PIPELINE: Final = "pyannote/speaker-diarization-community-1"


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
                f"diarizer='pyannote' needs the package pyannote.audio ({error}): "
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
        return Found(_turns(annotation), embeddings, _turns(exclusive))


def _turns(annotation: Any) -> list[Labelled]:  # noqa: ANN401 - an optional package
    """Return the turns of an annotation of pyannote.core, if there is any."""
    if annotation is None:
        return []
    return [
        (float(segment.start), float(segment.end), str(label))
        for segment, _, label in annotation.itertracks(yield_label=True)
    ]
