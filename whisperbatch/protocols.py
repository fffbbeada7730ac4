"""The contracts of the plug-ins: voice activity detectors, feature extractors and engines.

A plug-in is any object with the attributes and methods of its protocol; it needs no base class.
tests/contract checks every plug-in of the package against these promises.

    samples -> Vad -> speech spans -> chunks -> FeatureExtractor -> Engine -> text and word times

The data of one chunk inside an engine:

    features (n_mels, n_frames) -> encode -> Encoded -> detect_language -> {language: probability}
                                                     -> decode          -> tokens and their times
                                                     -> align           -> times of a given text

docs/explanation/engines.md explains how to write an engine.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields
from typing import Protocol, TypeAlias, runtime_checkable

import numpy as np
import numpy.typing as npt
from tokenizers import Tokenizer
from typing_extensions import Self

from whisperbatch.options import DEFAULT_BATCH_SIZE, SearchOptions
from whisperbatch.types import Features, Samples, SpeechFrames

FeatureType: TypeAlias = type[np.float32] | type[np.float16]


@runtime_checkable
class Vad(Protocol):
    """A voice activity detector: computes the speech probability of each VAD frame.

    One Vad serves several recordings at a time, from several threads. Keep the state of a recording
    in the iterator that `__call__` returns, not in the Vad.

    Attributes:
        hop: samples per VAD frame, at 16 kHz.
    """

    hop: int

    def __call__(self, blocks: Iterable[Samples]) -> Iterator[SpeechFrames]:
        """Yield the audio of a recording again, with a speech probability for each VAD frame.

        The output holds exactly the input samples: none is lost, added or changed. The Vad chooses
        the sizes of its output blocks. The probabilities depend only on the samples, not on the
        sizes of the input blocks: they are equal bit for bit. The iterator holds a bounded number
        of samples, so that memory does not grow with the recording.

        Args:
            blocks: mono audio at 16 kHz, consecutive, each of shape (n_samples,) and of any length.

        Yields:
            Consecutive blocks. Only the last block may end within a VAD frame.
        """
        ...


@runtime_checkable
class FeatureExtractor(Protocol):
    """Computes the input of the encoder from the audio of a chunk. Thread-safe.

    Attributes:
        n_mels: number of mel bands, 80 or 128.
    """

    n_mels: int

    def __call__(self, samples: Samples) -> Features:
        """Return the features of a chunk, one feature frame for every 10 ms.

        Args:
            samples: shape (n_samples,), at most 30 s.

        Returns:
            Features of shape (n_mels, n_samples // 160), float32, at most 3000 feature frames.
        """
        ...

    def pad_value(self, features: Features) -> float:
        """Return the feature value of silence, on the scale of `features`.

        The value fills the encoder window after the end of the chunk.

        Args:
            features: features of one chunk, as `__call__` returned them.
        """
        ...


@dataclass(frozen=True, slots=True)
class Sampling:
    """How to draw the tokens of one row at random, instead of a greedy or beam search.

    Attributes:
        temperature: above 0; the logits are divided by this number.
        best_of: number of sampled hypotheses; the most probable hypothesis is returned.
        seed: from 0 to 2**32 - 1. On a CPU, equal rows, options and seeds give equal text.
    """

    temperature: float
    best_of: int
    seed: int


@dataclass(frozen=True, slots=True)
class DecodeRequest:
    """The input of the decoder for one row, besides the encoder output.

    Attributes:
        prompt: the token ids that the decoder reads before the text: context, start, the
            no-timestamps token (without this token, the text contains timestamp tokens), prefix.
        start: the part of `prompt` from the start of transcript: with language and task for a
            multilingual model.
        prefix: the last tokens of `prompt`, if the text must begin with these tokens. In a text
            with timestamp tokens, the first token of the prefix is a timestamp.
        frames: feature frames of the row, without padding.
        sampling: draw the tokens at random; None for a greedy or beam search.
        stop_loops: the engine may cut off a text that only repeats itself, because the row will be
            decoded again.
    """

    prompt: tuple[int, ...]
    start: tuple[int, ...]
    prefix: tuple[int, ...]
    frames: int
    sampling: Sampling | None = None
    stop_loops: bool = False


@dataclass(frozen=True, slots=True)
class AlignRequest:
    """A text that is known, to be aligned with one row.

    Attributes:
        start: start of transcript; with language and task for a multilingual model.
        tokens: text token ids, without timestamp tokens; may be empty.
        frames: feature frames of the row, without padding.
    """

    start: tuple[int, ...]
    tokens: tuple[int, ...]
    frames: int


@dataclass(frozen=True, slots=True, eq=False)
class Alignment:
    """The time and probability of each text token of one row.

    Attributes:
        starts: shape (n_tokens,), float64, seconds from the start of the row, not decreasing.
        ends: shape (n_tokens,), float64, seconds from the start of the row, not decreasing.
        probabilities: shape (n_tokens,), float64, from 0 to 1.
    """

    starts: npt.NDArray[np.float64]
    ends: npt.NDArray[np.float64]
    probabilities: npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """The tokens that the engine decoded from one row, with their score.

    Attributes:
        tokens: token ids, without the prompt and without the end-of-text token.
        avg_logprob: mean natural-log probability per token, end-of-text token included.
        no_speech_prob: probability of the no-speech token at the start of transcript.
    """

    tokens: tuple[int, ...]
    avg_logprob: float
    no_speech_prob: float


@dataclass(frozen=True, slots=True, eq=False)
class Decoded:
    """The text of one row with the times of its tokens.

    Attributes:
        hypothesis: the tokens after the prompt, with their score.
        alignment: of the text tokens of prefix and hypothesis, in order. Timestamp tokens and other
            special tokens have no time.
    """

    hypothesis: Hypothesis
    alignment: Alignment


class Encoded(Protocol):
    """The encoder output of a batch, in the engine's own form.

    Only the engine that returned the object looks inside.
    """

    @property
    def rows(self) -> int:
        """Number of rows in the batch."""
        ...


@runtime_checkable
class Engine(Protocol):
    """A Whisper model: encoder and decoder.

    All methods are thread-safe and release the GIL while they compute.

    An engine may also have the members of `EngineTraits`, which have defaults.

    Attributes:
        name: name of the model, for messages.
        is_multilingual: False for English-only models.
        can_translate: False for models that were not trained to translate: English-only models,
            turbo and Distil-Whisper.
        n_mels: number of mel bands that the encoder expects, 80 or 128.
        workers: number of batches that the engine computes at a time.
        tokenizer: tokenizer with the model's vocabulary.
    """

    name: str
    is_multilingual: bool
    can_translate: bool
    n_mels: int
    workers: int
    tokenizer: Tokenizer

    @property
    def fingerprint(self) -> str:
        """Identifies the weights, the device and everything else that the text depends on.

        Engines with equal fingerprints give equal text. The journal uses the fingerprint to decide
        whether stored results can be used again.
        """
        ...

    def check(self, options: SearchOptions) -> None:
        """Check that the engine honours these options, before a recording is read.

        Raises:
            OptionError: the engine does not support an option; the message names the option.
        """
        ...

    def encode(self, features: npt.NDArray[np.float32]) -> Encoded:
        """Encode a batch.

        Args:
            features: shape (batch, n_mels, n_frames), padded with silence. `n_frames` is even, at
                most 3000, and may be smaller: the encoder then sees a window shorter than 30 s.

        Raises:
            EngineError: the model failed, for example because memory ran out. A BrokenDeviceError
                (`errors`) if the GPU cannot be used any more in this process.
            ClosedError: `close` was called.
        """
        ...

    def split(self, encoded: Encoded) -> list[Encoded]:
        """Return each row of a batch as a batch of one row, in order."""
        ...

    def join(self, rows: Sequence[Encoded]) -> Encoded:
        """Return rows of any batches as one batch, in order.

        Args:
            rows: results of `split`, encoded with the same number of feature frames.
        """
        ...

    def detect_language(self, encoded: Encoded) -> list[dict[str, float]]:
        """Return the probability of each language, one dict per row. Each dict sums to 1.

        Raises:
            EngineError: the model is English-only, or failed.
        """
        ...

    def decode(
        self, encoded: Encoded, requests: Sequence[DecodeRequest], options: SearchOptions
    ) -> list[Decoded]:
        """Decode every row and align its text. Return one result per row, in order.

        The result of a row does not depend on the other rows of the batch.

        The usual method of alignment: dynamic time warping (DTW) over the cross-attention of the
        model's alignment heads, as in openai/whisper (`timing.py`).

        Args:
            encoded: result of `encode` or `join`.
            requests: one per row. All prompts have the same length, and so have all contexts and
                all prefixes. Either all prompts contain the no-timestamps token, or none. Either
                all rows are sampled, or none.
            options: the search: beam size, penalties, suppressed tokens.

        Raises:
            EngineError: the model failed.
        """
        ...

    def align(self, encoded: Encoded, texts: Sequence[AlignRequest]) -> list[Alignment]:
        """Find the time of each token of given texts, and return one Alignment per row, in order.

        Args:
            encoded: result of `encode` or `join`.
            texts: one per row; the rows may differ in language.

        Raises:
            EngineError: the model failed.
        """
        ...

    def close(self) -> None:
        """Free the weights. Safe to call twice."""
        ...


PausingDecode: TypeAlias = Callable[
    [Encoded, Sequence[DecodeRequest], SearchOptions, Callable[[], None]], list[Decoded]
]
"""See `EngineTraits.decode_with_pauses`."""


@dataclass(frozen=True, slots=True)
class EngineTraits:
    """What an engine may say about itself. A member that it does not have has its default.

    Attributes:
        encodes_rows_alone: True if a batch saves no time in `encode`: n rows take n times as long
            as one row. Urgent rows then do not wait for a whole batch, and encoder outputs are kept
            for retries.
        encodes_again: True if it takes less time to encode a row again than to `split` the encoder
            output of a batch and `join` rows: the output of a GPU would be copied to the memory of
            the CPU and back. The scheduler then calls neither of the two methods, and each call
            encodes all of its rows.
        device: "cpu" or "cuda".
        feature_type: type of the features that the engine computes with. Rows wait for the engine
            in this type. With float16, they take half of the memory, and the engine need not
            convert them. `encode` accepts float32, too.
        default_batch_size: returns the batch size for options with `batch_size=None`: the same
            number in every run on a machine. Its argument is the number of hypotheses in the first
            decoding of a row: the engine may hold keys and values for each.
        decode_with_pauses: as `Engine.decode`, and calls the last argument between two steps of
            the search, in the same thread. The function may call the engine, and an error that it
            raises ends the call. None if a call of the engine cannot be interrupted: text of people
            who speak then waits for the end of a call.
    """

    encodes_rows_alone: bool = False
    encodes_again: bool = False
    device: str = "cpu"
    feature_type: FeatureType = np.float32
    default_batch_size: Callable[[int], int] = field(default=lambda _: DEFAULT_BATCH_SIZE)
    decode_with_pauses: PausingDecode | None = None

    @property
    def on_gpu(self) -> bool:
        """Whether a further row of a call costs little, and a further call much."""
        return self.device == "cuda"

    @classmethod
    def of(cls, engine: Engine) -> Self:
        """Return the traits of an engine."""
        names = [trait.name for trait in fields(cls) if hasattr(engine, trait.name)]
        return cls(**{name: getattr(engine, name) for name in names})
