"""faster-whisper's arguments of `transcribe` as our options, or refused by name.

Parameters that need another parameter are ignored without it, as faster-whisper documents:
`best_of` needs a temperature, `patience` a beam, and `vad_parameters` needs `vad_filter`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import fields
from types import SimpleNamespace
from typing import Any, Final, cast

from whisperbatch.compat.faster_whisper._results import TranscriptionOptions
from whisperbatch.compat.faster_whisper._values import (
    faster_whisper_names,
    flag,
    implicit,
    is_explicit,
    tokens,
)
from whisperbatch.compat.faster_whisper.vad import vad_keywords
from whisperbatch.errors import OptionError
from whisperbatch.limits import MAX_DURATION
from whisperbatch.options import (
    DETECTION_OPTIONS,
    MAX_TEMPERATURE,
    PROMPT_RESET_TEMPERATURE,
    DetectionKeywords,
    OptionKeywords,
    Options,
    SearchOptions,
    checks,
    for_detection,
    is_number,
    plain,
    resolve,
)
from whisperbatch.text import given_language, shown
from whisperbatch.types import WINDOW, to_seconds

TEMPERATURES: Final = [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
"""The default of `temperature`."""

SUPPRESSED_TOKENS: Final = [-1]
"""The default of `suppress_tokens`: the model's own list of symbols."""

MAX_PAUSE: Final = 0.4
"""Longest pause inside a chunk of a batch, in seconds, with the margins of speech on both sides.

With this value, 14 recordings in 5 languages have 46 chunks, as many as in faster-whisper, whose
pauses have at most 0.8 s. There would be 49 chunks with 0.8 s, and 56 with complete pauses, because
more audio counts as speech here (the second opinion). A lecture of 203 s has 6 chunks, as in
faster-whisper. Shorter pauses lose no speech (docs/explanation/choices.md).
"""

PREPENDED: Final = "\"'“¿([{-"
APPENDED: Final = "\"'.。,，!！?？:：”)]}、"  # noqa: RUF001 - full-width punctuation


TRUTH_VALUES: Final = ("log_progress", "without_timestamps", "multilingual", "vad_filter")
"""Parameters of which faster-whisper only tests the truth: programs pass None, 0 and 1, too."""

BOOLEANS: Final = ("condition_on_previous_text", "suppress_blank", "word_timestamps")
"""Parameters that must be True or False."""

TOKENS: Final = ("initial_prompt", "suppress_tokens")
"""Parameters that hold token ids."""

SAME: Final = (
    *("task", "repetition_penalty", "no_repeat_ngram_size", "compression_ratio_threshold"),
    *("log_prob_threshold", "no_speech_threshold", "suppress_blank", "word_timestamps"),
    "max_new_tokens",
)
"""Parameters that are options with the same name and meaning."""


class TranscribeArguments(SimpleNamespace):
    """The arguments of a call of faster-whisper's `transcribe`, in attributes of the same name.

    Tokens of a prompt are a tuple; the language is a code, or None to detect the language.
    `batch_size` is None unless it is a call of `BatchedInferencePipeline`.
    """

    def __init__(self, **arguments: object) -> None:
        super().__init__(batch_size=None)
        for name, value in arguments.items():
            setattr(self, name, _check(name, value))

    def replace(self, **changes: object) -> "TranscribeArguments":
        """Return a copy with some other arguments."""
        return TranscribeArguments(**{**vars(self), **changes})


def _check(name: str, value: object) -> object:
    """Return a value in Python's own type, or an implicit default."""
    if name in TRUTH_VALUES:
        return flag(name, value)
    if name in TOKENS:
        return tokens(name, value)
    if not is_explicit(value):
        return value
    value = plain(value)
    if name in BOOLEANS:
        checks.boolean(name, value)
    return given_language(value) if name == "language" and value is not None else value


def to_options(
    arguments: TranscribeArguments,
    language: str | None,
    *,
    multilingual: bool,
    one_window: bool = False,
) -> Options:
    """Return our options for faster-whisper's arguments.

    Args:
        arguments: of the call.
        language: of the recording; None to detect the language while the recording is read.
        multilingual: whether the language may change within the recording.
        one_window: whether the recording is at most 30 s long.

    Raises:
        OptionError: a parameter cannot be honoured.
    """
    _check_supported(arguments)
    suppressed = arguments.suppress_tokens
    keywords: OptionKeywords = {
        **cast("OptionKeywords", {name: getattr(arguments, name) for name in SAME}),
        "suppress_tokens": () if suppressed is None else suppressed,
        "condition_on_previous_text": _uses_previous_text(arguments),
        "segments": "chunk" if arguments.without_timestamps else "sentence",
        **_search_keywords(arguments),
        **_timestamp_keywords(arguments, one_window=one_window),
        **_batch_keywords(arguments),
        **_prompt_keywords(arguments),
        **_speech_keywords(
            arguments.vad_filter, arguments.vad_parameters, arguments.clip_timestamps
        ),
        **_language_keywords(arguments, language, multilingual=multilingual),
    }
    if arguments.chunk_length is not None and not is_number(arguments.chunk_length, 0):
        keywords["chunk_length"] = arguments.chunk_length
    with faster_whisper_names():
        return resolve(None, **keywords)


def to_detection_options(arguments: TranscribeArguments) -> Options:
    """Return the options that detect the recording's language for a call of `transcribe`."""
    return detection_options(
        vad_filter=arguments.vad_filter,
        vad_parameters=arguments.vad_parameters,
        segments=arguments.language_detection_segments,
        threshold=arguments.language_detection_threshold,
        clip_timestamps=arguments.clip_timestamps,
    )


def detection_options(
    *,
    vad_filter: bool,
    vad_parameters: object,
    segments: int,
    threshold: float | None,
    clip_timestamps: object = "0",
) -> Options:
    """Return the options of a language detection; each argument as in `TranscribeArguments`.

    Raises:
        OptionError: a parameter cannot be honoured.
    """
    speech = _speech_keywords(vad_filter, vad_parameters, clip_timestamps)
    speech.pop("max_speech_duration", None)
    keywords: OptionKeywords = {**speech, **_detection_window_keywords(segments, threshold)}
    with faster_whisper_names():
        return for_detection(**cast("DetectionKeywords", keywords))


def detection_keywords(options: Options) -> DetectionKeywords:
    """Return the options of a detection as keywords of `Transcriber.detect_language`."""
    defaults = Options()
    keywords = {
        name: getattr(options, name)
        for name in DETECTION_OPTIONS
        if getattr(options, name) != getattr(defaults, name)
    }
    return cast("DetectionKeywords", keywords)


def effective_options(options: Options, arguments: TranscribeArguments) -> TranscriptionOptions:
    """Return the options in effect, in faster-whisper's form."""
    clips = options.clip_timestamps
    changed: dict[str, Any] = {
        "prompt_reset_on_temperature": PROMPT_RESET_TEMPERATURE,
        "temperatures": list(options.temperatures),
        "without_timestamps": options.segments == "chunk",
        "prepend_punctuations": PREPENDED,
        "append_punctuations": APPENDED,
        "clip_timestamps": [time for clip in clips for time in clip if time is not None] or "0",
        "hallucination_silence_threshold": arguments.hallucination_silence_threshold,
    }
    names = [field.name for field in fields(TranscriptionOptions) if field.name not in changed]
    return TranscriptionOptions(**{name: getattr(options, name) for name in names}, **changed)


def _check_supported(arguments: TranscribeArguments) -> None:
    """Raise OptionError for a parameter that has no equivalent here."""
    if arguments.word_timestamps:
        for name, default in (("prepend", PREPENDED), ("append", APPENDED)):
            marks = getattr(arguments, f"{name}_punctuations")
            if type(marks) is not str or marks != default:
                raise OptionError(
                    f"{name}_punctuations={shown(marks)} cannot be honoured: the marks that "
                    "belong to a word are fixed here; leave it out"
                )
    reset = arguments.prompt_reset_on_temperature
    checks.number("prompt_reset_on_temperature", reset, minimum=0, maximum=MAX_DURATION)
    # Only text of the first temperature is ever used as context.
    first = _temperatures(arguments)[:1]
    for temperature in first:
        checks.number("temperature", temperature, minimum=0, maximum=MAX_TEMPERATURE)
    if _uses_previous_text(arguments) and any(
        (temperature > reset) != (temperature > PROMPT_RESET_TEMPERATURE) for temperature in first
    ):
        raise OptionError(
            f"prompt_reset_on_temperature={reset} cannot be honoured: text decoded at a "
            f"temperature above {PROMPT_RESET_TEMPERATURE} is never used as context; leave it out"
        )
    if arguments.hallucination_silence_threshold is not None:
        silence = arguments.hallucination_silence_threshold
        checks.number("hallucination_silence_threshold", silence, minimum=0, maximum=MAX_DURATION)


def _uses_previous_text(arguments: TranscribeArguments) -> bool:
    """Return whether previous text is used as context: only if the program asks for it.

    The reason for this default is in docs/how-to/move-from-faster-whisper.md.
    """
    condition = arguments.condition_on_previous_text
    return is_explicit(condition) and bool(condition)


def _temperatures(arguments: TranscribeArguments) -> tuple[float, ...]:
    temperature = arguments.temperature
    values = temperature if type(temperature) in {list, tuple} else (temperature,)
    return cast("tuple[float, ...]", tuple(map(plain, values)))


def _search_keywords(arguments: TranscribeArguments) -> OptionKeywords:
    keywords: OptionKeywords = {
        "beam_size": arguments.beam_size,
        "temperature": _temperatures(arguments),
    }
    if not is_number(arguments.beam_size, 1):
        keywords["patience"] = arguments.patience
        keywords["length_penalty"] = arguments.length_penalty
    if not all(is_number(temperature, 0) for temperature in _temperatures(arguments)):
        keywords["best_of"] = arguments.best_of
    return keywords


def _timestamp_keywords(arguments: TranscribeArguments, *, one_window: bool) -> OptionKeywords:
    """Return the options that decode timestamp tokens: if they have an effect, or lose no words.

    Timestamp tokens lose words where windows meet, and change punctuation and spelling. A recording
    of one window is therefore decoded as in faster-whisper. A prefix, which stands at 0.00 s there,
    cannot be given a time here.
    """
    if arguments.without_timestamps:
        return {}
    default = is_number(arguments.max_initial_timestamp, SearchOptions.max_initial_timestamp)
    if default and not (one_window and _is_one_row(arguments)):
        return {}
    return {
        "timestamps": "tokens",
        "max_initial_timestamp": arguments.max_initial_timestamp,
    }


def _is_one_row(arguments: TranscribeArguments) -> bool:
    """Return whether a recording of one window is one row, whose text can have timestamps."""
    divided = arguments.multilingual or arguments.chunk_length
    return not (divided or arguments.prefix or parse_clips(arguments.clip_timestamps))


def _batch_keywords(arguments: TranscribeArguments) -> OptionKeywords:
    """Return the options of the batched interface, in which one segment is one chunk.

    faster-whisper cuts pauses out of these chunks, except the margins of speech. The same happens
    here if the program chooses the margins. Otherwise pauses are shortened to `MAX_PAUSE`.
    """
    if arguments.batch_size is None:
        return {}
    keywords: OptionKeywords = {"batch_size": arguments.batch_size}
    vad = arguments.vad_filter and not parse_clips(arguments.clip_timestamps)
    if arguments.without_timestamps and vad:
        margin = vad_keywords(arguments.vad_parameters).get("speech_pad")
        keywords["max_silence"] = (
            round(MAX_PAUSE - 2 * Options.speech_pad, 3) if margin is None else 0.0
        )
    return keywords


def _prompt_keywords(arguments: TranscribeArguments) -> OptionKeywords:
    """Return the options that hold text to continue from; empty texts are left out."""
    keywords = {}
    for name in ("initial_prompt", "prefix", "hotwords"):
        text = getattr(arguments, name)
        empty = type(text) is tuple and not text
        if type(text) is str:
            empty = not text.strip()
        if text is not None and not empty:
            keywords[name] = text
    return cast("OptionKeywords", keywords)


def _speech_keywords(
    vad_filter: bool, vad_parameters: object, clip_timestamps: object
) -> OptionKeywords:
    """Return the options that choose parts of the recording: time ranges and VAD."""
    keywords: OptionKeywords = {"clip_timestamps": parse_clips(clip_timestamps)}
    vad_options = vad_keywords(vad_parameters)  # checked even if the VAD is off
    if vad_filter or not is_explicit(vad_filter):
        keywords.update(vad_options)
    else:
        keywords["vad"] = False
    return keywords


def _language_keywords(
    arguments: TranscribeArguments, language: str | None, *, multilingual: bool
) -> OptionKeywords:
    """Return the options of the language: the given language, or how to detect it."""
    threshold = arguments.language_detection_threshold
    if multilingual:
        return {"multilingual": True, **_detection_window_keywords(implicit(1), threshold)}
    if language is None:
        return _detection_window_keywords(arguments.language_detection_segments, threshold)
    return {"language": language}


def _detection_window_keywords(segments: int, threshold: float | None) -> OptionKeywords:
    """Return the options of the windows for language detection.

    An explicit number of segments also sets faster-whisper's window length, 30 s.
    """
    keywords: OptionKeywords = {}
    if threshold is not None:
        keywords["language_detection_threshold"] = threshold
    if is_explicit(segments):
        keywords["language_detection_segments"] = segments
        keywords["language_detection_length"] = to_seconds(WINDOW)
    return keywords


def parse_clips(value: object) -> tuple[tuple[float, float | None], ...]:
    """Return time ranges in seconds; none for the whole recording.

    Args:
        value: "start,end,start,...", a list of these times, or a list of dicts with the keys
            "start" and "end".

    Raises:
        OptionError: the value is of another kind.
    """
    try:
        if isinstance(value, str):
            value = [float(time) for time in value.split(",") if time.strip()]
        clips = _time_ranges(cast("Sequence[Any]", value or ()))
    except Exception as error:  # a foreign object may raise anything
        raise OptionError(
            f"clip_timestamps={shown(value)} is neither times such as '10,20,30', a list of times, "
            "nor a list of {'start': 10, 'end': 20}"
        ) from error
    return () if clips == ((0, None),) else clips


def _time_ranges(values: Sequence[Any]) -> tuple[tuple[float, float | None], ...]:
    if values and isinstance(values[0], Mapping):
        return tuple((float(clip["start"]), float(clip["end"])) for clip in values)
    times = [float(time) for time in values]
    ends: list[float | None] = [*times[1::2], None]
    return tuple(zip(times[::2], ends, strict=False))
