"""The parameters of a request: the names of the published handler, and all options.

batch_size, language, task       options with the same name
chunk_length_s                   the option chunk_length
assisted                         with the draft model ASSISTANT_MODEL
num_speakers, min_speakers, ...  the options, and diarize=True

Values are JSON values, or the same as text: query parameters are text.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from types import MappingProxyType
from typing import Any, Final, Literal, get_origin

import whisperbatch as wb
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
    """

    options: wb.Options
    assisted: bool = False


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
    changes: dict[str, Any] = {}
    for name, value in given.items():
        option = _option(name)
        if option in changes:
            raise wb.OptionError(f"{name}: {option} is given twice, by two names")
        changes[option] = _value(name, TYPES[option], value)
    if "diarize" not in changes and any(name in changes for name in SPEAKERS):
        changes["diarize"] = True
    if changes.get("diarize") is False:  # then the other defaults for speakers have no meaning
        changes = {**NO_SPEAKERS, **changes}
    if assisted:
        _use_greedy_search(changes)
    options = _replace(defaults or wb.Options(), changes, given)
    temperature = options.temperature
    if assisted and (temperature[0] if isinstance(temperature, tuple) else temperature):
        raise wb.OptionError("assisted has no effect on sampling: leave out temperature")
    return Inference(options, assisted)


def parse_object(text: str) -> object:
    """Return the parameters that a form gives as JSON.

    Raises:
        OptionError: the text is not JSON.
    """
    return parse_json(text, "parameters")


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
    if name == "sampling_rate":
        raise wb.OptionError("sampling_rate is refused: the recording states its own rate")
    if name == "known_speakers":  # a client must not name files of the server
        raise wb.OptionError("known_speakers is refused: voices cannot be sent to this endpoint")
    if name == "diarizer":  # nor have the server run a package or a pipeline
        raise wb.OptionError("diarizer is refused: the server decides how speakers are found")
    if option not in TYPES:
        hint = hint_for(name, TYPES.keys())
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
    defaults: wb.Options, changes: Mapping[str, Any], given: Mapping[str, object]
) -> wb.Options:
    """Return the changed options.

    Raises:
        OptionError: an option is wrong; the message begins with the name that the client used.
    """
    try:
        return replace(defaults, **changes)
    except wb.OptionError as error:
        for name, option in OTHER_NAMES.items():
            if name in given and option in str(error):
                raise wb.OptionError(f"{name}: {error}") from error
        raise
