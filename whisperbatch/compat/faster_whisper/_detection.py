"""Language detection for the methods of faster-whisper's WhisperModel."""

import logging
from collections.abc import Mapping
from typing import Any, Final, cast

import numpy as np
import numpy.typing as npt

from whisperbatch import Transcriber
from whisperbatch.compat.faster_whisper._arguments import detection_keywords, detection_options
from whisperbatch.compat.faster_whisper._session import (
    as_source,
    second_source,
    seconds_of_speech,
)
from whisperbatch.compat.faster_whisper._values import flag, implicit
from whisperbatch.compat.faster_whisper.vad import VadOptions
from whisperbatch.errors import OptionError
from whisperbatch.features import silence_value
from whisperbatch.language import decide
from whisperbatch.options import Options, checks, plain
from whisperbatch.text import shown
from whisperbatch.types import WINDOW_FRAMES, LanguageScores

Detected = tuple[str, float, list[tuple[str, float]]]
"""The language, its probability, and the probability of each language in descending order."""

DEFAULT_PARAMS: Final[Mapping[str, Any]] = {
    "multilingual": False,
    "speech_percentage_threshold": None,
    "language_detection_segments": 4,
    "vad_filter": True,
    "vad_min_silence_duration": None,
    "language_threshold": 0.7,
}
"""The keys of `params` of `detect_language_multi_segment`, with their defaults."""

log = logging.getLogger(__name__)


def detect_in_audio(asr: Transcriber, audio: object, options: Options) -> Detected:
    """Detect the language of a recording; see `WhisperModel.detect_language`."""
    detection = asr.detect_language(as_source(audio), **detection_keywords(options))
    language = detection.language or "en"
    return language, detection.probability, list(detection.probabilities.items())


def detect_in_features(
    asr: Transcriber, features: npt.NDArray[np.float32], options: Options
) -> Detected:
    """Detect the language in the first `language_detection_segments` windows of 30 s.

    Args:
        asr: its model detects the language.
        features: of shape (n_mels, n_frames).
        options: of the detection.

    Raises:
        OptionError: the shape of the features does not fit the model.
    """
    engine = asr.engine
    try:
        features = np.asarray(features, np.float32)
    except Exception as error:  # a foreign object may raise anything
        raise OptionError(f"features={shown(features)} must be an array of float32") from error
    if features.ndim != 2 or features.shape[0] != engine.n_mels or not features.shape[1]:  # noqa: PLR2004
        raise OptionError(
            f"features have shape {features.shape}, not (n_mels, n_frames): this model has "
            f"{engine.n_mels} mel bands"
        )
    if not engine.is_multilingual:
        return "en", 1.0, [("en", 1.0)]
    scores = []
    max_frames = options.language_detection_segments * WINDOW_FRAMES
    for start in range(0, min(features.shape[1], max_frames), WINDOW_FRAMES):
        window = features[:, start : start + WINDOW_FRAMES]
        padded = np.full((1, engine.n_mels, WINDOW_FRAMES), silence_value(features), np.float32)
        padded[0, :, : window.shape[1]] = window
        [probabilities] = engine.detect_language(engine.encode(padded))
        scores.append(LanguageScores(probabilities, float(window.shape[1])))
    decision = decide(scores, options)
    ranked = sorted(decision.probabilities.items(), key=lambda item: -item[1])
    return decision.language, decision.probability, ranked


def detect_multi_segment(
    asr: Transcriber, audio: object, params: Mapping[str, Any]
) -> dict[str, str | float | None]:
    """Detect the language; see `WhisperModel.detect_language_multi_segment`."""
    if not issubclass(type(params), Mapping):
        raise OptionError(f"params must be a dict, not {shown(params)}")
    if unknown := [name for name in params if name not in DEFAULT_PARAMS]:
        raise OptionError(f"params: {shown(unknown[0])} is none of {', '.join(DEFAULT_PARAMS)}")
    values = {**DEFAULT_PARAMS, **params}
    values["multilingual"] = flag("multilingual", values["multilingual"])
    min_fraction = plain(values["speech_percentage_threshold"])
    if min_fraction is not None:
        checks.number("speech_percentage_threshold", min_fraction, minimum=0, maximum=1)
    if values["multilingual"]:
        log.warning("multilingual=True: only the language with the most speech is returned")
    silence = values["vad_min_silence_duration"]
    options = detection_options(
        vad_filter=flag("vad_filter", values["vad_filter"]),
        vad_parameters=None if silence is None else {"min_silence_duration_ms": silence},
        segments=values["language_detection_segments"],
        threshold=values["language_threshold"],
    )
    source = as_source(audio)
    if min_fraction is not None and options.vad:
        if (second := second_source(source)) is None:
            raise OptionError(
                "speech_percentage_threshold needs a recording that can be read twice; leave it out"
            )
        speech, duration = seconds_of_speech(second, options)
        if speech < cast("float", min_fraction) * duration:
            return {"language_code": None, "language_confidence": 1.0}
    detection = asr.detect_language(source, **detection_keywords(options))
    if detection.language is None:
        return {"language_code": None, "language_confidence": 1.0}
    return {"language_code": detection.language, "language_confidence": detection.probability}


class DetectionMethods:
    """The methods of WhisperModel that detect languages."""

    _asr: Transcriber

    def detect_language(
        self,
        audio: object = None,
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
            return detect_in_audio(self._asr, audio, options)
        if features is None:
            raise OptionError("audio or features must be given")
        return detect_in_features(self._asr, features, options)

    def detect_language_multi_segment(
        self, audio: object, params: Mapping[str, Any] | None = None
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
        return detect_multi_segment(self._asr, audio, {} if params is None else params)
