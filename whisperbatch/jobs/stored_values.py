"""Values that are read back from a store: JSON becomes a dataclass, and every type is checked.

line of a plan   ->  Header, Recording, Task       wrong: OptionError, with the file and the line
lease            ->  Lease                         wrong: a lease that holds nothing
.joined marker   ->  Marker                        wrong: the files are written again
result of a row  ->  text or languages             wrong: the row is computed again
"""

import json
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Any, Final, TypeAlias, TypeVar, Union, get_args, get_origin, get_type_hints

T = TypeVar("T")
Convert: TypeAlias = Callable[[Any, str], Any]
"""Takes a value and its key, for the message."""

MAX_NUMBER: Final = 1e15  # of any time, duration or count
NAME: Final = re.compile(r"[0-9A-Za-z_-]{1,100}")


class DamagedError(ValueError):
    """A stored value is not what whisperbatch writes; the message says where."""


def parse_json(data: str | bytes) -> dict[str, Any]:
    """Return the JSON object in a text.

    Raises:
        DamagedError: the text is not JSON, or is no object.
    """
    try:
        value = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise DamagedError(f"is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise DamagedError("is not a JSON object")
    return value


def build(cls: type[T], value: object) -> T:
    """Return a dataclass, a tuple or a mapping from a value of JSON.

    Keys that are no fields are ignored: a later version may write more. Lists become tuples.

    Args:
        cls: its fields or items may have the types of JSON, other dataclasses, tuples, mappings and
            unions of these.
        value: of `json.loads`.

    Raises:
        DamagedError: a key is missing, or its value has another type.
    """
    kind: Any = cls
    found: T = _converter(kind)(value, getattr(cls, "__name__", "value").lower())
    return found


def check_names(key: str, *names: str) -> None:
    """Check that texts can be parts of names of objects, and are no paths.

    Raises:
        DamagedError: one of them is.
    """
    if not all(map(NAME.fullmatch, names)):
        raise DamagedError(f"has a wrong value of {key!r}: it must be letters and digits")


@cache
def _converter(kind: Any) -> Convert:  # noqa: ANN401 - a type
    """Return the function that checks a value of JSON and returns it as a value of this type."""
    origin, arguments = get_origin(kind), get_args(kind)
    if is_dataclass(kind):
        return _object_converter(kind)
    if origin in (Union, UnionType):
        [other] = [_converter(each) for each in arguments if each is not NoneType]
        return lambda value, key: None if value is None else other(value, key)
    if origin is tuple:
        return _list_converter([_converter(each) for each in arguments if each is not ...])
    if origin is Mapping:
        inner = _converter(arguments[1])

        def convert_mapping(value: Any, key: str) -> Any:  # noqa: ANN401 - of JSON
            _check(isinstance(value, dict), key, "an object")
            return {name: inner(item, key) for name, item in value.items()}

        return convert_mapping
    return _PLAIN[kind]


def _object_converter(cls: Any) -> Convert:  # noqa: ANN401 - a dataclass
    hints = get_type_hints(cls)
    converters = {each.name: _converter(hints[each.name]) for each in fields(cls)}
    required = [
        each.name
        for each in fields(cls)
        if each.default is MISSING and each.default_factory is MISSING
    ]

    def convert(value: Any, key: str) -> Any:  # noqa: ANN401 - of JSON
        _check(isinstance(value, dict), key, "an object")
        for name in required:
            if name not in value:
                raise DamagedError(f"lacks a key: {name!r}")
        return cls(
            **{
                name: convert(value[name], name)
                for name, convert in converters.items()
                if name in value
            }
        )

    return convert


def _list_converter(converters: list[Convert]) -> Convert:
    """Return the function for a list: of any length if there is one converter for all items."""

    def convert(value: Any, key: str) -> Any:  # noqa: ANN401 - of JSON
        _check(isinstance(value, list), key, "a list")
        if len(converters) == 1:
            return tuple(converters[0](item, key) for item in value)
        _check(len(value) == len(converters), key, f"a list of {len(converters)} values")
        return tuple(each(item, key) for each, item in zip(converters, value, strict=True))

    return convert


def _text(value: Any, key: str) -> str:  # noqa: ANN401 - of JSON
    _check(isinstance(value, str), key, "text")
    if not value.isascii():
        try:
            os.fsencode(value)  # a lone surrogate is no character, unless a file name has it
        except UnicodeEncodeError as error:
            raise DamagedError(f"has a wrong value of {key!r}: it must be text") from error
    return str(value)


def _integer(value: Any, key: str) -> int:  # noqa: ANN401 - of JSON
    _check(type(value) is int and abs(value) <= MAX_NUMBER, key, "a whole number")
    return int(value)


def _number(value: Any, key: str) -> float:  # noqa: ANN401 - of JSON
    # comparisons with NaN are false
    _check(type(value) in (int, float) and abs(value) <= MAX_NUMBER, key, "a number")
    return float(value)


def _check(is_right: bool, key: str, wanted: str) -> None:
    if not is_right:
        raise DamagedError(f"has a wrong value of {key!r}: it must be {wanted}")


_PLAIN: Final[Mapping[Any, Convert]] = {
    str: _text,
    int: _integer,
    float: _number,
    Any: lambda value, _: value,
}
