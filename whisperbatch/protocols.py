"""What a plug-in must satisfy. tests/contract checks every one that is registered."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
from tokenizers import Tokenizer

from whisperbatch.options import DecodeOptions
from whisperbatch.types import Features, Hypothesis, Samples, SpeechFrames


@runtime_checkable
class Vad(Protocol):
    """Says how likely each frame of audio is speech.

    Attributes:
        hop: samples in a frame.
    """

    hop: int

    def __call__(self, blocks: Iterable[Samples]) -> Iterator[SpeechFrames]:
        """The same audio, in blocks of the Vad's choosing, with a probability for each frame.

        No sample is lost, added or changed. The result depends on the audio alone, never on how
        it was cut into blocks: equal to the last bit. State lives in the iterator, so that one Vad
        serves several recordings at a time, from several threads. It holds a bounded number
        of samples.
        """
        ...


@runtime_checkable
class FeatureExtractor(Protocol):
    """Turns a chunk's audio into what the encoder sees. Thread-safe.

    Attributes:
        n_mels: mel bands, 80 or 128.
    """

    n_mels: int

    def __call__(self, samples: Samples) -> Features:
        """Features of shape (n_mels, n_samples // 160), float32, at most 3000 frames."""
        ...

    def pad_value(self, features: Features) -> float:
        """What silence looks like beside `features`: fills the window after the chunk's end."""
        ...


@dataclass(frozen=True, slots=True)
class Alignment:
    """Where in its row each text token lies.

    Attributes:
        starts: shape (n_tokens,), float64, seconds from the start of the row, not decreasing.
        ends: likewise.
        probabilities: shape (n_tokens,), each from 0 to 1.
    """

    starts: npt.NDArray[np.float64]
    ends: npt.NDArray[np.float64]
    probabilities: npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Sampling:
    """How one row is sampled.

    Attributes:
        temperature: above 0; what the logits are divided by.
        best_of: samples drawn, of which the likeliest counts.
        seed: from 0 to 2**32 - 1. The same row, options and seed give the same text.
    """

    temperature: float
    best_of: int
    seed: int


class Encoded(Protocol):
    """An engine's own form of a batch of encoder output; opaque to everyone else."""

    @property
    def rows(self) -> int:
        """How many rows there are."""
        ...


@runtime_checkable
class Engine(Protocol):
    """A Whisper model: encoder and decoder. Thread-safe; releases the GIL while it works.

    Attributes:
        name: of the model, for messages.
        is_multilingual: False for English-only models.
        n_mels: mel bands that its encoder wants.
        workers: how many batches it works on at a time.
        tokenizer: of its vocabulary.
    """

    name: str
    is_multilingual: bool
    n_mels: int
    workers: int
    tokenizer: Tokenizer

    @property
    def fingerprint(self) -> str:
        """Of the weights, the device and all else that a text depends on.

        Engines of the same fingerprint give the same texts.
        """
        ...

    def encode(self, features: npt.NDArray[np.float32]) -> Encoded:
        """Encode a batch: features of shape (batch, n_mels, frames), padded with silence.

        The frames are an even number of at most 3000, and all that the engine sees of a row.
        """
        ...

    def split(self, encoded: Encoded) -> list[Encoded]:
        """Each row of a batch by itself, in order."""
        ...

    def join(self, rows: Sequence[Encoded]) -> Encoded:
        """Rows of any batches, as one batch."""
        ...

    def detect_language(self, encoded: Encoded) -> list[dict[str, float]]:
        """Probability of each language, one dict a row, summing to 1.

        Raises:
            EngineError: the model is English-only.
        """
        ...

    def generate(
        self,
        encoded: Encoded,
        prompts: Sequence[Sequence[int]],
        options: DecodeOptions,
        sampling: Sequence[Sampling] | None = None,
    ) -> list[Hypothesis]:
        """Decode every row, one Hypothesis a row, in order.

        A row's hypothesis does not depend on the rows beside it.

        Args:
            encoded: from `encode`.
            prompts: token ids, one list a row, all of one length, with or without the
                no-timestamps token throughout.
            options: an engine that cannot honour one raises OptionError naming it.
            sampling: one a row, instead of beam or greedy search.
        """
        ...

    def align(
        self,
        encoded: Encoded,
        prompts: Sequence[Sequence[int]],
        tokens: Sequence[Sequence[int]],
        frames: Sequence[int],
    ) -> list[Alignment]:
        """Where each text token of each row lies, one Alignment a row, in order.

        Args:
            encoded: from `encode`.
            prompts: as in `generate`; rows may differ in language.
            tokens: text token ids of each row, without timestamps; may be empty.
            frames: feature frames of each row that are not padding.
        """
        ...

    def close(self) -> None:
        """Free the weights. Safe to call twice."""
        ...
