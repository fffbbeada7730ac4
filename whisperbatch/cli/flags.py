"""Command-line flags: each is declared once, as a field of a dataclass or a keyword of `load`.

A field of an option class gives a name, type and help text:

beam_size: int = 5            --beam-size, --beam_size 5
word_timestamps: bool         --word-timestamps, --no-word-timestamps
suppress_tokens: tuple        --suppress-tokens -1,50257
coverage_threshold: | None    --coverage-threshold none
"""

import inspect
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeVar, get_args, get_origin

import typer
from typer.core import TyperCommand

from whisperbatch import load, options
from whisperbatch.cli.help import UNGROUPED, Flag, print_page
from whisperbatch.engines.settings import EngineName
from whisperbatch.errors import OptionError
from whisperbatch.live import LiveSettings
from whisperbatch.models import available_models
from whisperbatch.options import (
    SAME_VALUES,
    SHORT_FLAGS,
    TRUTH_VALUES,
    advice_on,
    as_text,
    documented_fields,
    documented_sections,
    metavar_of,
    parse_text,
    problem_of,
    same_option,
    spell_in_python,
    spell_options,
    with_parameters,
    without_none,
)
from whisperbatch.text import LANGUAGES, shown
from whisperbatch.writers import FORMATS, SubtitleOptions, TableOptions

T = TypeVar("T")

NONE: Final = object()
"""The value of a flag with the text "none". None itself means that the flag is not given."""

PANELS: Final = {
    "Which part of a recording is read": "Audio",
    "How the language of a recording is decided": "Languages",
    "How the decoder searches for the tokens of a chunk": "Decoding",
    "How the text of a chunk is chosen, checked and timed": "Decoding",
    "How speech is found; durations are in seconds": "Voice activity detection",
    "How speech spans are joined to chunks": "Chunks",
    "The input of the encoder": "Features",
    "Who speaks": "Speakers",
}
"""The sections in the docstring of `Options`, with their headings on the help page."""

FLAG_NAMES: Final = {
    *(
        field.name
        for cls in (options.Options, SubtitleOptions, TableOptions, LiveSettings)
        for field in fields(cls)
    ),
    *inspect.signature(load).parameters,
    "plot",
}
"""Names in docstrings that become flags in help texts."""

PYTHON_SENTENCE: Final = re.compile(r" (?:In Python|An array)\b.*?\.(?= |$)")
"""A sentence in a docstring that has no meaning on the command line."""

HELP_TEXTS: Final = {
    "delay": (
        "How long text is held back, so that fewer words are wrong: 0.3, 0.6, 1 or 1.6 s. xhigh "
        "shows the text of a turn only when it is final."
    ),
    "turn_silence": (
        "Seconds of silence that end a turn. The text of a turn is then decoded again, and final."
    ),
    "clip_timestamps": (
        "Time ranges to transcribe, in seconds: start,end,start,end,... in ascending order and "
        "without overlap. Without the last end, the last range lasts to the end of the recording."
    ),
    "max_words_per_line": (
        "Maximum number of words of a line; with --max-line-count 1, also of a cue. "
        '"none" sets no limit.'
    ),
    "highlight_words": (
        "Show a separate cue for each word, in which this word is underlined. In ass files, the "
        "words are coloured as they are spoken (karaoke)."
    ),
}
"""Help texts of flags that are written in another way, or need less, than in Python."""

OUTPUT_FILE: Final = "A file such as talk.srt: its suffix is the format."  # for --output
MESSAGES: Final = "Pictures and messages"  # heading of flags
WHOLE_PAGE: Final = "whisperbatch.whole_page"  # key of a context: whether --help was given


def complete_formats(incomplete: str) -> list[str]:
    """Return the formats that complete a list such as "srt,v"."""
    before, comma, last = incomplete.rpartition(",")
    return [f"{before}{comma}{name}" for name in (*FORMATS, "all") if name.startswith(last)]


def complete_languages(incomplete: str) -> list[str]:
    """Return the codes of languages that begin so."""
    return [code for code in LANGUAGES if code.startswith(incomplete)]


def complete_models(incomplete: str) -> list[str]:
    """Return the names of models that begin so."""
    return [name for name in available_models() if name.startswith(incomplete)]


DEFAULT_MODEL: Final[str] = inspect.signature(load).parameters["model"].default
Model = Annotated[
    str,
    typer.Option(
        *("--model", "-m"),
        metavar="NAME",
        autocompletion=complete_models,
        help="A name, a directory of CTranslate2 weights, or a Hugging Face repository.",
    ),
]
Inputs = Annotated[
    list[str],
    typer.Argument(
        metavar="RECORDING",
        help="Files, directories, patterns or URLs; - is standard input.",
        show_default=False,
    ),
]
Revision = Annotated[
    str | None,
    typer.Option(
        "--revision",
        metavar="NAME",
        help="Commit, branch or tag of the model on the Hugging Face hub.",
    ),
]
Verbose = Annotated[
    bool,
    typer.Option(
        *("--verbose", "-v"),
        help="Print the choices that whisperbatch makes, and why.",
        rich_help_panel=MESSAGES,
    ),
]


def option_flags(
    names: Iterable[str] | None = None, hidden: Collection[str] = ()
) -> Iterator[inspect.Parameter]:
    """Yield a flag for each option; its default, None, means that the flag is not given.

    Args:
        names: of the options; None for all.
        hidden: options that the help pages do not list.
    """
    sections = documented_sections()
    declared = {field.name: field for field in fields(options.Options)}
    for section, panel in PANELS.items():
        for name, description in sections[section].items():
            if names is None or name in names:
                field = declared[name]
                kind, shown = field.type, name not in hidden
                yield make_flag(name, kind, field.default, description, panel, listed=shown)


def dataclass_flags(group: type[Any], panel: str) -> Iterator[inspect.Parameter]:
    """Yield a flag for each field of a dataclass; `panel` is the heading on the help page."""
    descriptions = documented_fields(group)
    for field in fields(group):
        yield make_flag(field.name, field.type, field.default, descriptions[field.name], panel)


def live_flags(names: Iterable[str]) -> Iterator[inspect.Parameter]:
    """Yield a flag for each of these settings of a live session."""
    descriptions = documented_fields(LiveSettings)
    declared = {field.name: field for field in fields(LiveSettings)}
    for name in names:
        field = declared[name]
        yield make_flag(name, field.type, field.default, descriptions[name], UNGROUPED)


def load_flags(names: Iterable[str], panel: str) -> Iterator[inspect.Parameter]:
    """Yield a flag for each of these keywords of `load`."""
    descriptions = documented_fields(load)
    parameters = inspect.signature(load).parameters
    for name in names:
        parameter = parameters[name]
        # a settings object cannot be written as text
        annotation = EngineName if name == "engine" else parameter.annotation
        yield make_flag(name, annotation, parameter.default, descriptions[name], panel)


def make_flag(
    name: str,
    annotation: object,
    default: object,
    description: str,
    panel: str,
    *,
    listed: bool = True,
) -> inspect.Parameter:
    """Return a parameter that Typer shows as a flag.

    Args:
        name: of the option or keyword, in Python's spelling.
        annotation: its type.
        default: its default, for the help text.
        description: its help text, unless `HELP_TEXTS` has another.
        panel: the heading on the help page.
        listed: whether the help pages list the flag.
    """
    spelling = flag_of(name)
    stated = "" if default in (None, "", ()) else f" Default: {_default_text(default)}."
    text = HELP_TEXTS.get(name, _as_sentence(description, name)) + stated
    settings: dict[str, Any] = {"help": text, "rich_help_panel": panel, "hidden": not listed}
    value_type = without_none(annotation)
    typer_type: Any = str
    if name == "language":
        settings["autocompletion"] = complete_languages
    if value_type is bool:
        spelling = f"{spelling}/--no-{spelling[2:]}"
        typer_type = bool
    elif get_origin(value_type) is Literal:
        typer_type = value_type
        settings["metavar"] = "|".join(map(str, get_args(value_type)))
    else:
        settings["metavar"] = metavar_of(value_type)
        if value_type is not str:
            settings["parser"] = parser_of(annotation)
    option = typer.Option(spelling, show_default=False, **settings)
    return inspect.Parameter(
        name,
        inspect.Parameter.KEYWORD_ONLY,
        default=None,
        annotation=Annotated[typer_type | None, option],
    )


def parser_of(annotation: object) -> Callable[[str], Any]:
    """Return a function that parses the text of a flag of this type."""

    def parse(text: str) -> Any:  # noqa: ANN401 - any type of an option
        try:
            value = parse_text(annotation, text)
        except ValueError as error:
            raise typer.BadParameter(problem_of(annotation, text)) from error
        return NONE if value is None else value

    return parse


GROUPS: Final[Mapping[object, str]] = {SubtitleOptions: "Subtitles", TableOptions: "Tables"}
"""Dataclasses whose fields are flags, if a field of a command's arguments has this type; with their
headings on the help page."""


def argument_flags(arguments: type[Any]) -> Iterator[inspect.Parameter]:
    """Yield the flags that the fields of a command's arguments declare.

    A field of the type `Annotated[..., typer.Option(...)]` is a flag, or with `typer.Argument` a
    positional argument. A field of a type of `GROUPS` stands for the flags of its fields.
    """
    for field in fields(arguments):
        if field.type in GROUPS:
            yield from dataclass_flags(field.type, GROUPS[field.type])  # type: ignore[arg-type]  # a class
        elif get_origin(field.type) is Annotated:
            default = inspect.Parameter.empty if field.default is MISSING else field.default
            kind = inspect.Parameter.KEYWORD_ONLY
            yield inspect.Parameter(field.name, kind, default=default, annotation=field.type)


def with_arguments(
    arguments: type[Any],
    *,
    load: Sequence[str] = (),
    options: Collection[str] = (),
    hidden: Collection[str] = (),
    live: Collection[str] = (),
) -> Callable[[Callable[[Any], None]], Callable[..., None]]:
    """Return a decorator for a command whose flags are collected in a dataclass.

    Args:
        arguments: the dataclass. Its fields declare flags, see `argument_flags`.
        load: keywords of `load` that are flags: the field `load_keywords`.
        options: options that are flags: the field `options`, keywords of the command's function.
        hidden: options that are flags, and that the help pages do not list.
        live: settings of a live session that are flags, and become options, too.
    """
    declared = tuple(argument_flags(arguments))
    more = (*live_flags(live), *load_flags(load, "Model"), *option_flags(options, hidden))

    def decorate(function: Callable[[Any], None]) -> Callable[..., None]:
        @with_flags(*declared, *more)
        def command(**keywords: Any) -> None:  # noqa: ANN401 - the flags
            given = given_flags(keywords)
            values: dict[str, Any] = {}
            for field in fields(arguments):
                if field.type in GROUPS:
                    values[field.name] = pop_group(given, field.type)  # type: ignore[arg-type]  # a class
                elif field.name in given:
                    values[field.name] = given.pop(field.name)
            if load:
                values["load_keywords"] = pop_keywords(given, load)
            if options:
                values["options"] = given
            function(arguments(**values))

        command.__doc__ = function.__doc__
        return command

    return decorate


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


def normalize(arguments: Sequence[str], has_negative: Mapping[str, bool]) -> list[str]:
    """Return the arguments with the spellings of other Whisper command lines replaced.

    `--beam_size` becomes `--beam-size`; `--word_timestamps True` becomes `--word-timestamps`, and
    with False `--no-word-timestamps`; `-l` and `--lang` become `--language`. Arguments after `--`
    stay unchanged.

    Args:
        arguments: of the command line.
        has_negative: the boolean flags, and whether each has a `--no-` form.

    Raises:
        OptionError: a recording is given in place of a format.
    """
    result: list[str] = []
    for number, argument in enumerate(arguments):
        if argument == "--":
            return [*result, *arguments[number:]]
        rewritten, name, value = argument, argument, ""
        if argument.lower() in TRUTH_VALUES and result and result[-1] in has_negative:
            rewritten = name = result.pop()
            value = argument.lower()
        elif argument.startswith("--") or argument in SHORT_FLAGS:
            spelling, equals, value = argument.partition("=")
            name = own_spelling(spelling)
            rewritten = f"{name}{equals}{value}"
            value = value.lower()
        elif result and result[-1] in ("-f", "--format"):
            _check_is_format(argument)
        if name not in has_negative or value not in TRUTH_VALUES:
            result.append(rewritten)
        elif TRUTH_VALUES[value]:
            result.append(name)
        elif has_negative[name]:
            result.append(f"--no-{name[2:]}")
    return result


def own_spelling(flag: str) -> str:
    """Return the flag here that means the same as a long flag, or a short flag of whisper.cpp.

    A flag that has no meaning here becomes a long flag, which the command refuses: "--output-srt"
    for "-osrt".
    """
    if not flag.startswith("--") and flag not in SHORT_FLAGS:
        return flag
    keyword = flag[2:].replace("-", "_") if flag.startswith("--") else SHORT_FLAGS[flag]
    return flag_of(same_option(keyword) or keyword)


def without_same_values(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Remove flags of other programs that ask for what whisperbatch does anyway (`SAME_VALUES`).

    Returns:
        The other arguments, and a line for each flag that was removed.
    """
    result: list[str] = []
    notes: list[str] = []
    remaining = iter(enumerate(arguments))
    for number, argument in remaining:
        if argument == "--":
            return [*result, *arguments[number:]], notes
        spelling, equals, value = argument.partition("=")
        keyword = spelling[2:].replace("-", "_") if spelling.startswith("--") else ""
        following = "".join(arguments[number + 1 : number + 2])
        if (value if equals else following).lower() not in SAME_VALUES.get(keyword, ()):
            result.append(argument)
            continue
        if not equals:
            next(remaining)
        reason = spell_options(advice_on(keyword, command_line=True), as_flag)
        given = argument if equals else f"{spelling} {following}"
        notes.append(f"{given} is not needed: {reason.removeprefix('leave it out: ')}")
    return result, notes


def _check_is_format(text: str) -> None:
    """Refuse the name of a recording in place of a format: "-f talk.wav" is of whisper.cpp."""
    if Path(text).suffix or "/" in text:
        raise OptionError(
            f"--format {shown(text)} names no format; give a recording without a flag: "
            f"whisperbatch talk.mp3 --format srt"
        )


def find_switches(commands: Iterable[Any]) -> dict[str, bool]:
    """Return the boolean flags of commands, and whether each has a `--no-` form."""
    parameters = (parameter for command in commands for parameter in command.params)
    return {
        name: bool(parameter.secondary_opts)
        for parameter in parameters
        if getattr(parameter, "is_flag", False)
        for name in parameter.opts
        if name.startswith("--")
    }


def flag_of(name: str) -> str:
    """Return the flag of an option: "--beam-size" for "beam_size"."""
    return f"--{name.replace('_', '-')}"


def _default_text(default: object) -> str:
    if isinstance(default, bool):
        return "on" if default else "off"
    return ",".join(map(str, default)) if isinstance(default, tuple) else str(default)


def _as_sentence(description: str, name: str) -> str:
    """Return the docstring entry of an option as a help text.

    "`beam_size=1`" becomes "--beam-size 1". None becomes "none". False becomes the `--no-` form of
    the flag, also as a value. Sentences about Python are left out.
    """
    text = PYTHON_SENTENCE.sub("", description)
    text = spell_options(text, as_flag)
    text = re.sub(r"\bNone\b", '"none"', text)
    text = re.sub(r"\bFalse\b", f"--no-{flag_of(name)[2:]}", text)
    text = text[:1].upper() + text[1:]
    return text.replace("`", "").replace("[", "(").replace("]", ")")


def as_flag(name: str, value: str | None) -> str:
    """Return an option as it is written on the command line: "--beam-size 1", "--no-vad".

    Args:
        name: of the option; a name that is no flag stays unchanged.
        value: as Python writes it; None for the name alone.
    """
    if name not in FLAG_NAMES:
        return spell_in_python(name, value)
    if value in ("True", "False"):
        return flag_of(name) if value == "True" else f"--no-{flag_of(name)[2:]}"
    return flag_of(name) if value is None else f"{flag_of(name)} {as_text(value)}"


class ListedCommand(TyperCommand):
    """A command with a page of `cli.help`: the short one with -h, the complete one with --help."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # noqa: ANN401 - as in Typer
        """See the base class; note which page is wanted."""
        ctx.meta[WHOLE_PAGE] = "--help" in args
        return super().parse_args(ctx, args)

    def format_help(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401, ARG002 - as in Typer
        """Print the page."""
        inputs = [
            f"{parameter.metavar}{'...' if parameter.nargs < 0 else ''}"
            for parameter in self.params
            if parameter.param_type_name == "argument"
        ]
        print_page(
            " ".join((ctx.command_path, *inputs, "[OPTIONS]")),
            f"\n{self.help or ''}",
            page_flags(self, ctx),
            brief=not ctx.meta.get(WHOLE_PAGE),
        )
        raise typer.Exit


def page_flags(command: Any, ctx: Any) -> list[Flag]:  # noqa: ANN401 - types that Typer does not export
    """Return the arguments and flags of a command for a help page, without -h and --help."""
    found: list[Flag] = []
    for parameter in command.get_params(ctx):
        record = parameter.get_help_record(ctx)
        if record is None or parameter.name == "help":
            continue
        names = record[0] if parameter.param_type_name == "option" else parameter.metavar
        names = str(names).replace("<", "").replace(">", "")  # newer versions of Typer add them
        group = getattr(parameter, "rich_help_panel", None) or UNGROUPED
        found.append(Flag(parameter.name, names, record[1], str(group)))
    return found
