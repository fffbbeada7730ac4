"""Dataclasses as values of JSON, and back; and the check of their fields.

The fields come from the declarations of the classes, so that no field is forgotten:

    Transcript(segments=(Segment(id=0, ...),), ...)  <->  {"segments": [{"id": 0, ...}], ...}

`build` is the only maker of dataclasses from values that were stored.
"""

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
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
Convert: TypeAlias = Callable[[Any, str], Any]
"""Takes a value of JSON and its name for messages; the outermost value has the name ""."""

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


@dataclass(frozen=True, slots=True)
class _Field:
    """The declared type of a field.

    Attributes:
        kind: a class; `Mapping` for arrays with names.
        is_several: whether the field has a tuple of values of this class.
        is_optional: whether the field may be None.
    """

    kind: type[Any]
    is_several: bool
    is_optional: bool


@cache
def _fields(cls: Any) -> Mapping[str, _Field]:  # noqa: ANN401 - a dataclass
    types = get_type_hints(cls)
    return {field.name: _field(types[field.name]) for field in fields(cls)}


def _field(annotation: Any) -> _Field:  # noqa: ANN401 - any annotation
    members = get_args(annotation)
    is_optional = NoneType in members
    if is_optional:
        annotation = next(member for member in members if member is not NoneType)
    is_several = get_origin(annotation) is tuple
    if is_several:
        annotation = get_args(annotation)[0]
    kinds = {Literal: str, Mapping: Mapping}
    return _Field(kinds.get(get_origin(annotation), annotation), is_several, is_optional)


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
    item = build(cls, values, only_known=True)
    check_fields(cls, item)
    return item


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


def build(kind: type[T], value: object, *, only_known: bool = False) -> T:
    """Return a dataclass, a tuple or a mapping from a value of JSON, whose types are checked.

    Lists become tuples, and mappings of arrays NumPy arrays. Fields with a default may be missing.

    Args:
        kind: a dataclass, a tuple or a mapping. Its fields or items may have the types of JSON,
            these kinds, and a union of one of them with None.
        value: of JSON.
        only_known: whether to refuse keys that are no fields. Otherwise they are ignored: a later
            version may have stored more.

    Raises:
        OptionError: a key is missing or unknown, or its value has another type.
    """
    found: T = _converter(cast("Any", kind), only_known)(value, "")
    return found


@cache
def _converter(kind: Any, only_known: bool) -> Convert:  # noqa: ANN401 - a type
    """Return the function that checks a value of JSON and returns it as a value of this type."""
    if is_dataclass(kind):
        return _object_converter(kind, only_known)
    origin = get_origin(kind)
    inner = [_converter(each, only_known) for each in _members(kind)]
    if origin in (Union, UnionType):
        return lambda value, name: None if value is None else inner[0](value, name)
    if origin is tuple:
        return _tuple_converter(inner)
    if origin is Mapping:
        return _mapping_converter(inner[1])
    if origin is np.ndarray:
        return _array
    return _plain_converter(str if origin is Literal else kind)


def _members(kind: Any) -> list[Any]:  # noqa: ANN401 - a type
    """Return the types that a type contains."""
    if get_origin(kind) in (Literal, np.ndarray):
        return []
    return [each for each in get_args(kind) if each not in (NoneType, ...)]


def _object_converter(cls: Any, only_known: bool) -> Convert:  # noqa: ANN401 - a dataclass
    hints = get_type_hints(cls)
    converters = {each.name: _converter(hints[each.name], only_known) for each in fields(cls)}
    required = [
        each.name
        for each in fields(cls)
        if each.default is MISSING and each.default_factory is MISSING
    ]

    def convert(value: Any, name: str) -> Any:  # noqa: ANN401 - of JSON
        if not isinstance(value, dict):
            _refuse(value, name or cls.__name__, cls.__name__ if name else "dict")
        for key in required:
            if key not in value:
                raise OptionError(f"{name or cls.__name__} lacks {key!r}")
        if only_known and (unknown := value.keys() - converters.keys()):
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


def _mapping_converter(inner: Convert) -> Convert:
    def convert(value: Any, name: str) -> Any:  # noqa: ANN401 - of JSON
        if not isinstance(value, dict):
            _refuse(value, name, "dict")
        return {key: inner(item, name) for key, item in value.items()}

    return convert


def _plain_converter(kind: Any) -> Convert:  # noqa: ANN401 - a type
    def convert(value: Any, name: str) -> Any:  # noqa: ANN401 - of JSON
        if kind is not Any:
            _check(kind, value, name)
        return value

    return convert


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


def check_fields(cls: Any, item: object, prefix: str = "") -> None:  # noqa: ANN401 - as `_fields`
    """Check that every field has its declared type, and that all times are finite.

    A list may replace a tuple. A negative time, an end before its start, and words in another order
    are allowed. Mappings have no check.

    Args:
        cls: a dataclass.
        item: a value of this class.
        prefix: before the names of fields in messages.

    Raises:
        OptionError: a field has another type, or is out of range; the message names the field, as
            in "segments[3].words[0].start".
    """
    for name, field in _fields(cls).items():
        value, full_name = getattr(item, name, None), f"{prefix}{name}"
        if field.kind is Mapping or (value is None and field.is_optional):
            continue
        if not field.is_several:
            _check(field.kind, value, full_name, is_time=name in TIMES)
            continue
        if not isinstance(value, tuple | list):
            _refuse(value, full_name, "tuple")
        for number, member in enumerate(value):
            _check(field.kind, member, f"{full_name}[{number}]")


def _check(kind: type[Any], value: Any, name: str, *, is_time: bool = False) -> None:  # noqa: ANN401
    if is_dataclass(kind):
        if not isinstance(value, kind):
            _refuse(value, name, kind.__name__)
        check_fields(kind, value, f"{name}.")
        return
    types, expected = _TYPES[kind]
    if not isinstance(value, types) or (isinstance(value, bool) and kind is not bool):
        _refuse(value, name, expected)
    if isinstance(value, int) and abs(value) > MAX_NUMBER:
        raise OptionError(f"{name} is out of range: at most {MAX_NUMBER:g}")
    if is_time and not -MAX_DURATION <= value <= MAX_DURATION:
        raise OptionError(
            f"{name} must be a finite number of seconds, at most {MAX_DURATION:g}, not {value:g}"
        )


def _refuse(value: object, name: str, expected: str) -> NoReturn:
    raise OptionError(f"{name} must be a {expected}, not {type(value).__name__}")
