"""faster-whisper's two classes, and the values that they give."""

import logging
from collections.abc import Generator, Iterable, Mapping, Sequence
from os import PathLike
from typing import Any, BinaryIO, Final, Literal, cast

import numpy as np
import numpy.typing as npt

from whisperbatch import Transcriber, load
from whisperbatch.compat.faster_whisper import _detection, _session
from whisperbatch.compat.faster_whisper._defaults import unless_given
from whisperbatch.compat.faster_whisper._features import FeatureExtractor
from whisperbatch.compat.faster_whisper._parameters import (
    APPENDED,
    LADDER,
    PREPENDED,
    SYMBOLS,
    Request,
    detection_options,
)
from whisperbatch.compat.faster_whisper._results import (
    Segment,
    TranscriptionInfo,
    TranscriptionOptions,
    Word,
)
from whisperbatch.compat.faster_whisper.utils import find
from whisperbatch.compat.faster_whisper.vad import VadOptions
from whisperbatch.errors import OptionError
from whisperbatch.text import LANGUAGES

__all__ = [
    "BatchedInferencePipeline",
    "Segment",
    "TranscriptionInfo",
    "TranscriptionOptions",
    "VadOptions",
    "WhisperModel",
    "Word",
]

Audio = str | PathLike[str] | BinaryIO | npt.NDArray[np.float32]
"""A path, an open binary file, or samples at 16 kHz; anything with `__array__` will do."""

Segments = tuple[Generator[Segment, None, None], TranscriptionInfo]

IDLE: Final = {"flash_attention": False, "tensor_parallel": False, "max_queued_batches": 0}
"""CTranslate2's other arguments: what changes nothing."""


class CTranslate2Model:
    """What programs ask of `WhisperModel.model`.

    Attributes:
        is_multilingual: False for English-only models.
        n_mels: mel bands of its features.
        num_workers: batches worked on at a time.
    """

    def __init__(self, asr: Transcriber) -> None:
        self._asr = asr
        self.is_multilingual = asr.engine.is_multilingual
        self.n_mels = asr.engine.n_mels
        self.num_workers = asr.engine.workers

    def unload_model(self) -> None:
        """Free the weights, for good."""
        self._asr.close()


class WhisperModel:
    """A loaded model, with faster-whisper's interface. Several threads may use one.

    The weights are freed when nobody holds the model or a generator of segments from it any more.

    Args:
        model_size_or_path: a name such as "base", a directory of CTranslate2 weights, or a
            repository of the Hugging Face hub.
        device: "cpu", "cuda" or "auto".
        device_index: the CUDA device, or a list of several.
        compute_type: CTranslate2's; "default" and "auto" are the best that the device supports.
        cpu_threads: threads for each worker on a CPU; 0 shares out the cores.
        num_workers: batches worked on at a time on each device.
        download_root: the hub's cache, if not the usual one.
        local_files_only: do not fetch anything.
        files: cannot be honoured; weights lie in a directory.
        revision: of the hub's repository.
        use_auth_token: the hub's token, or True for the one that is stored.
        **model_kwargs: CTranslate2's others cannot be honoured, except at their defaults.

    Attributes:
        model: see `CTranslate2Model`.
        hf_tokenizer: of the model's vocabulary.
        feature_extractor: of the model's features.

    Raises:
        OptionError: an argument cannot be honoured.
        ModelError: the weights cannot be had.
    """

    input_stride = 2
    num_samples_per_token = 320
    frames_per_second = 100
    tokens_per_second = 50
    time_precision = 0.02
    max_length = 448

    def __init__(
        self,
        model_size_or_path: str | PathLike[str],
        device: str = "auto",
        device_index: int | Sequence[int] = 0,
        compute_type: str = "default",
        cpu_threads: int = 0,
        num_workers: int = 1,
        download_root: str | None = None,
        local_files_only: bool = False,
        files: dict[str, Any] | None = None,
        revision: str | None = None,
        use_auth_token: str | bool | None = None,
        **model_kwargs: object,
    ) -> None:
        if files:
            raise OptionError("files cannot be honoured; give the directory that they lie in")
        for name, value in model_kwargs.items():
            if name not in IDLE or value != IDLE[name]:
                raise OptionError(f"{name}={value!r} cannot be honoured; leave it out")
        self.logger = logging.getLogger(__name__)
        self._asr = load(
            find(
                model_size_or_path,
                download_root=download_root,
                local_files_only=local_files_only,
                revision=revision,
                use_auth_token=use_auth_token,
            ),
            device=cast("Literal['auto', 'cpu', 'cuda']", device),
            device_index=device_index if isinstance(device_index, int) else tuple(device_index),
            compute_type="auto" if compute_type == "default" else compute_type,
            inter_threads=num_workers,
            intra_threads=cpu_threads,
        )
        self._describe()

    def _describe(self) -> None:
        """Attributes of the model that is loaded."""
        self.model = CTranslate2Model(self._asr)
        self.hf_tokenizer = self._asr.engine.tokenizer
        self.feature_extractor = FeatureExtractor(self.model.n_mels)

    @property
    def is_multilingual(self) -> bool:
        """False for English-only models."""
        return self.model.is_multilingual

    @property
    def supported_languages(self) -> list[str]:
        """Codes of the languages that it may be asked for."""
        return list(LANGUAGES) if self.is_multilingual else ["en"]

    def transcribe(
        self,
        audio: Audio,
        language: str | None = None,
        task: str = "transcribe",
        log_progress: bool = False,
        beam_size: int = 5,
        best_of: int = 5,
        patience: float = 1,
        length_penalty: float = 1,
        repetition_penalty: float = 1,
        no_repeat_ngram_size: int = 0,
        temperature: float | Sequence[float] = LADDER,
        compression_ratio_threshold: float | None = 2.4,
        log_prob_threshold: float | None = -1.0,
        no_speech_threshold: float | None = 0.6,
        condition_on_previous_text: bool = unless_given(True),
        prompt_reset_on_temperature: float = 0.5,
        initial_prompt: str | Iterable[int] | None = None,
        prefix: str | None = None,
        suppress_blank: bool = True,
        suppress_tokens: Sequence[int] | None = SYMBOLS,
        without_timestamps: bool = False,
        max_initial_timestamp: float = 1.0,
        word_timestamps: bool = False,
        prepend_punctuations: str = PREPENDED,
        append_punctuations: str = APPENDED,
        multilingual: bool = False,
        vad_filter: bool = unless_given(False),
        vad_parameters: Mapping[str, Any] | VadOptions | None = None,
        max_new_tokens: int | None = None,
        chunk_length: int | None = None,
        clip_timestamps: str | Sequence[float] | Sequence[Mapping[str, float]] = "0",
        hallucination_silence_threshold: float | None = None,
        hotwords: str | None = None,
        language_detection_threshold: float | None = 0.5,
        language_detection_segments: int = unless_given(1),
    ) -> Segments:
        """The segments of a recording, as they are decoded, and what is known of it before.

        It is worked on in batches of eight chunks. What each parameter means here is in
        docs/how-to/move-from-faster-whisper.md. Three defaults stand for "as is best":
        `condition_on_previous_text` is off, `vad_filter` on, and the language is listened for all
        over the recording. Given, they are honoured: True, False, a number of windows of 30 s.

        Raises:
            OptionError: a parameter cannot be honoured.
            AudioError: the recording cannot be read.
        """
        return self._transcribe(locals())

    def _transcribe(self, arguments: dict[str, Any]) -> Segments:
        """One recording, by the arguments of either class's `transcribe`."""
        given = {name: value for name, value in arguments.items() if name not in ("self", "audio")}
        return _session.transcribe(self._asr, arguments["audio"], Request(**given))

    def detect_language(
        self,
        audio: Audio | None = None,
        features: npt.NDArray[np.float32] | None = None,
        vad_filter: bool = unless_given(False),
        vad_parameters: Mapping[str, Any] | VadOptions | None = None,
        language_detection_segments: int = unless_given(1),
        language_detection_threshold: float = 0.5,
    ) -> tuple[str, float, list[tuple[str, float]]]:
        """A recording's language, its probability, and those of all, the most probable first.

        Args:
            audio: of which voiced windows are listened to, eight of 10 s all over it by default.
            features: in place of `audio`, of shape (n_mels, n_frames): its first windows of 30 s.
            vad_filter: False, if given, listens to whatever there is.
            vad_parameters: as in `transcribe`.
            language_detection_segments: windows of 30 s, if given.
            language_detection_threshold: a window whose best language is less probable does not
                vote.

        Returns:
            ("en", 0.0, []) where nobody speaks.

        Raises:
            OptionError: neither audio nor features are given, or a parameter cannot be honoured.
            AudioError: the recording cannot be read.
        """
        options = detection_options(
            vad_filter=vad_filter,
            vad_parameters=vad_parameters,
            segments=language_detection_segments,
            threshold=language_detection_threshold,
        )
        if audio is not None:
            return _detection.in_audio(self._asr, audio, options)
        if features is None:
            raise OptionError("audio or features must be given")
        return _detection.in_features(self._asr, features, options)

    def detect_language_multi_segment(
        self, audio: Audio, params: Mapping[str, Any] | None = None
    ) -> dict[str, str | float | None]:
        """A recording's language as older versions told it.

        Args:
            audio: of which voiced windows are listened to.
            params: language_detection_segments (4 windows of 30 s), language_threshold (0.7),
                vad_filter (True), vad_min_silence_duration (ms), speech_percentage_threshold (a
                share of the recording: with less speech than that nobody speaks), multilingual
                (True is warned about: one language is told in any case).

        Returns:
            language_code, None where nobody speaks, and language_confidence.

        Raises:
            OptionError: a parameter is unknown or cannot be honoured.
            AudioError: the recording cannot be read.
        """
        return _detection.in_segments(self._asr, audio, params or {})


class BatchedInferencePipeline:
    """faster-whisper's batched interface: the same pipeline, with a batch size.

    Args:
        model: runs it.
    """

    def __init__(self, model: WhisperModel) -> None:
        if not isinstance(model, WhisperModel):
            raise OptionError(f"model must be a WhisperModel of {__name__}, not {model!r}")
        self.model = model
        self.last_speech_timestamp = 0.0

    def transcribe(
        self,
        audio: Audio,
        language: str | None = None,
        task: str = "transcribe",
        log_progress: bool = False,
        beam_size: int = 5,
        best_of: int = 5,
        patience: float = 1,
        length_penalty: float = 1,
        repetition_penalty: float = 1,
        no_repeat_ngram_size: int = 0,
        temperature: float | Sequence[float] = LADDER,
        compression_ratio_threshold: float | None = 2.4,
        log_prob_threshold: float | None = -1.0,
        no_speech_threshold: float | None = 0.6,
        condition_on_previous_text: bool = unless_given(True),
        prompt_reset_on_temperature: float = 0.5,
        initial_prompt: str | Iterable[int] | None = None,
        prefix: str | None = None,
        suppress_blank: bool = True,
        suppress_tokens: Sequence[int] | None = SYMBOLS,
        without_timestamps: bool = True,
        max_initial_timestamp: float = 1.0,
        word_timestamps: bool = False,
        prepend_punctuations: str = PREPENDED,
        append_punctuations: str = APPENDED,
        multilingual: bool = False,
        vad_filter: bool = True,
        vad_parameters: Mapping[str, Any] | VadOptions | None = None,
        max_new_tokens: int | None = None,
        chunk_length: int | None = None,
        clip_timestamps: str | Sequence[float] | Sequence[Mapping[str, float]] | None = None,
        hallucination_silence_threshold: float | None = None,
        batch_size: int = 8,
        hotwords: str | None = None,
        language_detection_threshold: float | None = 0.5,
        language_detection_segments: int = unless_given(1),
    ) -> Segments:
        """As `WhisperModel.transcribe`; what theirs ignores in batches has its effect here.

        `batch_size` is how many chunks are decoded together.
        """
        return self.model._transcribe(locals())  # noqa: SLF001 - of the same module
