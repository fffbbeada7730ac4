"""Parameters of `transcribe`: theirs to ours, each honoured or refused by name.

What their documentation says has an effect only together with something else (best_of with a
temperature, patience with a beam, vad_parameters with vad_filter) has none here either without it.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

from whisperbatch.compat.faster_whisper._defaults import is_given, unless_given
from whisperbatch.compat.faster_whisper._results import TranscriptionOptions
from whisperbatch.compat.faster_whisper.vad import mapped
from whisperbatch.errors import OptionError
from whisperbatch.options import (
    PROMPT_RESET_TEMPERATURE,
    DecodeOptions,
    DetectionKeywords,
    OptionKeywords,
    Options,
    checks,
    for_detection,
    resolve,
)
from whisperbatch.types import WINDOW, to_seconds

LADDER: Final = [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
"""Temperatures, by default."""

SYMBOLS: Final = [-1]
"""Suppressed tokens, by default: the model's own list of symbols."""

PREPENDED: Final = "\"'“¿([{-"
APPENDED: Final = "\"'.。,，!！?？:：”)]}、"  # noqa: RUF001 - full-width punctuation

RENAMED: Final = {
    "vad_onset": "threshold of vad_parameters",
    "vad_offset": "neg_threshold of vad_parameters",
    "min_speech_duration": "min_speech_duration_ms of vad_parameters",
    "max_speech_duration": "max_speech_duration_s of vad_parameters",
    "min_silence_duration": "min_silence_duration_ms of vad_parameters",
    "speech_pad": "speech_pad_ms of vad_parameters",
    "vad": "vad_filter",
}
"""Our names to theirs, where they differ."""


@dataclass(frozen=True, kw_only=True)
class Request:
    """What a program has asked of `transcribe`, as it has given it."""

    language: str | None
    task: str
    log_progress: bool
    beam_size: int
    best_of: int
    patience: float
    length_penalty: float
    repetition_penalty: float
    no_repeat_ngram_size: int
    temperature: float | Sequence[float]
    compression_ratio_threshold: float | None
    log_prob_threshold: float | None
    no_speech_threshold: float | None
    condition_on_previous_text: bool
    prompt_reset_on_temperature: float
    initial_prompt: str | Iterable[int] | None
    prefix: str | None
    suppress_blank: bool
    suppress_tokens: Sequence[int] | None
    without_timestamps: bool
    max_initial_timestamp: float
    word_timestamps: bool
    prepend_punctuations: str
    append_punctuations: str
    multilingual: bool
    vad_filter: bool
    vad_parameters: object
    max_new_tokens: int | None
    chunk_length: int | None
    clip_timestamps: object
    hallucination_silence_threshold: float | None
    hotwords: str | None
    language_detection_threshold: float | None
    language_detection_segments: int
    batch_size: int = 8

    def __post_init__(self) -> None:
        prompt = self.initial_prompt
        if prompt is not None and not isinstance(prompt, str):  # it may be an iterator
            object.__setattr__(self, "initial_prompt", tuple(int(token) for token in prompt))


def options_of(request: Request, language: str | None, *, multilingual: bool) -> Options:
    """The options that a request is worked on with.

    Args:
        request: what was asked for.
        language: of the recording; None for it to be found out while it is read.
        multilingual: whether it may change.

    Raises:
        OptionError: one cannot be honoured.
    """
    _refuse(request)
    keywords: OptionKeywords = {
        "task": cast("Any", request.task),
        "batch_size": request.batch_size,
        "repetition_penalty": request.repetition_penalty,
        "no_repeat_ngram_size": request.no_repeat_ngram_size,
        "compression_ratio_threshold": request.compression_ratio_threshold,
        "log_prob_threshold": request.log_prob_threshold,
        "no_speech_threshold": request.no_speech_threshold,
        "suppress_blank": request.suppress_blank,
        "suppress_tokens": tuple(request.suppress_tokens or ()),
        "word_timestamps": request.word_timestamps,
        "max_new_tokens": request.max_new_tokens,
        "condition_on_previous_text": _conditioned(request),
        **_searched(request),
        **_begun(request),
        **_heard(request.vad_filter, request.vad_parameters, request.clip_timestamps),
    }
    if request.chunk_length:
        keywords["chunk_length"] = request.chunk_length
    if multilingual:
        keywords["multilingual"] = True
        keywords.update(_listening(unless_given(1), request.language_detection_threshold))
    elif language is None:
        keywords.update(
            _listening(request.language_detection_segments, request.language_detection_threshold)
        )
    else:
        keywords["language"] = language
    return _resolved(lambda: resolve(None, **keywords))


def detection_of(request: Request) -> Options:
    """The options that the recording's language is detected with."""
    return detection_options(
        vad_filter=request.vad_filter,
        vad_parameters=request.vad_parameters,
        segments=request.language_detection_segments,
        threshold=request.language_detection_threshold,
        clip_timestamps=request.clip_timestamps,
    )


def detection_options(
    *,
    vad_filter: bool,
    vad_parameters: object,
    segments: int,
    threshold: float | None,
    clip_timestamps: object = "0",
) -> Options:
    """The options that a language is detected with; each argument as in `Request`.

    Raises:
        OptionError: one cannot be honoured.
    """
    heard = _heard(vad_filter, vad_parameters, clip_timestamps)
    heard.pop("max_speech_duration", None)
    keywords: OptionKeywords = {**heard, **_listening(segments, threshold)}
    return _resolved(lambda: for_detection(**cast("DetectionKeywords", keywords)))


def keywords_of(options: Options) -> DetectionKeywords:
    """The options of a detection as keywords of `Transcriber.detect_language`."""
    defaults = Options()
    found = {
        name: getattr(options, name)
        for name in DetectionKeywords.__annotations__
        if getattr(options, name) != getattr(defaults, name)
    }
    return cast("DetectionKeywords", found)


def effective(options: Options, request: Request) -> TranscriptionOptions:
    """The options in effect, as theirs."""
    clips = options.clip_timestamps
    return TranscriptionOptions(
        beam_size=options.beam_size,
        best_of=options.best_of,
        patience=options.patience,
        length_penalty=options.length_penalty,
        repetition_penalty=options.repetition_penalty,
        no_repeat_ngram_size=options.no_repeat_ngram_size,
        log_prob_threshold=options.log_prob_threshold,
        no_speech_threshold=options.no_speech_threshold,
        compression_ratio_threshold=options.compression_ratio_threshold,
        condition_on_previous_text=options.condition_on_previous_text,
        prompt_reset_on_temperature=PROMPT_RESET_TEMPERATURE,
        temperatures=list(options.temperatures),
        initial_prompt=options.initial_prompt,
        prefix=options.prefix,
        suppress_blank=options.suppress_blank,
        suppress_tokens=options.suppress_tokens,
        without_timestamps=options.timestamps == "alignment",
        max_initial_timestamp=options.max_initial_timestamp,
        word_timestamps=options.word_timestamps,
        prepend_punctuations=PREPENDED,
        append_punctuations=APPENDED,
        multilingual=options.multilingual,
        max_new_tokens=options.max_new_tokens,
        clip_timestamps=[time for clip in clips for time in clip if time is not None] or "0",
        hallucination_silence_threshold=request.hallucination_silence_threshold,
        hotwords=options.hotwords,
    )


def _refuse(request: Request) -> None:
    """What has no counterpart here."""
    if request.word_timestamps:
        for name, usual in (("prepend", PREPENDED), ("append", APPENDED)):
            given = getattr(request, f"{name}_punctuations")
            if given != usual:
                raise OptionError(
                    f"{name}_punctuations={given!r} cannot be honoured: which marks belong to a "
                    "word is fixed here; leave it out"
                )
    reset = request.prompt_reset_on_temperature
    checks.number("prompt_reset_on_temperature", reset, least=0)
    first = _temperatures(request)[:1]  # nobody goes on from text of the others
    if _conditioned(request) and any(
        (rung > reset) != (rung > PROMPT_RESET_TEMPERATURE) for rung in first
    ):
        raise OptionError(
            f"prompt_reset_on_temperature={reset} cannot be honoured: here text decoded above "
            f"{PROMPT_RESET_TEMPERATURE} is never used as context, and other text is; leave it out"
        )
    if request.hallucination_silence_threshold is not None:
        silence = request.hallucination_silence_threshold
        checks.number("hallucination_silence_threshold", silence, least=0)


def _conditioned(request: Request) -> bool:
    """Only where it is asked for: by default it is off. See the documentation's page for why."""
    asked = request.condition_on_previous_text
    return asked if is_given(asked) else False


def _temperatures(request: Request) -> tuple[float, ...]:
    given = request.temperature
    return tuple(given) if isinstance(given, list | tuple) else (cast("float", given),)


def _searched(request: Request) -> OptionKeywords:
    """How text is searched for."""
    found: OptionKeywords = {
        "beam_size": request.beam_size,
        "temperature": _temperatures(request),
    }
    if request.beam_size != 1:
        found["patience"] = request.patience
        found["length_penalty"] = request.length_penalty
    if any(_temperatures(request)):
        found["best_of"] = request.best_of
    usual = checks.default(DecodeOptions, "max_initial_timestamp")
    if not request.without_timestamps and request.max_initial_timestamp != usual:
        found["timestamps"] = "tokens"
        found["max_initial_timestamp"] = request.max_initial_timestamp
    return found


def _begun(request: Request) -> OptionKeywords:
    """What text is decoded as the continuation of. An empty text is none."""
    found = {}
    for name in ("initial_prompt", "prefix", "hotwords"):
        text = getattr(request, name)
        if text.strip() if isinstance(text, str) else text:
            found[name] = text
    return cast("OptionKeywords", found)


def _heard(vad_filter: bool, vad_parameters: object, clip_timestamps: object) -> OptionKeywords:
    """Which parts of the recording are heard, and where speech is."""
    found: OptionKeywords = {"clip_timestamps": clips(clip_timestamps)}
    speech = mapped(vad_parameters)  # what is wrong is told of in any case
    if vad_filter or not is_given(vad_filter):
        found.update(speech)
    else:
        found["vad"] = False
    return found


def _listening(segments: int, threshold: float | None) -> OptionKeywords:
    """How a language is detected: by windows as long as theirs, if their number was given."""
    found: OptionKeywords = {}
    if threshold is not None:
        found["language_detection_threshold"] = threshold
    if is_given(segments):
        found["language_detection_segments"] = segments
        found["language_detection_length"] = to_seconds(WINDOW)
    return found


def clips(given: object) -> tuple[tuple[float, float | None], ...]:
    """Ranges in seconds, for "start,end,start,...", a list of such times, or of dicts.

    Raises:
        OptionError: it is none of them.
    """
    try:
        if isinstance(given, str):
            given = [float(time) for time in given.split(",") if time.strip()]
        found = _ranges(cast("Sequence[Any]", given or ()))
    except (TypeError, ValueError, KeyError) as error:
        raise OptionError(
            f"clip_timestamps={given!r} is neither times such as '10,20,30', a list of them, nor "
            "a list of {'start': 10, 'end': 20}"
        ) from error
    return () if found == ((0, None),) else found


def _ranges(given: Sequence[Any]) -> tuple[tuple[float, float | None], ...]:
    if given and isinstance(given[0], Mapping):
        return tuple((float(clip["start"]), float(clip["end"])) for clip in given)
    times = [float(time) for time in given]
    ends: list[float | None] = [*times[1::2], None]
    return tuple(zip(times[::2], ends, strict=False))


def _resolved(resolving: Callable[[], Options]) -> Options:
    """The options; an error says their names, too."""
    try:
        return resolving()
    except OptionError as error:
        message = str(error)
        names = [name for name in RENAMED if re.search(rf"(?<!\w){name}(?!\w)", message)]
        told = "; ".join(f"{name} is {RENAMED[name]}" for name in names)
        raise OptionError(f"{message} ({told})" if told else message) from error
