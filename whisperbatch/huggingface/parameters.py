"""The parameters of a request: the names of the published handler, and all options.

batch_size, language, task       options with the same name
chunk_length_s                   the option chunk_length
assisted                         with the draft model ASSISTANT_MODEL
num_speakers, min_speakers, ...  the options, and diarize=True
return_timestamps, ...           see `generation`

Values are JSON values, or the same as text: query parameters are text.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from types import MappingProxyType
from typing import Any, Final, Literal, get_origin

import whisperbatch as wb
from whisperbatch.huggingface.generation import (
    GENERATION,
    RETURN_TIMESTAMPS,
    UNUSED,
    Given,
    parameters_of,
)
from whisperbatch.huggingface.inputs import parse_json
from whisperbatch.options import NO_SPEAKERS, hint_for, metavar_of, parse_text, without_none
from whisperbatch.text import one_line, shown

SPEAKERS: Final = ("num_speakers", "min_speakers", "max_speakers")
"""Parameters that find the speakers without `diarize`, as in the published handler."""

OTHER_NAMES: Final = MappingProxyType({"chunk_length_s": "chunk_length"})
TYPES: Final[Mapping[str, object]] = MappingProxyType(
    {field.name: field.type for field in fields(wb.Options)}
)


@dataclass(frozen=True, slots=True)
class Inference:
    """What a request asks for.

    Attributes:
        options: of the transcription.
        assisted: whether the draft model guesses tokens.
        words: whether the chunks of the answer are words.
    """

    options: wb.Options
    assisted: bool = False
    words: bool = False


def parse_parameters(
    parameters: object, defaults: wb.Options | None = None, *, can_assist: bool = False
) -> Inference:
    """Return what the parameters of a request ask for.

    Args:
        parameters: names and values; None for no parameters. A parameter that is null is not given.
        defaults: options of a request without parameters.
        can_assist: whether there is a draft model.

    Raises:
        OptionError: a parameter is unknown, wrong, or asks for something that cannot be done.
    """
    if parameters is None:
        parameters = {}
    if not isinstance(parameters, Mapping):
        raise wb.OptionError('parameters must be an object, such as {"language": "en"}')
    given = {str(name): value for name, value in parameters.items() if value is not None}
    assisted = _is_assisted(given.pop("assisted", False), can_assist=can_assist)
    read = _Reading(given)
    changes = read.changes
    if read.words:
        changes["word_timestamps"] = True
    if "diarize" not in changes and any(name in changes for name in SPEAKERS):
        changes["diarize"] = True
    if changes.get("diarize") is False:  # then the other defaults for speakers have no meaning
        changes = {**NO_SPEAKERS, **changes}
    if assisted:
        _use_greedy_search(changes)
    options = _replace(defaults or wb.Options(), changes, read.labels)
    temperature = options.temperature
    if assisted and (temperature[0] if isinstance(temperature, tuple) else temperature):
        raise wb.OptionError("assisted has no effect on sampling: leave out temperature")
    return Inference(options, assisted, read.words)


class _Reading:
    """The options that parameters ask for.

    Args:
        given: names and values.

    Attributes:
        changes: options with their values.
        labels: names that the client used for options with another name.
        words: whether the chunks of the answer are words.

    Raises:
        OptionError: a parameter is unknown, given twice, or not of the form of its option.
    """

    def __init__(self, given: Mapping[str, Any]) -> None:
        self.changes: dict[str, Any] = {}
        self.labels: dict[str, str] = {}
        self.words = False
        for parameter in _with_settings(given):
            name, label = parameter.name, parameter.label
            if name == RETURN_TIMESTAMPS:
                self.words |= _asks_for_words(label, parameter.value)
            elif name in UNUSED:
                _check_unused(name, parameter.value)
            else:
                self._add(label, _option(name), parameter.value)

    def _add(self, label: str, option: str, value: object) -> None:
        if option in self.changes:
            raise wb.OptionError(f"{label}: {option} is given twice, by two names")
        self.changes[option] = _value(label, TYPES[option], value)
        if label != option:
            self.labels[option] = label


def parse_object(text: str) -> object:
    """Return the parameters that a form gives as JSON.

    Raises:
        OptionError: the text is not JSON.
    """
    return parse_json(text, "parameters")


def _with_settings(given: Mapping[str, Any]) -> Iterator[Given]:
    """Yield the parameters, and those that settings of the search stand for.

    Raises:
        OptionError: a setting is wrong.
    """
    for name, value in given.items():
        if name in GENERATION:  # in a query, the object is text
            yield from parameters_of(
                name, parse_json(value, name) if isinstance(value, str) else value
            )
        else:
            yield Given(name, name, value)


def _asks_for_words(name: str, value: object) -> bool:
    """Return whether the chunks of the answer are words: return_timestamps="word"."""
    choices = (True, False, "true", "false", "word")
    given = value.lower() if type(value) is str else value
    if type(value) not in {bool, str} or given not in choices:
        raise wb.OptionError(f'{name} must be true, false or "word", not {shown(value)}')
    return given == "word"


def _check_unused(name: str, value: object) -> None:
    """Check the value of a parameter without effect, if the name is that of an option."""
    if name in TYPES:
        changes: dict[str, Any] = {name: _value(name, TYPES[name], value)}
        wb.Options(**changes)


def _is_assisted(value: object, *, can_assist: bool) -> bool:
    assisted = _value("assisted", bool, value)
    if type(assisted) is not bool:
        raise wb.OptionError(f"assisted must be true or false, not {shown(value)}")
    if assisted and not can_assist:
        raise wb.OptionError(
            "assisted=true needs a draft model, and this endpoint has none: set ASSISTANT_MODEL"
        )
    return assisted


def _use_greedy_search(changes: dict[str, Any]) -> None:
    """Add the search that draft models need."""
    if changes.setdefault("beam_size", 1) != 1:
        raise wb.OptionError("assisted=true needs greedy search: leave out beam_size")


def _option(name: str) -> str:
    """Return the option that a parameter sets.

    Raises:
        OptionError: there is no such parameter.
    """
    option = OTHER_NAMES.get(name, name)
    if name == "known_speakers":  # a client must not name files of the server
        raise wb.OptionError("known_speakers is refused: voices cannot be sent to this endpoint")
    if name == "diarizer":  # nor have the server run a package or a pipeline
        raise wb.OptionError("diarizer is refused: the server decides how speakers are found")
    if option not in TYPES:
        hint = hint_for(name, (*TYPES, *OTHER_NAMES, *GENERATION, RETURN_TIMESTAMPS))
        raise wb.OptionError(f"{one_line(name)} is not a parameter{f'; {hint}' if hint else ''}")
    return option


def _value(name: str, annotation: object, value: object) -> object:
    """Return the value of an option that has this type; Options checks the value."""
    plain = without_none(annotation)
    if not isinstance(value, str) or plain is str or get_origin(plain) is Literal:
        return _tuples(value)
    try:
        return parse_text(annotation, value)
    except ValueError as error:
        form = metavar_of(plain)
        raise wb.OptionError(f"{name} must be of the form {form}, not {shown(value)}") from error


def _tuples(value: object) -> object:
    """Return a value with tuples in place of lists."""
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


def _replace(
    defaults: wb.Options, changes: Mapping[str, Any], labels: Mapping[str, str]
) -> wb.Options:
    """Return the changed options.

    Raises:
        OptionError: an option is wrong; the message begins with the name that the client used.
    """
    try:
        return replace(defaults, **changes)
    except wb.OptionError as error:
        label = labels.get(next(iter(error.options), ""))
        if label is None:
            raise
        raise wb.OptionError(f"{label}: {error.marked}") from error
