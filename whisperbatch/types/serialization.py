"""Dataclasses as values of JSON, and back; and the check of their fields.

The fields come from the declarations of the classes, so that no field is forgotten:

    Transcript(segments=(Segment(id=0, ...),), ...)  <->  {"segments": [{"id": 0, ...}], ...}
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from types import NoneType
from typing import Any, Final, Literal, NoReturn, TypeVar, get_args, get_origin, get_type_hints

import numpy as np

from whisperbatch.errors import OptionError
from whisperbatch.limits import MAX_DURATION

T = TypeVar("T")

MAX_NUMBER: Final = 2**63  # larger than every value of a field; Python prints no number of any size
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
    try:
        item = _item(cls, values)
    except (AttributeError, TypeError, ValueError) as error:
        raise OptionError(f"no {cls.__name__}: {error}") from error
    if not isinstance(item, cls):
        _refuse(item, cls.__name__, "dict")
    check_fields(cls, item)
    return item


def _item(kind: type[Any], values: object) -> Any:  # noqa: ANN401 - of this kind, or not checked
    if kind is Mapping:
        arrays: Mapping[str, Any] = values  # type: ignore[assignment]  # or an AttributeError
        return {name: np.array(array, np.float32) for name, array in arrays.items()}
    if not is_dataclass(kind) or not isinstance(values, dict):
        return values
    known = _fields(kind)
    arguments = {}
    for name, value in values.items():
        field = known.get(name)
        if field and field.is_several and isinstance(value, list):
            arguments[name] = tuple(_item(field.kind, member) for member in value)
        else:
            arguments[name] = _item(field.kind, value) if field and value is not None else value
    return kind(**arguments)


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
