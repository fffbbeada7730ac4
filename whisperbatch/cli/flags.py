"""Command-line flags, made from the option classes: each field gives a name, type and help text.

beam_size: int = 5            --beam-size, --beam_size 5
word_timestamps: bool         --word-timestamps, --no-word-timestamps
suppress_tokens: tuple        --suppress-tokens -1,50257
coverage_threshold: | None    --coverage-threshold none
"""

import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Annotated, Any, Final, Literal, TypeVar, get_origin

import typer

from whisperbatch import load, options
from whisperbatch.cli.flag_values import (
    NONE,
    accepts_none,
    metavar_of,
    parser_of,
    without_none,
)
from whisperbatch.engines.keywords import setting_descriptions
from whisperbatch.options import documented_fields, with_parameters

T = TypeVar("T")

PANELS: Final = (
    (options.AudioOptions, "Audio"),
    (options.LanguageOptions, "Languages"),
    (options.SearchOptions, "Decoding"),
    (options.DecodeOptions, "Decoding"),
    (options.VadOptions, "Voice activity detection"),
    (options.ChunkOptions, "Chunks"),
    (options.FeatureOptions, "Features"),
)
"""The option groups, with their headings on the help page."""

ALIASES: Final = {
    "--logprob-threshold": "--log-prob-threshold",
    "--output-format": "--format",
    "--threads": "--intra-threads",
}
"""Names of other Whisper command lines, and the names of the same flags here."""

FLAG_NAMES: Final = (
    options.OptionKeywords.__annotations__.keys() | inspect.signature(load).parameters
)
"""Names in docstrings that become flags in help texts."""

TRUTH_VALUES: Final = {"true": True, "false": False}

HELP_TEXTS: Final = {
    "track": "Number of the audio track to read, counted from 0.",
    "channel": (
        "Channels to read: left, right, or mix. mix averages two channels, or more than eight; "
        "FFmpeg mixes three to eight channels by their positions."
    ),
    "clip_timestamps": (
        "Time ranges to transcribe, in seconds: start,end,start,end,... in ascending order and "
        "without overlap. Without the last end, the last range lasts to the end of the recording."
    ),
    "language": (
        'Spoken language: Whisper\'s code (en) or English name (english); "none" detects the '
        "language."
    ),
    "vad": (
        "Find speech with the voice activity detector (VAD). --no-vad treats the whole recording "
        "as speech and cuts it where it is quietest; --vad-onset, --vad-offset, "
        "--min-silence-duration and --speech-pad are then refused."
    ),
    "patience": (
        "Beam search ends when beam size * patience hypotheses are finished; from 0.01 to 100. "
        "Refused with --beam-size 1."
    ),
    "length_penalty": (
        "Exponent of the length by which the score of a hypothesis is divided; from -10 to 10. "
        "Refused with --beam-size 1."
    ),
    "temperature": (
        "0 is beam search or greedy search; a value above 0 (up to 10) samples. Several ascending "
        "values (0,0.2,0.4) are a fallback: a chunk whose text is still repetitive or improbable "
        "after all other retries is decoded again with the next value."
    ),
    "max_initial_timestamp": (
        "Largest first timestamp of a chunk, in seconds, from 0 to 30. Needs --timestamps tokens."
    ),
    "max_new_tokens": (
        "Largest number of tokens decoded for a chunk, from 1 to 224. Without it 224, Whisper's "
        "own limit."
    ),
    "compression_ratio_threshold": (
        "A chunk whose text has a higher compression ratio repeats itself and is decoded again; "
        '--hallucination-filter then removes remaining repetitions. "none" switches this check '
        "off."
    ),
    "log_prob_threshold": (
        "A chunk with a lower average log-probability of its tokens (0 or less) is decoded again. "
        '"none" switches this check off.'
    ),
    "no_speech_threshold": (
        "A chunk with a higher no-speech probability (0 to 1) and an average log-probability below "
        '--log-prob-threshold is silence: its text is removed. "none" switches this check off.'
    ),
    "coverage_threshold": (
        "If no word covers a stretch of more than this many seconds of speech, the chunk is split "
        'at another point and decoded again. "none" switches this check off. Not possible with '
        "--no-vad or --task translate."
    ),
    "hallucination_filter": (
        "Remove loops, text faster than a person can speak, text on silence, boilerplate on music "
        "and noise, and prompt leakage."
    ),
    "initial_prompt": (
        "Text that precedes every chunk as context: names, spelling, style. --hotwords, "
        "--initial-prompt and --prefix together have at most 219 tokens."
    ),
    "word_timestamps": "Give each segment its words, with their times and probabilities.",
    "latin_names": (
        "With --multilingual, allow words in Latin letters (brand names) in languages with another "
        "script. Otherwise only letters of the language's own scripts are allowed."
    ),
    "max_silence": (
        "Longest pause inside a chunk, in seconds; a longer pause is shortened to this length. "
        "Without it, all pauses stay unchanged."
    ),
    "max_line_width": (
        "Maximum width of a line in columns. East Asian wide characters take two columns. A word "
        'that is wider gets a line to itself. "none" sets no limit.'
    ),
    "max_line_count": (
        "Maximum number of lines in a cue. A longer segment becomes several cues. "
        '"none" sets no limit.'
    ),
    "max_words_per_line": (
        "Maximum number of words in a line. With --max-line-count 1 this also limits the words of "
        "a cue."
    ),
    "highlight_words": "Show each word in a separate cue, where the word is underlined.",
}
"""Help texts of flags whose docstring describes Python values."""


def option_flags(names: Iterable[str] | None = None) -> Iterator[inspect.Parameter]:
    """Yield a flag for each option; its default, None, means that the flag is not given.

    Args:
        names: the options that get a flag; None for all.
    """
    for group, panel in PANELS:
        for flag in dataclass_flags(group, panel):
            if names is None or flag.name in names:
                yield flag


def dataclass_flags(group: type[Any], panel: str) -> Iterator[inspect.Parameter]:
    """Yield a flag for each field of a dataclass; `panel` is the heading on the help page."""
    descriptions = documented_fields(group)
    for field in fields(group):
        yield make_flag(field.name, field.type, field.default, descriptions[field.name], panel)


def load_flags(names: Iterable[str], panel: str) -> Iterator[inspect.Parameter]:
    """Yield a flag for each of these keywords of `load`."""
    descriptions = documented_fields(load) | setting_descriptions()
    parameters = inspect.signature(load).parameters
    for name in names:
        parameter = parameters[name]
        yield make_flag(name, parameter.annotation, parameter.default, descriptions[name], panel)


def make_flag(
    name: str, annotation: object, default: object, description: str, panel: str
) -> inspect.Parameter:
    """Return a parameter that Typer shows as a flag.

    Args:
        name: of the option or keyword, in Python's spelling.
        annotation: its type.
        default: its default, for the help text.
        description: its help text, unless `HELP_TEXTS` has another.
        panel: the heading on the help page.
    """
    spelling = dashed(name)
    stated = "" if default in (None, "", ()) else f" Default: {_default_text(default)}."
    text = HELP_TEXTS.get(name, _as_sentence(description)) + stated
    settings: dict[str, Any] = {"help": text, "rich_help_panel": panel}
    value_type = without_none(annotation)
    optional = accepts_none(annotation)
    if value_type is bool:
        spelling = f"{spelling}/--no-{spelling[2:]}"
        typer_type: Any = bool
    elif get_origin(value_type) is Literal or (
        value_type in (int, float) and default is not None and not optional
    ):
        typer_type = value_type
    else:
        typer_type = str
        if value_type is not str:
            settings["parser"] = parser_of(value_type, optional=optional)
            settings["metavar"] = metavar_of(value_type)
    option = typer.Option(spelling, show_default=False, **settings)
    return inspect.Parameter(
        name,
        inspect.Parameter.KEYWORD_ONLY,
        default=None,
        annotation=Annotated[typer_type | None, option],
    )


def with_flags(
    *flags: inspect.Parameter,
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator that gives a command these flags in place of its `**keywords`."""

    def decorate(function: Callable[..., None]) -> Callable[..., None]:
        function.__annotations__ |= {flag.name: flag.annotation for flag in flags}
        return with_parameters(*flags)(function)

    return decorate


def pop_group(keywords: dict[str, Any], group: Callable[..., T]) -> T:
    """Remove the fields of a dataclass from the keywords, and return a value of the dataclass."""
    return group(**pop_keywords(keywords, [field.name for field in fields(group)]))  # type: ignore[arg-type]  # a dataclass


def pop_keywords(keywords: dict[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """Remove these keywords, and return those that were there."""
    return {name: keywords.pop(name) for name in names if name in keywords}


def given_flags(keywords: dict[str, Any]) -> dict[str, Any]:
    """Return the flags that were given on the command line; the value "none" becomes None."""
    flags = {name: value for name, value in keywords.items() if value is not None}
    if str(flags.get("language", "")).lower() == "none":
        del flags["language"]
    return {name: None if value is NONE else value for name, value in flags.items()}


def normalized(arguments: Sequence[str], switches: Mapping[str, bool]) -> list[str]:
    """Return the arguments with the spellings of other Whisper command lines replaced.

    `--beam_size` becomes `--beam-size`; `--word_timestamps True` becomes `--word-timestamps`, and
    with False `--no-word-timestamps`. Arguments after `--` stay unchanged.

    Args:
        arguments: of the command line.
        switches: the names of boolean flags, and whether each has a `--no-` form.
    """
    has_negative = {dashed(name): negative for name, negative in switches.items()}
    result: list[str] = []
    for number, argument in enumerate(arguments):
        if argument == "--":
            return [*result, *arguments[number:]]
        rewritten, name, value = argument, argument, ""
        if argument.lower() in TRUTH_VALUES and result and result[-1] in has_negative:
            rewritten = name = result.pop()
            value = argument.lower()
        elif argument.startswith("--"):
            spelling, equals, value = argument.partition("=")
            name = spelling.replace("_", "-")
            name = ALIASES.get(name, name)
            rewritten = f"{name}{equals}{value}"
            value = value.lower()
        if name not in has_negative or value not in TRUTH_VALUES:
            result.append(rewritten)
        elif TRUTH_VALUES[value]:
            result.append(name)
        elif has_negative[name]:
            result.append(f"--no-{name[2:]}")
    return result


def boolean_fields(*groups: type[Any]) -> dict[str, bool]:
    """Return the boolean fields of dataclasses for `normalized`; all have a `--no-` form."""
    return {field.name: True for group in groups for field in fields(group) if field.type is bool}


def dashed(name: str) -> str:
    """Return the flag of an option: "--beam-size" for "beam_size"."""
    return f"--{name.replace('_', '-')}"


def _default_text(default: object) -> str:
    if isinstance(default, bool):
        return "on" if default else "off"
    return ",".join(map(str, default)) if isinstance(default, tuple) else str(default)


def _as_sentence(description: str) -> str:
    """Return a docstring entry as a help text: "`beam_size=1`" becomes "--beam-size 1"."""
    text = re.sub(r"`(\w+)(?:=\"?([\w.]+)\"?)?`", _as_flag, description)
    text = text[:1].upper() + text[1:]
    return text.replace("`", "").replace("[", "(").replace("]", ")")


def _as_flag(match: re.Match[str]) -> str:
    """Return a name, or a name and value, as a flag; other names stay unchanged."""
    name, value = match.groups()
    if name not in FLAG_NAMES:
        return match[0]
    return f"{dashed(name)} {value}" if value else dashed(name)
