"""The types of keywords. Written by `make declarations`: do not edit."""

from typing import TypedDict

from whisperbatch.options.decoding import Segments, Task, Timestamps
from whisperbatch.options.groups import Channel, CodeSwitchingOutput, FeatureKind
from whisperbatch.options.known_speakers import KnownSpeakers
from whisperbatch.options.speakers import DiarizerChoice, SpeakerKind


class DetectionKeywords(TypedDict, total=False):
    """The options that have an effect on `detect_language`."""

    track: int | None
    channel: Channel
    sampling_rate: int | None
    clip_timestamps: tuple[tuple[float, float | None], ...]
    max_duration: float | None
    vad: bool
    vad_onset: float
    vad_offset: float
    min_speech_duration: float
    min_silence_duration: float
    speech_pad: float
    second_opinion: bool
    second_opinion_threshold: float
    features: FeatureKind
    languages: tuple[str, ...]
    language_detection_segments: int
    language_detection_length: float
    language_detection_threshold: float


class OptionKeywords(DetectionKeywords, total=False):
    """All options."""

    max_speech_duration: float
    chunk_length: float
    max_silence: float | None
    language: str | None
    multilingual: bool
    code_switching_output: CodeSwitchingOutput
    latin_names: bool
    beam_size: int
    patience: float
    length_penalty: float
    repetition_penalty: float
    no_repeat_ngram_size: int
    suppress_blank: bool
    suppress_tokens: tuple[int, ...]
    max_initial_timestamp: float
    max_new_tokens: int | None
    task: Task
    batch_size: int | None
    temperature: float | tuple[float, ...]
    best_of: int
    seed: int
    compression_ratio_threshold: float | None
    log_prob_threshold: float | None
    no_speech_threshold: float | None
    coverage_threshold: float | None
    hallucination_filter: bool
    initial_prompt: str | tuple[int, ...] | None
    hotwords: str | None
    prefix: str | None
    condition_on_previous_text: bool
    timestamps: Timestamps
    segments: Segments
    word_timestamps: bool
    diarize: bool
    speaker: SpeakerKind
    num_speakers: int | None
    min_speakers: int | None
    max_speakers: int | None
    known_speakers: KnownSpeakers | None
    diarizer: DiarizerChoice
