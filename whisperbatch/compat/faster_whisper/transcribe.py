"""faster-whisper's two classes, and the classes of their results."""

import logging
from collections.abc import Generator, Iterable, Mapping, Sequence
from os import PathLike
from typing import Any, BinaryIO, cast

import numpy as np
import numpy.typing as npt

from whisperbatch import Transcriber, load
from whisperbatch.compat.faster_whisper import _detection, _session
from whisperbatch.compat.faster_whisper._arguments import (
    TranscribeArguments,
    faster_whisper_names,
    flag,
)
from whisperbatch.compat.faster_whisper._defaults import implicit
from whisperbatch.compat.faster_whisper._features import FeatureExtractor
from whisperbatch.compat.faster_whisper._parameters import (
    APPENDED,
    PREPENDED,
    SUPPRESSED_TOKENS,
    TEMPERATURES,
    detection_options,
)
from whisperbatch.compat.faster_whisper._results import (
    Segment,
    TranscriptionInfo,
    TranscriptionOptions,
    Word,
)
from whisperbatch.compat.faster_whisper._settings import check_model_arguments, engine_settings
from whisperbatch.compat.faster_whisper.utils import model_to_load
from whisperbatch.compat.faster_whisper.vad import VadOptions
from whisperbatch.errors import OptionError
from whisperbatch.text import LANGUAGES, shown

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
"""A path, an open binary file, or samples at 16 kHz in any object with `__array__`."""

Segments = tuple[Generator[Segment, None, None], TranscriptionInfo]


class CTranslate2Model:
    """The attributes and methods that programs use of `WhisperModel.model`.

    Attributes:
        is_multilingual: False for English-only models.
        n_mels: number of mel bands of the features.
        num_workers: number of batches decoded at a time.
    """

    def __init__(self, asr: Transcriber) -> None:
        self._asr = asr
        self.is_multilingual = asr.engine.is_multilingual
        self.n_mels = asr.engine.n_mels
        self.num_workers = asr.engine.workers

    def unload_model(self) -> None:
        """Free the weights. They cannot be loaded again."""
        self._asr.close()


class WhisperModel:
    """A loaded model with faster-whisper's interface. Several threads may use the same model.

    The weights are freed when no variable refers to the model or to a generator of its segments.

    Args:
        model_size_or_path: a name such as "base", a directory of CTranslate2 weights, or a
            repository of the Hugging Face hub.
        device: "cpu", "cuda" or "auto".
        device_index: the CUDA device, or a list of several.
        compute_type: as in CTranslate2; "default" and "auto": the best type for the device.
        cpu_threads: threads of each worker on a CPU; 0 divides the cores among the workers.
        num_workers: number of batches decoded at a time on each device.
        download_root: the directory of the hub's cache, instead of the default directory.
        local_files_only: do not download anything.
        files: cannot be honoured; the weights must be in a directory.
        revision: of the hub's repository.
        use_auth_token: the hub's token, or True for the stored token.
        **model_kwargs: of CTranslate2's model: `flash_attention`, and defaults of other arguments.

    Attributes:
        model: see `CTranslate2Model`.
        hf_tokenizer: the tokenizer of the model's vocabulary.
        feature_extractor: computes the model's features.

    Raises:
        OptionError: an argument cannot be honoured.
        ModelError: the weights cannot be loaded or downloaded.
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
        if files is not None and (type(files) is not dict or files):
            raise OptionError("files cannot be honoured; give the directory of the weights instead")
        flash_attention = model_kwargs.pop("flash_attention", False)
        check_model_arguments(model_kwargs)
        self.logger = logging.getLogger(__name__)
        weights = model_to_load(
            model_size_or_path,
            download_root=download_root,
            local_files_only=local_files_only,
            revision=revision,
            use_auth_token=use_auth_token,
        )
        with faster_whisper_names():
            settings = engine_settings(
                *(device, device_index, compute_type),
                inter_threads=num_workers,
                intra_threads=cpu_threads,
                flash_attention=flash_attention,
            )
            self._asr = load(weights, device=cast("Any", device), **settings)
        self._set_attributes()

    def _set_attributes(self) -> None:
        """Set the attributes that describe the loaded model."""
        self.model = CTranslate2Model(self._asr)
        self.hf_tokenizer = self._asr.engine.tokenizer
        self.feature_extractor = FeatureExtractor(self.model.n_mels)

    @property
    def is_multilingual(self) -> bool:
        """False for English-only models."""
        return self.model.is_multilingual

    @property
    def supported_languages(self) -> list[str]:
        """Codes of the languages that the model can transcribe."""
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
        temperature: float | Sequence[float] = TEMPERATURES,
        compression_ratio_threshold: float | None = 2.4,
        log_prob_threshold: float | None = -1.0,
        no_speech_threshold: float | None = 0.6,
        condition_on_previous_text: bool = implicit(True),
        prompt_reset_on_temperature: float = 0.5,
        initial_prompt: str | Iterable[int] | None = None,
        prefix: str | None = None,
        suppress_blank: bool = True,
        suppress_tokens: Sequence[int] | None = SUPPRESSED_TOKENS,
        without_timestamps: bool = False,
        max_initial_timestamp: float = 1.0,
        word_timestamps: bool = False,
        prepend_punctuations: str = PREPENDED,
        append_punctuations: str = APPENDED,
        multilingual: bool = False,
        vad_filter: bool = implicit(False),
        vad_parameters: Mapping[str, Any] | VadOptions | None = None,
        max_new_tokens: int | None = None,
        chunk_length: int | None = None,
        clip_timestamps: str | Sequence[float] | Sequence[Mapping[str, float]] = "0",
        hallucination_silence_threshold: float | None = None,
        hotwords: str | None = None,
        language_detection_threshold: float | None = 0.5,
        language_detection_segments: int = implicit(1),
    ) -> Segments:
        """Transcribe a recording in batches of eight chunks.

        docs/how-to/move-from-faster-whisper.md describes the meaning of each parameter. Three
        defaults differ in effect from faster-whisper's: `condition_on_previous_text` is off,
        `vad_filter` is on, and the language is detected in windows from the whole recording. If a
        program passes one of these parameters, its value is honoured: True, False, or a number of
        windows of 30 s.

        Returns:
            A generator of the segments, which decodes them, and the recording's properties.

        Raises:
            OptionError: a parameter cannot be honoured.
            AudioError: the recording cannot be read.
        """
        return self._transcribe(locals())

    def _transcribe(self, arguments: dict[str, Any]) -> Segments:
        """Transcribe a recording with the arguments of either class's `transcribe`."""
        parameters = {
            name: value for name, value in arguments.items() if name not in ("self", "audio")
        }
        return _session.transcribe(self._asr, arguments["audio"], TranscribeArguments(**parameters))

    def detect_language(
        self,
        audio: Audio | None = None,
        features: npt.NDArray[np.float32] | None = None,
        vad_filter: bool = implicit(False),
        vad_parameters: Mapping[str, Any] | VadOptions | None = None,
        language_detection_segments: int = implicit(1),
        language_detection_threshold: float = 0.5,
    ) -> tuple[str, float, list[tuple[str, float]]]:
        """Detect the language of a recording.

        Args:
            audio: the recording. Windows with speech are used; by default, eight windows of 10 s
                from the whole recording.
            features: of shape (n_mels, n_frames), instead of `audio`. The first windows of 30 s
                are used.
            vad_filter: False also uses windows without speech.
            vad_parameters: as in `transcribe`.
            language_detection_segments: number of windows; if it is given, they are 30 s long.
            language_detection_threshold: a window whose best language is less probable does not
                vote.

        Returns:
            The language, its probability, and the languages with their probabilities, the most
            probable first. ("en", 0.0, []) for a recording without speech.

        Raises:
            OptionError: neither audio nor features are given, or a parameter cannot be honoured.
            AudioError: the recording cannot be read.
        """
        options = detection_options(
            vad_filter=flag("vad_filter", vad_filter),
            vad_parameters=vad_parameters,
            segments=language_detection_segments,
            threshold=language_detection_threshold,
        )
        if audio is not None:
            return _detection.detect_in_audio(self._asr, audio, options)
        if features is None:
            raise OptionError("audio or features must be given")
        return _detection.detect_in_features(self._asr, features, options)

    def detect_language_multi_segment(
        self, audio: Audio, params: Mapping[str, Any] | None = None
    ) -> dict[str, str | float | None]:
        """Detect the language of a recording, as older versions of faster-whisper do.

        Args:
            audio: the recording. Windows with speech are used.
            params: language_detection_segments (4 windows of 30 s), language_threshold (0.7),
                vad_filter (True), vad_min_silence_duration (ms), speech_percentage_threshold (a
                fraction of the recording; a recording with less speech counts as one without
                speech), multilingual (True logs a warning: only one language is returned).

        Returns:
            language_code, which is None for a recording without speech, and language_confidence.

        Raises:
            OptionError: a parameter is unknown or cannot be honoured.
            AudioError: the recording cannot be read.
        """
        return _detection.detect_multi_segment(self._asr, audio, {} if params is None else params)


class BatchedInferencePipeline:
    """faster-whisper's batched interface: `WhisperModel.transcribe` with a batch size.

    Args:
        model: transcribes the recordings.
    """

    def __init__(self, model: WhisperModel) -> None:
        if not isinstance(model, WhisperModel):
            raise OptionError(f"model must be a WhisperModel of {__name__}, not {shown(model)}")
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
        temperature: float | Sequence[float] = TEMPERATURES,
        compression_ratio_threshold: float | None = 2.4,
        log_prob_threshold: float | None = -1.0,
        no_speech_threshold: float | None = 0.6,
        condition_on_previous_text: bool = implicit(True),
        prompt_reset_on_temperature: float = 0.5,
        initial_prompt: str | Iterable[int] | None = None,
        prefix: str | None = None,
        suppress_blank: bool = True,
        suppress_tokens: Sequence[int] | None = SUPPRESSED_TOKENS,
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
        language_detection_segments: int = implicit(1),
    ) -> Segments:
        """Transcribe a recording as `WhisperModel.transcribe` does, `batch_size` chunks at a time.

        Parameters that faster-whisper ignores in its batched interface have an effect here.
        """
        return self.model._transcribe(locals())  # noqa: SLF001 - a class of the same module
