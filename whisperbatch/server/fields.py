"""The fields of a request: those of both generations of OpenAI's API, and all options.

form ──> language, prompt, keywords[], ...    OpenAI's names, with the option each sets
     ├─> response_format, stream, ...         the form of the answer
     └─> beam_size, vad, ...                  any field of `Options`, as text
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from types import MappingProxyType
from typing import Any, Final, Literal, get_args, get_origin

import whisperbatch as wb
from whisperbatch.options import (
    MAX_CONTEXT_LENGTH,
    hint_for,
    metavar_of,
    parse_text,
    without_none,
)
from whisperbatch.server.errors import ApiError, as_api_error, invalid
from whisperbatch.server.speakers import (
    DIARIZED,
    NAMES,
    REFERENCES,
    known_speakers,
    with_speaker_options,
)
from whisperbatch.writers import FORMAT_OPTIONS, SubtitleOptions, check_file_options

MAX_BEAMS: Final = 10  # of a request

ResponseFormat = Literal["json", "text", "srt", "verbose_json", "vtt", "diarized_json"]
STREAMED: Final = ("json", "text", "verbose_json", "diarized_json")
SUBTITLES: Final = ("srt", "vtt")
OPTION_FIELDS: Final = MappingProxyType(
    {"initial_prompt": "prompt", "hotwords": "keywords", "known_speakers": NAMES}
)
"""Options that fields with another name set."""

LAYOUT: Final[Mapping[str, object]] = MappingProxyType(
    {
        option.name: option.type
        for option in fields(SubtitleOptions)
        if any(option.name in FORMAT_OPTIONS[name] for name in SUBTITLES)
    }
)
"""The options of subtitles, each a field with its type."""

VAD_FIELDS: Final = ("type", "threshold", "prefix_padding_ms", "silence_duration_ms")
TYPES: Final[Mapping[str, object]] = MappingProxyType(
    {field.name: field.type for field in fields(wb.Options)}
)
FIXED: Final = (
    *("task", "sampling_rate", "readers", "reader_processes", "known_speakers", "diarizer"),
)
"""Options that are not fields: the path decides the task, media state their rate, and a client must
not choose the threads and processes of the server, or name its files, or packages that the server
then runs."""

WORD_LISTS: Final = ("languages", "timestamp_granularities", "include")
LISTS: Final = (*WORD_LISTS, "keywords", NAMES, REFERENCES)
"""Fields with several values."""

KNOWN: Final = (
    *("file", "model", "prompt", "response_format", "stream", "chunking_strategy"),
    *(*LISTS, *(name for name in TYPES if name not in FIXED), *LAYOUT),
)
"""All fields."""

VALUE_LISTS: Final = frozenset(
    name
    for name, kind in TYPES.items()
    if any(get_origin(part) is tuple for part in (kind, *get_args(kind)))
    and without_none(kind) is not str
)
"""Options with several values: `temperature`, `suppress_tokens`, `clip_timestamps`, ..."""

NAME: Final = re.compile(r"(\w+)((?:\[\w*\])*)")  # keywords[], keywords[0], chunking_strategy[type]
KEY: Final = re.compile(r"\[(\w*)\]")
INDEX: Final = re.compile(r"[0-9]{0,4}")
PAIRS: Final = "clip_timestamps"  # a list of lists


class Values:
    """The fields of a form by name, each read once.

    A list may be written in each of these ways, as different clients do:

        include=a  include=b                repeated
        include[]=a  include[]=b            OpenAI's clients
        include[0]=a  include[1]=b          PHP, axios
        include=a,b                         words and numbers only
        include=["a", "b"]                  JSON

    Args:
        form: the values of each field.

    Raises:
        ApiError: a field that has one value is given several times, or a list cannot be read.
    """

    def __init__(self, form: Mapping[str, Sequence[str]]) -> None:
        self._values: dict[str, list[str]] = {}
        self._parts: dict[str, dict[str, str]] = {}
        for name, values in sorted(form.items(), key=lambda item: _indices(item[0]) or ()):
            match = NAME.fullmatch(name)
            if match and _indices(name) is None:
                self._parts.setdefault(match[1], {})[match[2][1:-1]] = values[-1]
                continue
            base = match[1] if match else name
            known = self._values.setdefault(base, [])
            for value in values:
                known.extend(item for item in _items(base, value) if item)  # "" is not given
            if len(known) > 1 and base not in LISTS and base not in VALUE_LISTS:
                raise invalid(f"{base} is given more than once", base)

    def text(self, name: str) -> str | None:
        """Return the value of a field, of a list in the form "a,b"; None if it is not given."""
        values = self._values.pop(name, [])
        return ",".join(values) if values else None

    def texts(self, name: str) -> list[str]:
        """Return all values of a field."""
        return self._values.pop(name, [])

    def choice(self, name: str, choices: Sequence[str]) -> str | None:
        """Return the value of a field, which is one of the choices.

        Raises:
            ApiError: the value is not one of the choices.
        """
        value = self.text(name)
        if value is not None:
            check_choice(name, value, choices)
        return value

    def choices(self, name: str, choices: Sequence[str]) -> set[str]:
        """Return the values of a field, each one of the choices.

        Raises:
            ApiError: a value is not one of the choices.
        """
        values = self.texts(name)
        for value in values:
            check_choice(name, value, choices)
        return set(values)

    def boolean(self, name: str) -> bool:
        """Return whether a field is "true".

        Raises:
            ApiError: the value is neither true nor false.
        """
        value = self.text(name)
        if value is None:
            return False
        check_choice(name, value.lower(), ("true", "false"))
        return value.lower() == "true"

    def parts(self, name: str) -> dict[str, str]:
        """Return the values of the fields "name[key]", by key."""
        return self._parts.pop(name, {})

    def refuse(self, name: str, reason: str) -> None:
        """Refuse a field.

        Raises:
            ApiError: the field is given.
        """
        if self.texts(name):
            raise invalid(f"{name} {reason}", name, "unsupported_parameter")

    def options(self, types: Mapping[str, object] = TYPES) -> dict[str, str]:
        """Return the fields that are named like these options."""
        names = [name for name in self._values if name in types and name not in FIXED]
        return {name: value for name in names if (value := self.text(name)) is not None}

    def check_all_used(self) -> None:
        """Check that no unknown field is left.

        Raises:
            ApiError: a field is unknown.
        """
        given = {name: name for name, values in self._values.items() if values}
        keyed = {name: f"{name}[{next(iter(parts))}]" for name, parts in self._parts.items()}
        for name, label in [*given.items(), *keyed.items()]:
            hint = hint_for(name, KNOWN)
            raise invalid(
                f"{label} is not a field of this server{f'; {hint}' if hint else ''}",
                name,
                "unknown_parameter",
            )


def _indices(name: str) -> tuple[int, ...] | None:
    """Return the numbers in brackets at the end of a name; None if there is another key."""
    match = NAME.fullmatch(name)
    keys = KEY.findall(match[2]) if match else []
    if not all(INDEX.fullmatch(key) for key in keys):
        return None
    return tuple(int(key or 0) for key in keys)


def _items(name: str, value: str) -> list[str]:
    """Return the values that one field of a list gives: "a,b", or a list in JSON."""
    if name not in LISTS and name not in VALUE_LISTS:
        return [value]
    if value.startswith("["):
        try:
            items = json.loads(value)
        except (ValueError, RecursionError):
            items = None
        if isinstance(items, list):
            values = list(_flat(name, items, 2 if name == PAIRS else 1))
            if "" in values[:-1]:
                raise invalid(f"{name}: only the last value may be null", name)
            return values
    return [part.strip() for part in value.split(",")] if name in WORD_LISTS else [value]


def _flat(name: str, items: list[Any], levels: int) -> Iterator[str]:
    """Yield the values in a list, as text; "" for null, which is the end of a recording.

    Raises:
        ApiError: a value is neither text nor a number.
    """
    for item in items:
        if isinstance(item, list) and levels > 1:
            yield from _flat(name, item, levels - 1)
        elif item is None:
            yield ""
        elif isinstance(item, str | int | float) and not isinstance(item, bool):
            yield str(item)
        else:
            raise invalid(f"{name} must be a list of texts or numbers", name)


def as_number(name: str, value: str) -> float:
    """Return a value as a number.

    Raises:
        ApiError: the value is not a number.
    """
    try:
        return float(value)
    except ValueError as error:
        raise invalid(f"{name} must be a number, not {value[:50]!r}", name) from error


def check_choice(name: str, value: str, choices: Sequence[str]) -> None:
    """Check that the value of a field is one of the choices.

    Raises:
        ApiError: the value is not one of the choices.
    """
    if value not in choices:
        raise invalid(f"{name} must be one of {', '.join(choices)}, not {value[:50]!r}", name)


@dataclass(frozen=True, slots=True)
class TranscriptionRequest:
    """What a client asks for.

    Attributes:
        model: name of the model, as the client gave it; "" for the first model.
        options: of the transcription.
        response_format: form of the answer.
        stream: whether the text is sent while it is decoded.
        segments: whether `verbose_json` has segments.
        logprobs: whether `json` has the log-probability of each word.
        layout: of subtitles.
    """

    model: str
    options: wb.Options
    response_format: ResponseFormat = "json"
    stream: bool = False
    segments: bool = True
    logprobs: bool = False
    layout: SubtitleOptions = field(default_factory=SubtitleOptions)


def parse_request(
    form: Mapping[str, Sequence[str]],
    task: Literal["transcribe", "translate"],
    defaults: wb.Options,
    max_beams: int = MAX_BEAMS,
) -> TranscriptionRequest:
    """Return the request that the fields of a form describe.

    Args:
        form: the values of each field.
        task: of the path.
        defaults: the server's options, which fields replace.
        max_beams: largest number of hypotheses of a row.

    Returns:
        The request; its options are valid.

    Raises:
        ApiError: a field is unknown, wrong, or asks for something that the server cannot do.
    """
    values = Values(form)
    model = values.text("model") or ""
    response_format = _response_format(values, task)
    stream = values.boolean("stream")
    if stream and response_format not in STREAMED:
        raise invalid(
            f"stream=true has no effect with response_format={response_format}; "
            f"use one of {', '.join(STREAMED)}",
            "stream",
        )
    granularities = values.choices("timestamp_granularities", ("word", "segment"))
    if response_format != "verbose_json":
        granularities = set()  # some clients always send them; the other answers have none
    logprobs = bool(values.choices("include", ("logprobs",)))
    if logprobs and response_format != "json":
        raise invalid("include=logprobs needs response_format=json", "include")
    changes: dict[str, Any] = {"task": task}
    if "word" in granularities or logprobs or response_format in SUBTITLES:
        changes["word_timestamps"] = True
    changes |= _openai_options(values) | _own_options(values)
    if isinstance(prompt := changes.get("initial_prompt"), str):
        changes["initial_prompt"] = prompt[-MAX_CONTEXT_LENGTH:]  # the model uses less of its end
    changes |= known_speakers(values.texts(NAMES), values.texts(REFERENCES))
    try:
        layout = _layout(values, response_format)
    except wb.OptionError as error:
        raise about(error, form) from error
    values.check_all_used()
    base, changes = with_speaker_options(
        changes, defaults, model=model, response_format=response_format, stream=stream
    )
    try:
        options = replace(base, **changes)
    except wb.OptionError as error:
        raise about(error, form) from error
    if layout.needs_words and not options.word_timestamps:
        name = layout.needs_words[0]
        raise invalid(f"{name} has no effect without word_timestamps", name)
    return TranscriptionRequest(
        model=model,
        options=within_limits(options, defaults, max_beams),
        response_format=response_format,  # type: ignore[arg-type]  # one of the choices
        stream=stream,
        segments=not granularities or "segment" in granularities,
        logprobs=logprobs,
        layout=layout,
    )


def _response_format(values: Values, task: Literal["transcribe", "translate"]) -> str:
    """Return the form of the answer; refuse the fields that translations do not have."""
    response_format = values.choice("response_format", get_args(ResponseFormat)) or "json"
    if task == "translate":
        for name in ("language", "languages", "stream", "timestamp_granularities", "include"):
            values.refuse(name, "is not a field of translations")
        if response_format == DIARIZED:
            raise invalid(
                f"{DIARIZED} is not a form of translations; use verbose_json with diarize=true",
                "response_format",
            )
    return response_format


def _openai_options(values: Values) -> dict[str, Any]:
    """Return the options that OpenAI's fields set."""
    options: dict[str, Any] = {}
    if (prompt := values.text("prompt")) is not None:
        options["initial_prompt"] = prompt
    if keywords := values.texts("keywords"):
        options["hotwords"] = ", ".join(keywords)
    languages = values.texts("languages")
    if len(languages) == 1:
        options["language"] = languages[0]
    elif languages:
        options["languages"] = tuple(languages)
    temperature = values.text("temperature")
    if temperature is not None:
        options["temperature"] = _parse("temperature", temperature)
    return options | _chunking(values)


def _chunking(values: Values) -> dict[str, float]:
    """Return the options that `chunking_strategy` sets: "auto", or settings of the VAD."""
    text, parts = values.text("chunking_strategy"), values.parts("chunking_strategy")
    if text and text != "auto":
        try:
            parts |= {name: str(value) for name, value in json.loads(text).items()}
        except (ValueError, AttributeError, RecursionError) as error:
            raise invalid(
                'chunking_strategy must be "auto" or an object', "chunking_strategy"
            ) from error
    if not parts:
        return {}
    if parts.get("type") != "server_vad":
        raise invalid('chunking_strategy must have the type "server_vad"', "chunking_strategy")
    options: dict[str, float] = {}
    for name, value in parts.items():
        if name not in VAD_FIELDS:
            raise invalid(f"chunking_strategy has no setting {name}", "chunking_strategy")
        if name == "threshold":
            onset = as_number("chunking_strategy", value)
            options["vad_onset"], options["vad_offset"] = onset, max(onset - 0.15, 0.0)
        elif name == "prefix_padding_ms":
            options["speech_pad"] = as_number("chunking_strategy", value) / 1000
        elif name == "silence_duration_ms":
            options["min_silence_duration"] = as_number("chunking_strategy", value) / 1000
    return options


def _own_options(values: Values) -> dict[str, object]:
    return {name: _parse(name, text) for name, text in values.options().items()}


def _layout(values: Values, response_format: str) -> SubtitleOptions:
    """Return the options of subtitles; refuse them if the answer has none."""
    given = {name: _parse(name, text) for name, text in values.options(LAYOUT).items()}
    if given and response_format not in SUBTITLES:
        name, forms = next(iter(given)), " or ".join(SUBTITLES)
        raise invalid(f"{name} has no effect on {response_format}; ask for {forms}", name)
    layout = SubtitleOptions(**given)  # type: ignore[arg-type]  # checked there
    if given:
        check_file_options(layout, (response_format,))
    return layout


def _parse(name: str, text: str) -> object:
    types = TYPES if name in TYPES else LAYOUT
    try:
        return parse_text(types[name], text)
    except ValueError as error:
        form = metavar_of(without_none(types[name]))
        raise invalid(f"{name} must be of the form {form}, not {text[:50]!r}", name) from error


def within_limits(options: wb.Options, defaults: wb.Options, max_beams: int) -> wb.Options:
    """Return the options of a request within the limits of the server.

    The longest duration is at most that of the server.

    Args:
        options: of a request.
        defaults: the server's options.
        max_beams: largest number of hypotheses of a row.

    Returns:
        The options.

    Raises:
        ApiError: the request asks for more hypotheses than the limit.
    """
    for name in ("beam_size", "best_of"):
        if getattr(options, name) > max(max_beams, getattr(defaults, name)):
            raise invalid(f"{name} must be at most {max_beams} on this server", name)
    limit = defaults.max_duration
    if limit is None or (options.max_duration is not None and options.max_duration <= limit):
        return options
    return replace(options, max_duration=limit)


def about(error: wb.OptionError, form: Mapping[str, Sequence[str]]) -> ApiError:
    """Return the answer to wrong options.

    Args:
        error: names an option.
        form: the values of each field.

    Returns:
        The answer, with the names of the fields that set the options.
    """
    given = {name.partition("[")[0] for name in form}
    return as_api_error(
        error, {option: field for option, field in OPTION_FIELDS.items() if field in given}
    )
