"""The thresholds that faster-whisper's fallback to other temperatures compares a text with."""

from whisperbatch.compat.faster_whisper._results import TranscriptionOptions
from whisperbatch.compat.faster_whisper._windows.results import GenerationResult

FallbackResult = tuple[GenerationResult, float, float, float]
"""A text, its avg_logprob, the last temperature, and the compression ratio of the text."""


def avg_logprob_of(result: GenerationResult, length_penalty: float) -> float:
    """Return the mean natural-log probability per token, end of text included."""
    length = len(result.sequences_ids[0])
    return float(result.scores[0] * max(length, 1) ** length_penalty / (length + 1))


def is_probable(avg_logprob: float, options: TranscriptionOptions) -> bool:
    """Return whether the log-probability is above its threshold; False without a threshold."""
    threshold = options.log_prob_threshold
    return threshold is not None and avg_logprob > threshold


def is_improbable(avg_logprob: float, options: TranscriptionOptions) -> bool:
    """Return whether the log-probability is below its threshold; False without a threshold."""
    threshold = options.log_prob_threshold
    return threshold is not None and avg_logprob < threshold


def is_repetitive(ratio: float, options: TranscriptionOptions) -> bool:
    """Return whether the compression ratio is above its threshold."""
    threshold = options.compression_ratio_threshold
    return threshold is not None and ratio > threshold


def is_silent(result: GenerationResult, options: TranscriptionOptions) -> bool:
    """Return whether the probability of the no-speech token is above its threshold."""
    threshold = options.no_speech_threshold
    return threshold is not None and result.no_speech_prob > threshold
