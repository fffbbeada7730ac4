"""The fields of a form by name, each read once."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import fields
from types import MappingProxyType
from typing import Final

import whisperbatch as wb
from whisperbatch.options import hint_for
from whisperbatch.server.errors import invalid

TYPES: Final[Mapping[str, object]] = MappingProxyType(
    {field.name: field.type for field in fields(wb.Options)}
)
FIXED: Final = ("task", "sampling_rate", "known_speakers", "diarizer")
"""Options that are not fields: the path decides the task, media state their rate, and a client must
not name files of the server, or packages and pipelines that the server then runs."""

LISTS: Final = (
    *("languages", "keywords", "timestamp_granularities", "include"),
    *("known_speaker_names", "known_speaker_references"),
)
"""Fields with several values: repeated, with or without "[]" at the end of the name."""

PARTS: Final = re.compile(r"(\w+)\[(\w+)\]")  # chunking_strategy[type]


class Values:
    """The fields of a form by name, each read once.

    Args:
        form: the values of each field; names may end with "[]" or "[key]".

    Raises:
        ApiError: a field that has one value is given several times.
    """

    def __init__(self, form: Mapping[str, Sequence[str]]) -> None:
        self._values: dict[str, list[str]] = {}
        self._parts: dict[str, dict[str, str]] = {}
        for name, values in form.items():
            base = name.removesuffix("[]")
            if match := PARTS.fullmatch(name):
                self._parts.setdefault(match[1], {})[match[2]] = values[-1]
                continue
            known = self._values.setdefault(base, [])
            known.extend(value for value in values if value)  # an empty field is not given
            if len(known) > 1 and base not in LISTS:
                raise invalid(f"{base} is given more than once", base)

    def text(self, name: str) -> str | None:
        """Return the value of a field; None if it is not given."""
        values = self._values.pop(name, [])
        return values[0] if values else None

    def texts(self, name: str) -> list[str]:
        """Return all values of a field."""
        return self._values.pop(name, [])

    def choice(self, name: str, choices: Sequence[str]) -> str | None:
        """Return the value of a field, which is one of the choices.

        Raises:
            ApiError: the value is not one of the choices.
        """
        value = self.text(name)
        if value is not None:
            check_choice(name, value, choices)
        return value

    def choices(self, name: str, choices: Sequence[str]) -> set[str]:
        """Return the values of a field, each one of the choices.

        Raises:
            ApiError: a value is not one of the choices.
        """
        values = self.texts(name)
        for value in values:
            check_choice(name, value, choices)
        return set(values)

    def boolean(self, name: str) -> bool:
        """Return whether a field is "true".

        Raises:
            ApiError: the value is neither true nor false.
        """
        value = self.text(name)
        if value is None:
            return False
        check_choice(name, value.lower(), ("true", "false"))
        return value.lower() == "true"

    def number(self, name: str) -> float | None:
        """Return the value of a field as a number; None if it is not given.

        Raises:
            ApiError: the value is not a number.
        """
        value = self.text(name)
        return None if value is None else as_number(name, value)

    def parts(self, name: str) -> dict[str, str]:
        """Return the values of the fields "name[key]", by key."""
        return self._parts.pop(name, {})

    def refuse(self, name: str, reason: str) -> None:
        """Refuse a field.

        Raises:
            ApiError: the field is given.
        """
        if self.texts(name):
            raise invalid(f"{name} {reason}", name, "unsupported_parameter")

    def options(self) -> dict[str, str]:
        """Return the fields that are named like options."""
        names = [name for name in self._values if name in TYPES and name not in FIXED]
        return {name: value for name in names if (value := self.text(name)) is not None}

    def check_all_used(self) -> None:
        """Check that no unknown field is left.

        Raises:
            ApiError: a field is unknown.
        """
        given = [name for name, values in self._values.items() if values]
        for name in [*given, *self._parts]:
            hint = hint_for(name, TYPES.keys())
            raise invalid(
                f"{name} is not a field of this server{f'; {hint}' if hint else ''}",
                name,
                "unknown_parameter",
            )


def as_number(name: str, value: str) -> float:
    """Return a value as a number.

    Raises:
        ApiError: the value is not a number.
    """
    try:
        return float(value)
    except ValueError as error:
        raise invalid(f"{name} must be a number, not {value[:50]!r}", name) from error


def check_choice(name: str, value: str, choices: Sequence[str]) -> None:
    """Check that the value of a field is one of the choices.

    Raises:
        ApiError: the value is not one of the choices.
    """
    if value not in choices:
        raise invalid(f"{name} must be one of {', '.join(choices)}, not {value[:50]!r}", name)
