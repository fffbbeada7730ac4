"""The check that every writer can write a transcript, which a user's program may have built."""

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from types import NoneType
from typing import Any, Final, Literal, NoReturn, TypeAlias, get_args, get_origin, get_type_hints

from whisperbatch.errors import WriteError
from whisperbatch.options.checks import MAX_DURATION
from whisperbatch.types import Diarization, Transcript

TIMES: Final = ("start", "end", "duration")
"""Names of the fields in seconds."""

MAX_NUMBER: Final = 2**63  # larger than every value of a field; Python prints no number of any size

Check: TypeAlias = Callable[[object, str], None]
"""`check(value, name)` raises a WriteError with this name if the value is wrong."""


def check_contents(result: Transcript | Diarization) -> None:
    """Check that every field has its declared type, and that all times are finite.

    A negative time, an end before its start, and words in another order are allowed, because every
    format has a rule for them.

    Raises:
        WriteError: a field has another type, or is out of range; the message names the field, as in
            "segments[3].words[0].start".
    """
    checks = _TRANSCRIPT_CHECKS if isinstance(result, Transcript) else _DIARIZATION_CHECKS
    for name, check in checks:
        check(getattr(result, name, None), name)


def _checks(cls: type[Any]) -> tuple[tuple[str, Check], ...]:
    """Return the name of each field of a dataclass, and the check of its value.

    Mappings have no check, because no format writes the embeddings of speakers.
    """
    types = get_type_hints(cls)
    return tuple(
        (field.name, _check_of(field.name, types[field.name]))
        for field in fields(cls)
        if get_origin(types[field.name]) is not Mapping
    )


def _check_of(name: str, annotation: Any) -> Check:  # noqa: ANN401 - any annotation
    """Return the check of a field's values, given the field's name and its declared type."""
    members = get_args(annotation)
    if get_origin(annotation) is tuple:
        return _each(_check_of(name, members[0]))
    if NoneType in members:
        return _optional(_check_of(name, next(type_ for type_ in members if type_ is not NoneType)))
    if get_origin(annotation) is Literal:
        return _check_text
    if is_dataclass(annotation):
        return _instance(annotation)
    if name in TIMES:
        return _check_time
    plain = {float: _check_number, int: _check_integer, str: _check_text, bool: _check_boolean}
    return plain[annotation]


def _each(check: Check) -> Check:
    """Return the check of a tuple or list whose items this check accepts."""

    def check_each(value: object, name: str) -> None:
        if not isinstance(value, tuple | list):
            _refuse(value, name, "tuple")
        for number, item in enumerate(value):
            check(item, f"{name}[{number}]")

    return check_each


def _optional(check: Check) -> Check:
    """Return the check of a value that this check accepts, or None."""

    def check_optional(value: object, name: str) -> None:
        if value is not None:
            check(value, name)

    return check_optional


def _instance(cls: Any) -> Check:  # noqa: ANN401 - a dataclass
    """Return the check of a value of this dataclass."""
    checks = _checks(cls)

    def check_instance(value: object, name: str) -> None:
        if not isinstance(value, cls):
            _refuse(value, name, cls.__name__)
        for field_name, check in checks:
            check(getattr(value, field_name, None), f"{name}.{field_name}")

    return check_instance


def _check_text(value: object, name: str) -> None:
    if not isinstance(value, str):
        _refuse(value, name, "str")


def _check_boolean(value: object, name: str) -> None:
    if not isinstance(value, bool):
        _refuse(value, name, "bool")


def _check_integer(value: object, name: str) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        _refuse(value, name, "whole number")
    _check_number(value, name)


def _check_number(value: object, name: str) -> None:
    """Check for a number. Scores may be infinite or NaN, because engines may return these."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        _refuse(value, name, "number")
    if isinstance(value, int) and abs(value) > MAX_NUMBER:
        raise WriteError(f"{name} is out of range: at most {MAX_NUMBER:g}")


def _check_time(value: object, name: str) -> None:
    _check_number(value, name)
    if not -MAX_DURATION <= value <= MAX_DURATION:  # type: ignore[operator]  # a number
        raise WriteError(
            f"{name} must be a finite number of seconds, at most {MAX_DURATION:g}, not {value:g}"
        )


def _refuse(value: object, name: str, expected: str) -> NoReturn:
    raise WriteError(f"{name} must be a {expected}, not {type(value).__name__}")


_TRANSCRIPT_CHECKS: Final = _checks(Transcript)
_DIARIZATION_CHECKS: Final = _checks(Diarization)
