"""Hints for unknown option names: close spellings, and the names that other projects use."""

import difflib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from types import MappingProxyType
from typing import Final

from whisperbatch.options.options import Options

MIN_SIMILARITY: Final = 0.75  # difflib's ratio: below it, other words only share letters
MAX_NAME: Final = 60  # characters that are compared with the names of options
LOAD: Final = "a keyword of load"
SECONDS: Final = "in seconds"

OTHER_NAMES: Final[Mapping[str, tuple[str, str]]] = MappingProxyType(
    {
        # openai/whisper
        "logprob_threshold": ("log_prob_threshold", ""),
        "sample_len": ("max_new_tokens", ""),
        "temperature_increment_on_fallback": ("temperature", "a tuple such as (0.0, 0.2, 0.4)"),
        "fp16": ("compute_type", LOAD),
        "threads": ("intra_threads", LOAD),
        # faster-whisper
        "vad_filter": ("vad", ""),
        "vad_parameters": ("vad_onset", "every VAD parameter is an option"),
        "threshold": ("vad_onset", ""),
        "vad_threshold": ("vad_onset", ""),
        "neg_threshold": ("vad_offset", ""),
        "min_speech_duration_ms": ("min_speech_duration", SECONDS),
        "min_silence_duration_ms": ("min_silence_duration", SECONDS),
        "speech_pad_ms": ("speech_pad", SECONDS),
        "max_speech_duration_s": ("max_speech_duration", SECONDS),
        "without_timestamps": ("timestamps", "the default decodes without timestamp tokens"),
        "hallucination_silence_threshold": ("hallucination_filter", ""),
        "cpu_threads": ("intra_threads", LOAD),
        "num_workers": ("inter_threads", LOAD),
        # earlier versions of whisperbatch
        "encoder": ("engine", LOAD),
        "decoder": ("engine", LOAD),
        "assistant": ("draft_model", LOAD),
        # transformers
        "num_beams": ("beam_size", ""),
        "chunk_length_s": ("chunk_length", SECONDS),
        "return_timestamps": ("word_timestamps", ""),
        "torch_dtype": ("compute_type", LOAD),
        "dtype": ("compute_type", LOAD),
        # WhisperX, whisper.cpp, stable-ts and OpenAI's API
        "chunk_size": ("chunk_length", SECONDS),
        "speaker_labels": ("diarize", ""),
        "diarization": ("diarize", ""),
        "diarize_model": ("diarizer", ""),
        "hf_token": ("", "set the environment variable HF_TOKEN"),
        "prompt": ("initial_prompt", ""),
        "translate": ("task", 'the value "translate"'),
        "word_level_timestamps": ("word_timestamps", ""),
        # short forms
        "lang": ("language", ""),
        "beam": ("beam_size", ""),
        "beams": ("beam_size", ""),
        "batch": ("batch_size", ""),
        "temp": ("temperature", ""),
    }
)
"""Name elsewhere -> name here ("" if there is no such option), and a remark."""


def hint_for(
    name: str, names: Iterable[str] | None = None, spell: Callable[[str], str] = str
) -> str:
    """Return how to correct an unknown option name: "did you mean beam_size?", "use vad".

    Args:
        name: the unknown name, as a keyword (`vad_filter`) or as a flag (`--vad-filter`).
        names: the names that may be suggested for a close spelling; None for all options.
        spell: writes a name for the message; the command line makes a flag of the name.

    Returns:
        The hint, or "" if no name is close and the name is not known from other projects.
    """
    keyword = name.lstrip("-").replace("-", "_").lower()[:MAX_NAME]
    if keyword in OTHER_NAMES:
        here, remark = OTHER_NAMES[keyword]
        if not here:
            return remark
        return f"use {spell(here)} ({remark})" if remark else f"use {spell(here)}"
    known = names if names is not None else [field.name for field in fields(Options)]
    close = difflib.get_close_matches(keyword, known, n=1, cutoff=MIN_SIMILARITY)
    return f"did you mean {spell(close[0])}?" if close else ""
