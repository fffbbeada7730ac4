"""Dataclasses as values of JSON, and back; and the check of their fields.

The fields come from the declarations of the classes, so that no field is forgotten:

    Transcript(segments=(Segment(id=0, ...),), ...)  <->  {"segments": [{"id": 0, ...}], ...}

Values that were stored, values that a user gives, and dataclasses that a user has made have the
same checks of types (`_converter`):

            source                               unknown keys   times
    stored  `build`: JSON of a later version     ignored        any number
    given   `from_values`: JSON of `to_values`   refused        finite
    made    `check_fields`: a dataclass          -              finite
"""

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import (
    Any,
    Final,
    Literal,
    NoReturn,
    TypeAlias,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

import numpy as np

from whisperbatch.errors import OptionError
from whisperbatch.limits import MAX_DURATION

T = TypeVar("T")
Origin: TypeAlias = Literal["stored", "given", "made"]
Convert: TypeAlias = Callable[[Any, str], Any]
"""Takes a value and its name for messages; the outermost value has the name ""."""

MAX_NUMBER: Final = 2**63  # larger than every value of a field; Python prints no number of any size
MAX_STORED: Final = 1e15  # of any time, duration or count in a plan, a lease, a marker or a journal
TIMES: Final = ("start", "end", "duration", "checked_duration", "recovered_duration")
"""Names of the fields in seconds."""

_TYPES: Final[Mapping[type, tuple[Any, str]]] = {
    float: (int | float, "number"),
    int: (int, "whole number"),
    str: (str, "str"),
    bool: (bool, "bool"),
}


def to_values(item: Any) -> Any:  # noqa: ANN401 - a value of any field
    """Return a dataclass as values that JSON can hold: dicts, lists, numbers, texts."""
    if item is None or type(item) in _TYPES:
        return item
    if is_dataclass(item):
        return {field.name: to_values(getattr(item, field.name)) for field in fields(item)}
    if isinstance(item, tuple | list):
        return [to_values(member) for member in item]
    if isinstance(item, Mapping):
        return {name: to_values(member) for name, member in item.items()}
    return item.tolist() if isinstance(item, np.ndarray) else item


def from_values(cls: type[T], values: object) -> T:
    """Return the dataclass whose `to_values` is given. Fields with a default may be missing.

    Raises:
        OptionError: a field is missing, unknown, or has another type; or a time is not finite.
    """
    item: T = _converter(cast("Any", cls), "given")(values, "")
    return item


def check_fields(cls: Any, item: object) -> None:  # noqa: ANN401 - a dataclass
    """Check that every field has its declared type, and that all times are finite.

    A list may replace a tuple. A negative time, an end before its start, and words in another order
    are allowed. Mappings have no check.

    Args:
        cls: a dataclass.
        item: a value of this class.

    Raises:
        OptionError: a field has another type, or is out of range; the message names the field, as
            in "segments[3].words[0].start".
    """
    _converter(cls, "made")(item, "")


def parse_json(data: str | bytes) -> Any:  # noqa: ANN401 - of JSON
    """Return the value of a stored text of JSON.

    Raises:
        OptionError: the text is not JSON; a number is not finite or larger than `MAX_STORED`; or
            there is a lone surrogate, which is no character, unless a file name has it.
    """
    try:
        text = data if isinstance(data, str) else data.decode()
        value = _DECODER.decode(text)
        if "\\ud" in text.lower():
            os.fsencode(json.dumps(value, ensure_ascii=False))
    except (ValueError, RecursionError) as error:
        raise OptionError(f"is not JSON: {error}") from error
    return value


def build(kind: type[T], value: object) -> T:
    """Return a dataclass, a tuple or a mapping from a stored value of JSON.

    Lists become tuples. Fields with a default may be missing. Keys that are no fields are ignored:
    a later version may have stored more.

    Args:
        kind: a dataclass, a tuple or a mapping. Its fields or items may have the types of JSON,
            these kinds, and a union of one of them with None.
        value: of `parse_json`.

    Raises:
        OptionError: a key is missing, or its value has another type.
    """
    found: T = _converter(cast("Any", kind), "stored")(value, "")
    return found


@cache
def _converter(kind: Any, origin: Origin) -> Convert:  # noqa: ANN401 - a type
    """Return the function that checks a value and returns it as a value of this type."""
    if is_dataclass(kind):
        return _object_converter(kind, origin)
    form = get_origin(kind)
    # since NumPy 2.5, NDArray is an alias of the kind that Python 3.12 brought
    form = get_origin(getattr(form, "__value__", None)) or form
    if form in (np.ndarray, Literal):
        return _array if form is np.ndarray else _plain_converter(str)
    inner = [_converter(each, origin) for each in get_args(kind) if each not in (NoneType, ...)]
    if form in (Union, UnionType):
        return lambda value, name: None if value is None else inner[0](value, name)
    if form is tuple:
        return _tuple_converter(inner)
    if form is Mapping:
        return _mapping_converter(inner[1] if origin != "made" else None)
    return _plain_converter(kind)


def _object_converter(cls: Any, origin: Origin) -> Convert:  # noqa: ANN401 - a dataclass
    hints = get_type_hints(cls)
    converters = {
        each.name: _time
        if origin != "stored" and each.name in TIMES
        else _converter(hints[each.name], origin)
        for each in fields(cls)
    }
    required = [
        each.name
        for each in fields(cls)
        if each.default is MISSING and each.default_factory is MISSING
    ]

    def convert(value: Any, name: str) -> Any:  # noqa: ANN401 - of JSON
        if isinstance(value, cls):
            value = {key: getattr(value, key, None) for key in converters}
        elif origin == "made" or not isinstance(value, dict):
            _refuse(value, name or cls.__name__, cls.__name__ if name else "dict")
        for key in required:
            if key not in value:
                raise OptionError(f"{name or cls.__name__} lacks {key!r}")
        if origin == "given" and (unknown := value.keys() - converters.keys()):
            raise OptionError(f"{name or cls.__name__} has no {min(map(repr, unknown))}")
        prefix = name and f"{name}."
        return cls(
            **{
                key: each(value[key], f"{prefix}{key}")
                for key, each in converters.items()
                if key in value
            }
        )

    return convert


def _tuple_converter(converters: list[Convert]) -> Convert:
    """Return the function for a list: of any length if there is one converter for all items."""

    def convert(value: Any, name: str) -> Any:  # noqa: ANN401 - of JSON
        if not isinstance(value, list | tuple):
            _refuse(value, name, "tuple")
        if len(converters) == 1:
            [only] = converters
            return tuple(only(item, f"{name}[{number}]") for number, item in enumerate(value))
        if len(value) != len(converters):
            raise OptionError(f"{name} must have {len(converters)} values, not {len(value)}")
        return tuple(each(item, name) for each, item in zip(converters, value, strict=True))

    return convert


def _mapping_converter(inner: Convert | None) -> Convert:
    def convert(value: Any, name: str) -> Any:  # noqa: ANN401 - of JSON
        if inner is None:
            return value
        if not isinstance(value, Mapping):
            _refuse(value, name, "dict")
        return {key: inner(item, name) for key, item in value.items()}

    return convert


def _plain_converter(kind: Any) -> Convert:  # noqa: ANN401 - a type
    if kind is Any:
        return lambda value, _: value
    types, expected = _TYPES[kind]

    def convert(value: Any, name: str) -> Any:  # noqa: ANN401 - of a field
        if not isinstance(value, types) or (isinstance(value, bool) and kind is not bool):
            _refuse(value, name, expected)
        if isinstance(value, int) and abs(value) > MAX_NUMBER:
            raise OptionError(f"{name} is out of range: at most {MAX_NUMBER:g}")
        return value

    return convert


def _time(value: Any, name: str) -> Any:  # noqa: ANN401 - of a field
    _converter(float, "given")(value, name)
    if not -MAX_DURATION <= value <= MAX_DURATION:
        raise OptionError(
            f"{name} must be a finite number of seconds, at most {MAX_DURATION:g}, not {value:g}"
        )
    return value


def _array(value: Any, name: str) -> Any:  # noqa: ANN401 - of JSON
    try:
        return np.array(value, np.float32)
    except (TypeError, ValueError) as error:
        raise OptionError(f"{name} must be an array of numbers: {error}") from error


def _float(text: str) -> float:
    """Return a number of JSON. Comparisons with NaN are false."""
    if not abs(value := float(text)) <= MAX_STORED:
        raise ValueError(f"{text[:20]} is out of range")
    return value


def _int(text: str) -> int:
    _float(text)
    return int(text)


_DECODER: Final = json.JSONDecoder(parse_float=_float, parse_int=_int, parse_constant=_float)


def _refuse(value: object, name: str, expected: str) -> NoReturn:
    raise OptionError(f"{name} must be a {expected}, not {type(value).__name__}")
