"""faster-whisper's two classes, and the classes of their results."""

import os
import weakref
from collections.abc import Generator, Iterable, Mapping, Sequence
from functools import partial
from os import PathLike
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from whisperbatch import load
from whisperbatch.compat.faster_whisper import _session
from whisperbatch.compat.faster_whisper._arguments import (
    APPENDED,
    PREPENDED,
    SUPPRESSED_TOKENS,
    TEMPERATURES,
    TranscribeArguments,
)
from whisperbatch.compat.faster_whisper._detection import DetectionMethods
from whisperbatch.compat.faster_whisper._loading import (
    CTranslate2Model,
    check_model_arguments,
    engine_settings,
    write_files,
)
from whisperbatch.compat.faster_whisper._results import (
    Segment,
    TranscriptionInfo,
    TranscriptionOptions,
    Word,
)
from whisperbatch.compat.faster_whisper._values import (
    OriginalMethod,
    faster_whisper_names,
    implicit,
    original,
    originals,
)
from whisperbatch.compat.faster_whisper.audio import decode_audio
from whisperbatch.compat.faster_whisper.utils import (
    download_model,
    format_timestamp,
    get_logger,
    model_to_load,
)
from whisperbatch.compat.faster_whisper.vad import VadOptions, get_speech_timestamps
from whisperbatch.engines.settings import is_cuda
from whisperbatch.errors import OptionError
from whisperbatch.text import LANGUAGES, shown
from whisperbatch.threads import cached_property

__all__ = [
    "BatchedInferencePipeline",
    "Segment",
    "TranscriptionInfo",
    "TranscriptionOptions",
    "VadOptions",
    "WhisperModel",
    "Word",
    "decode_audio",
    "download_model",
    "format_timestamp",
    "get_logger",
    "get_speech_timestamps",
]

__getattr__ = originals(
    __name__,
    *("FeatureExtractor", "SpeechTimestampsMap", "Tokenizer", "_LANGUAGE_CODES"),
    *("collect_chunks", "get_compression_ratio", "get_ctranslate2_storage", "get_end"),
    *("get_suppressed_tokens", "merge_punctuations", "pad_or_trim", "restore_speech_timestamps"),
)

Audio = str | PathLike[str] | BinaryIO | npt.NDArray[np.float32]
"""A path, an open binary file, or samples at 16 kHz in any object with `__array__`."""

Segments = tuple[Generator[Segment, None, None], TranscriptionInfo]


class WhisperModel(DetectionMethods):
    """A loaded model with faster-whisper's interface. Several threads may use the same model.

    The weights are freed when no variable refers to the model or to a generator of its segments.

    Args:
        model_size_or_path: a name such as "base", a directory of CTranslate2 weights, or a
            repository of the Hugging Face hub.
        device: "cpu", "cuda" or "auto".
        device_index: the CUDA device, or a list of several.
        compute_type: as in CTranslate2; "default" and "auto": the best type for the device.
        cpu_threads: threads of each worker on a CPU; 0 divides the cores among the workers.
        num_workers: number of batches decoded at a time on each device. With 1, the engine chooses.
        download_root: the directory of the hub's cache, instead of the default directory.
        local_files_only: do not download anything.
        files: contents of the model's files by name, as bytes or open binary files. They are
            written to a temporary directory, which is removed with the model.
        revision: of the hub's repository.
        use_auth_token: the hub's token, or True for the stored token.
        **model_kwargs: of CTranslate2's model: `flash_attention`, and defaults of other arguments.

    Attributes:
        model: see `CTranslate2Model`.
        hf_tokenizer: the tokenizer of the model's vocabulary.
        feature_extractor: faster-whisper's, for the model's features.
        logger: whisperbatch's logger.

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

    # for programs that decode windows in their own order; `transcribe` does not call them
    encode = OriginalMethod("WhisperModel")
    get_prompt = OriginalMethod("WhisperModel")
    generate_with_fallback = OriginalMethod("WhisperModel")
    generate_segments = OriginalMethod("WhisperModel")
    find_alignment = OriginalMethod("WhisperModel")
    add_word_timestamps = OriginalMethod("WhisperModel")
    _split_segments_by_timestamps = OriginalMethod("WhisperModel")

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
        flash_attention = model_kwargs.pop("flash_attention", False)
        check_model_arguments(model_kwargs)
        self.logger = get_logger()
        directory = write_files(model_size_or_path, files)
        weights = model_to_load(
            directory.name if directory else model_size_or_path,
            download_root=download_root,
            local_files_only=local_files_only,
            revision=revision,
            use_auth_token=use_auth_token,
        )
        with faster_whisper_names():
            settings = engine_settings(
                *(device, device_index, compute_type),
                num_workers=num_workers,
                intra_threads=cpu_threads,
                flash_attention=flash_attention,
            )
            loading: dict[str, Any] = {"device": device, **settings}
            self._asr = load(weights, **loading)
        if directory:  # an engine may read weights again while the model is in use
            weakref.finalize(self._asr, directory.cleanup)
        place = os.path.abspath(weights) if os.path.isdir(weights) else weights  # noqa: PTH100, PTH112
        self.model = CTranslate2Model(
            self._asr,
            partial(load, place, engine="ctranslate2", **loading),
            device="cuda" if is_cuda(device) else "cpu",
            device_index=device_index,
            compute_type=compute_type,
        )
        self.hf_tokenizer = self._asr.engine.tokenizer

    @property
    def feat_kwargs(self) -> dict[str, int]:
        """The arguments of the feature extractor that depend on the model."""
        return {"feature_size": self.model.n_mels}

    @cached_property
    def feature_extractor(self) -> Any:  # noqa: ANN401 - untyped
        """faster-whisper's feature extractor, with the model's number of mel bands."""
        return original("feature_extractor", "FeatureExtractor")(**self.feat_kwargs)

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
        """Transcribe a recording in batches of chunks.

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
        parameters = {
            name: value for name, value in arguments.items() if name not in ("self", "audio")
        }
        return _session.transcribe(self._asr, arguments["audio"], TranscribeArguments(**parameters))


class BatchedInferencePipeline:
    """faster-whisper's batched interface: `WhisperModel.transcribe` with a batch size.

    Args:
        model: transcribes the recordings.

    Attributes:
        last_speech_timestamp: end of the last speech in seconds, for the times of words in
            `forward`.
    """

    forward = OriginalMethod("BatchedInferencePipeline")
    generate_segment_batched = OriginalMethod("BatchedInferencePipeline")

    def __init__(self, model: WhisperModel) -> None:
        if not isinstance(model, WhisperModel):
            raise OptionError(f"model must be a WhisperModel of {__name__}, not {shown(model)}")
        self.model: WhisperModel = model
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
