"""The inputs of the measurements: speech in several formats, and models with random weights.

Speech that is repeated to an hour is as good as an hour of speech here: the VAD finds the same
amount of speech, and nothing else looks for repetitions of audio.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from benchmarks import clips, recordings
from benchmarks.recordings import SAMPLING_RATE, Recording
from tests.contract import tiny_model
from whisperbatch.models.architecture import EMBEDDINGS, Array, RandomModel

BUILT: Final = 600.0  # seconds of speech that are built and repeated
SUFFIXES: Final = {"WAV": ".wav", "MP3": ".mp3", "Opus": ".ogg", "AAC": ".m4a"}
POSITIONS: Final = "decoder/position_encodings/encodings"
FIRST_END: Final = 60  # position of the decoder from which a text may end
REPEATED: Final = 16  # times that the rows of a matrix are repeated
RAMP: Final = 0.1  # by how much the direction of the end grows with each position


def hour(speech: Path | None, target: Path, seconds: float) -> Path:
    """Write speech, repeated until it has a duration, in the format of the target's suffix.

    Args:
        speech: a recording of at least some minutes; None to build telephone prompts.
        target: file to be written.
        seconds: duration.
    """
    part = clips.decode(speech) if speech else recordings.prompts("en", min(seconds, BUILT)).samples
    samples = np.resize(part, round(seconds * SAMPLING_RATE))
    return recordings.write(Recording("speech", samples, ()), target)


@dataclass(frozen=True, kw_only=True)
class EndingModel(RandomModel):
    """Random weights whose texts end after a natural number of tokens, each row at another one.

    The token embedding of the end of text is a direction of length 1, as those of the text tokens.
    From `FIRST_END` on, the position encodings move in this direction, so that the end becomes more
    probable with each step. The other terms of its logit differ from row to row.

    Attributes:
        ramp: movement for each position.
    """

    ramp: float = RAMP

    def arrays(self) -> dict[str, Array]:
        """See `RandomModel`."""
        arrays = super().arrays()
        direction = np.random.default_rng(7).standard_normal(self.d_model).astype(np.float32)
        direction /= np.linalg.norm(direction)
        arrays[EMBEDDINGS][self.text_tokens] = direction  # the end of text follows the text tokens
        steps = np.maximum(np.arange(self.decoder_positions) - FIRST_END, 0)[:, None]
        positions: npt.NDArray[np.float32] = arrays[POSITIONS].astype(np.float32)
        arrays[POSITIONS] = (positions + self.ramp * steps * direction).astype(self.dtype)
        return arrays

    def _fill(self, name: str, shape: tuple[int, ...], generator: np.random.Generator) -> Array:
        """Return an array whose rows repeat if it is large: drawing all numbers takes a minute."""
        if name == EMBEDDINGS or len(shape) == 1 or shape[0] < 2 * REPEATED:
            return super()._fill(name, shape, generator)
        part = super()._fill(name, (shape[0] // REPEATED, *shape[1:]), generator)
        array: Array = np.resize(part.astype(self.dtype), shape)
        return array


_LARGE: Final[dict[str, Any]] = {
    "d_model": 1280,
    "heads": 20,
    "layers": 32,
    "n_mels": 128,
    "vocabulary_size": tiny_model.SIZES.vocabulary_size,
    "text_tokens": tiny_model.SIZES.text_tokens,
}
SHAPES: Final = {
    "base": EndingModel(**{**_LARGE, "d_model": 512, "heads": 8, "layers": 6, "n_mels": 80}),
    "turbo": EndingModel(**_LARGE, decoder_layers=4),
    "large-v3": EndingModel(**_LARGE, decoder_layers=32),
}
HEADS: Final = {  # alignment heads of the real models: layer and head
    "turbo": [[2, 4], [2, 11], [3, 3], [3, 6], [3, 11], [3, 14]],
    "large-v3": [
        *([7, 0], [10, 17], [12, 18], [13, 12], [16, 1]),
        *([17, 14], [19, 11], [21, 4], [24, 1], [25, 6]),
    ],
}


def random_model(name: str, target: Path, sizes: RandomModel | None = None) -> Path:
    """Write a model directory with random weights.

    Args:
        name: of the shape.
        target: directory to be written.
        sizes: of a model that is not in `SHAPES`.
    """
    shape = sizes or SHAPES[name]
    tiny_model.tiny_model(target, shape)
    settings = {**tiny_model.config(), "alignment_heads": HEADS.get(name, [[0, 0]])}
    (target / "config.json").write_text(json.dumps(settings), encoding="utf-8")
    features = {"feature_size": shape.n_mels}  # read by faster-whisper
    (target / "preprocessor_config.json").write_text(json.dumps(features), encoding="utf-8")
    return target
