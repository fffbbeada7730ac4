"""faster-whisper's ways to ask for a recording's language."""

import logging
from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from whisperbatch import Transcriber
from whisperbatch.compat.faster_whisper._parameters import detection_options, keywords_of
from whisperbatch.compat.faster_whisper._session import seconds_of_speech
from whisperbatch.compat.faster_whisper._sources import again, as_source
from whisperbatch.errors import OptionError
from whisperbatch.features import silence_beside
from whisperbatch.language import decide
from whisperbatch.options import Options
from whisperbatch.types import WINDOW_FRAMES, LanguageScores

Detected = tuple[str, float, list[tuple[str, float]]]

PARAMS: Final[Mapping[str, Any]] = {
    "multilingual": False,
    "speech_percentage_threshold": None,
    "language_detection_segments": 4,
    "vad_filter": True,
    "vad_min_silence_duration": None,
    "language_threshold": 0.7,
}
"""What `detect_language_multi_segment` takes."""

log = logging.getLogger(__name__)


def in_audio(asr: Transcriber, audio: object, options: Options) -> Detected:
    """The language of a recording; see `WhisperModel.detect_language`."""
    found = asr.detect_language(as_source(audio), **keywords_of(options))
    return found.language or "en", found.probability, list(found.probabilities.items())


def in_features(asr: Transcriber, given: npt.NDArray[np.float32], options: Options) -> Detected:
    """The same by the first windows of 30 s, as many as `language_detection_segments`."""
    engine = asr.engine
    features = np.asarray(given, np.float32)
    if features.ndim != 2 or features.shape[0] != engine.n_mels or not features.shape[1]:  # noqa: PLR2004
        raise OptionError(
            f"features have shape {features.shape}, not (n_mels, n_frames): this model has "
            f"{engine.n_mels} mel bands"
        )
    if not engine.is_multilingual:
        return "en", 1.0, [("en", 1.0)]
    heard = []
    most = options.language_detection_segments * WINDOW_FRAMES
    for start in range(0, min(features.shape[1], most), WINDOW_FRAMES):
        window = features[:, start : start + WINDOW_FRAMES]
        padded = np.full((1, engine.n_mels, WINDOW_FRAMES), silence_beside(features), np.float32)
        padded[0, :, : window.shape[1]] = window
        [probabilities] = engine.detect_language(engine.encode(padded))
        heard.append(LanguageScores(probabilities, float(window.shape[1])))
    decision = decide(heard, options)
    ranked = sorted(decision.probabilities.items(), key=lambda item: -item[1])
    return decision.language, decision.probability, ranked


def in_segments(
    asr: Transcriber, audio: object, params: Mapping[str, Any]
) -> dict[str, str | float | None]:
    """See `WhisperModel.detect_language_multi_segment`."""
    if unknown := [name for name in params if name not in PARAMS]:
        raise OptionError(f"params: {unknown[0]!r} is none of {', '.join(PARAMS)}")
    values = {**PARAMS, **params}
    if values["multilingual"]:
        log.warning("multilingual: the language that most is spoken in is what is told")
    silence = values["vad_min_silence_duration"]
    options = detection_options(
        vad_filter=values["vad_filter"],
        vad_parameters=None if silence is None else {"min_silence_duration_ms": silence},
        segments=values["language_detection_segments"],
        threshold=values["language_threshold"],
    )
    source, least = as_source(audio), values["speech_percentage_threshold"]
    if least is not None and options.vad:
        if (twice := again(source)) is None:
            raise OptionError(
                "speech_percentage_threshold needs a recording that can be read twice; leave it out"
            )
        speech, duration = seconds_of_speech(twice, options)
        if speech < least * duration:
            return {"language_code": None, "language_confidence": 1.0}
    found = asr.detect_language(source, **keywords_of(options))
    if found.language is None:
        return {"language_code": None, "language_confidence": 1.0}
    return {"language_code": found.language, "language_confidence": found.probability}
