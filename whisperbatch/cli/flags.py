"""Command-line flags, made from the fields of the options: a name, a type and a help text each.

beam_size: int = 5            --beam-size, --beam_size 5
word_timestamps: bool         --word-timestamps, --no-word-timestamps
suppress_tokens: tuple        --suppress-tokens -1,50257
coverage_threshold: | None    --coverage-threshold none
"""

import inspect
import re
import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Annotated, Any, Final, Literal, TypeVar, Union, get_args, get_origin

import typer

from whisperbatch import options
from whisperbatch.options import shows

T = TypeVar("T")

PANELS: Final = (
    (options.AudioOptions, "What is read"),
    (options.LanguageOptions, "Languages"),
    (options.DecodeOptions, "Decoding"),
    (options.VadOptions, "Where speech is"),
    (options.ChunkOptions, "Chunks"),
    (options.FeatureOptions, "Features"),
)

ALIASES: Final = {
    "--logprob-threshold": "--log-prob-threshold",
    "--output-format": "--format",
    "--threads": "--intra-threads",
}
"""What other command lines of Whisper's call them."""

NONE: Final = object()  # given in words, where None stands for what is not given
VALUES: Final = {"true": True, "false": False}

SAID: Final = {
    "clip_timestamps": (
        "Work on these ranges alone: start, end, start, end, ... in seconds, in order. The "
        "last end may be left out."
    ),
    "language": 'Whisper\'s code or English name; "none" detects it.',
    "vad": (
        "Tell speech from what is not. Without, everything is speech, and is cut where it is "
        "quietest; onset, offset, silence and pad then are refused."
    ),
    "patience": (
        "Beam search goes on until so many times its beams are finished. Not for greedy search."
    ),
    "temperature": (
        "0 is beam or greedy search, above 0 samples. Several are a ladder: rows that fail a "
        "threshold are decoded again at the next, when nothing else has mended them."
    ),
    "max_initial_timestamp": (
        "The first timestamp token is at most this many seconds. With --timestamps tokens."
    ),
    "max_new_tokens": "Most tokens decoded for a chunk, if fewer than Whisper's own limit.",
    "coverage_threshold": (
        "Where more than this many seconds of speech in a row have no words, the chunk is cut "
        'anew and decoded again; "none" accepts it. Without --vad there is no such check, nor '
        "of translations."
    ),
    "hallucination_filter": (
        "Drop loops, text faster than anybody speaks, boilerplate over music and text leaked "
        "from a prompt."
    ),
    "initial_prompt": (
        "Text that every chunk is decoded as the continuation of: names, spelling, style."
    ),
    "max_silence": "Silence inside a chunk longer than this many seconds is shortened to it.",
    "max_line_width": (
        "Columns of a line, of which East Asian wide characters take two. A single word that "
        'is wider stands on a line of its own. "none" sets no limit.'
    ),
    "max_line_count": (
        'Lines of a cue; a segment of more becomes several cues. "none" sets no limit.'
    ),
    "max_words_per_line": "Words of a line; with one line a cue, also of a cue.",
}
"""Where a docstring speaks of Python."""


def documented(described: object) -> dict[str, str]:
    """What a docstring's list of attributes or arguments says of each, on one line."""
    text = inspect.getdoc(described) or ""
    listed = re.search(r"^(?:Attributes|Args):\n(.*?)(?=^\S|\Z)", text, re.DOTALL | re.MULTILINE)
    entries = re.findall(
        r"^    (\w+): (.*?)(?=^    \w+: |\Z)",
        listed.group(1) if listed else "",
        re.DOTALL | re.MULTILINE,
    )
    return {name: " ".join(said.split()) for name, said in entries}


def of_options(only: Iterable[str] | None = None) -> Iterator[inspect.Parameter]:
    """A flag for each option; None stands for what is not given.

    Args:
        only: the names of those that are wanted; None for all.
    """
    for group, panel in PANELS:
        for one in of_class(group, panel):
            if only is None or one.name in only:
                yield one


def of_class(group: type[Any], panel: str) -> Iterator[inspect.Parameter]:
    """A flag for each field of a dataclass."""
    said = documented(group)
    for field in fields(group):
        yield flag(field.name, field.type, field.default, said[field.name], panel)


def of_function(
    function: Callable[..., object], names: Sequence[str], panel: str
) -> Iterator[inspect.Parameter]:
    """A flag for some of a function's keywords."""
    said = documented(function)
    parameters = inspect.signature(function).parameters
    for name in names:
        one = parameters[name]
        yield flag(name, one.annotation, one.default, said[name], panel)


def flag(name: str, kind: object, default: object, said: str, panel: str) -> inspect.Parameter:
    """One flag."""
    spelled = _dashed(name)
    shown = "" if default in (None, "", ()) else f" Default: {_shown(default)}."
    text = SAID.get(name, _sentence(said)) + shown
    about: dict[str, Any] = {"help": text, "rich_help_panel": panel}
    bare = _bare(kind)
    if bare is bool:
        spelled = f"{spelled}/--no-{spelled[2:]}"
        accepted: Any = bool
    elif get_origin(bare) is Literal or (
        bare in (int, float) and default is not None and not _may_be_none(kind)
    ):
        accepted = bare
    else:
        accepted = str
        if bare is not str:
            optional = _may_be_none(kind)
            about["parser"], about["metavar"] = _parser(bare, optional=optional), _metavar(bare)
    option = typer.Option(spelled, show_default=False, **about)
    return inspect.Parameter(
        name,
        inspect.Parameter.KEYWORD_ONLY,
        default=None,
        annotation=Annotated[accepted | None, option],
    )


def takes(
    *flags: inspect.Parameter,
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command flags in place of its `**keywords`."""

    def decorate(function: Callable[..., None]) -> Callable[..., None]:
        function.__annotations__ |= {one.name: one.annotation for one in flags}
        return shows(*flags)(function)

    return decorate


def taken_out(keywords: dict[str, Any], group: Callable[..., T]) -> T:
    """A value of a dataclass from those flags that are its fields, which are taken out."""
    return group(**taken(keywords, [field.name for field in fields(group)]))  # type: ignore[arg-type]  # a dataclass


def taken(keywords: dict[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """Those flags, taken out."""
    return {name: keywords.pop(name) for name in names if name in keywords}


def given(keywords: dict[str, Any]) -> dict[str, Any]:
    """The flags that were given; "none" has become None."""
    found = {name: value for name, value in keywords.items() if value is not None}
    if str(found.get("language", "")).lower() == "none":
        del found["language"]
    return {name: None if value is NONE else value for name, value in found.items()}


def spelled_out(arguments: Sequence[str], switches: Mapping[str, bool]) -> list[str]:
    """Flags as they are declared here, from how other command lines of Whisper's have them.

    `--beam_size` becomes `--beam-size`; `--word_timestamps True` becomes `--word-timestamps`, and
    with False `--no-word-timestamps`. After `--` nothing is a flag.

    Args:
        arguments: of the command line.
        switches: what is on or off, by its name; whether there is a `--no-` of it.
    """
    names = {_dashed(name): negative for name, negative in switches.items()}
    found: list[str] = []
    for number, given in enumerate(arguments):
        if given == "--":
            return [*found, *arguments[number:]]
        one, name, value = given, given, ""
        if given.lower() in VALUES and found and found[-1] in names:
            one = name = found.pop()
            value = given.lower()
        elif given.startswith("--"):
            written, equals, value = given.partition("=")
            name = written.replace("_", "-")
            name = ALIASES.get(name, name)
            one = f"{name}{equals}{value}"
            value = value.lower()
        if name not in names or value not in VALUES:
            found.append(one)
        elif VALUES[value]:
            found.append(name)
        elif names[name]:
            found.append(f"--no-{name[2:]}")
    return found


def switches(*groups: type[Any]) -> dict[str, bool]:
    """Fields that are on or off: all have a `--no-`."""
    return {field.name: True for group in groups for field in fields(group) if field.type is bool}


def _parser(kind: object, *, optional: bool) -> Callable[[str], Any]:
    def parse(text: str) -> Any:  # noqa: ANN401 - what the option takes
        if optional and text.lower() == "none":
            return NONE
        try:
            return PARSERS[kind](text)
        except ValueError as error:
            raise typer.BadParameter(f"{text!r} is not of the form {_metavar(kind)}") from error

    return parse


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(one) for one in _parts(text))


def _ladder(text: str) -> float | tuple[float, ...]:
    found = tuple(float(one) for one in _parts(text))
    return found if len(found) != 1 else found[0]


def _ranges(text: str) -> tuple[tuple[float, float | None], ...]:
    """Start, end, start, end, ...; the last end may be left out."""
    times: list[float | None] = [float(one) for one in _parts(text)]
    if len(times) % 2:
        times.append(None)
    starts = [0.0 if one is None else one for one in times[::2]]
    return tuple(zip(starts, times[1::2], strict=True))


def _parts(text: str) -> list[str]:
    return [one.strip() for one in text.split(",") if one.strip()]


LADDER: Final = float | tuple[float, ...]
RANGES: Final = tuple[tuple[float, float | None], ...]

PARSERS: Final[dict[object, Callable[[str], Any]]] = {
    int: int,
    float: float,
    tuple[int, ...]: _numbers,
    tuple[str, ...]: lambda text: tuple(_parts(text)),
    int | tuple[int, ...]: _numbers,
    LADDER: _ladder,
    RANGES: _ranges,
}

METAVARS: Final[dict[object, str]] = {
    int: "N",
    float: "X",
    tuple[int, ...]: "N,N",
    tuple[str, ...]: "A,B",
    int | tuple[int, ...]: "N,N",
    LADDER: "X,X",
    RANGES: "X,X",
}
"""What the help says that they are given."""


def _metavar(kind: object) -> str:
    return METAVARS.get(kind, "TEXT")


def _bare(kind: object) -> object:
    """A type without None, and of text or tokens the text."""
    if get_origin(kind) not in (Union, types.UnionType):
        return kind
    members = [one for one in get_args(kind) if one is not type(None)]
    if str in members:
        return str
    bare = members[0]
    for one in members[1:]:
        bare |= one
    return bare


def _may_be_none(kind: object) -> bool:
    return type(None) in get_args(kind)


def _dashed(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _shown(default: object) -> str:
    if isinstance(default, bool):
        return "on" if default else "off"
    return ",".join(map(str, default)) if isinstance(default, tuple) else str(default)


def _sentence(said: str) -> str:
    """A docstring's words, with its marks of code and Python's spelling of values taken away."""
    return (said[:1].upper() + said[1:]).replace("`", "").replace("[", "(").replace("]", ")")
