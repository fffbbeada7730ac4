"""Signatures and descriptions for `help()`, editors and the command line."""

import inspect
import re
from collections.abc import Callable
from dataclasses import fields
from typing import Final, TypeVar

from whisperbatch.options.groups import DETECTION_OPTIONS
from whisperbatch.options.options import Options

F = TypeVar("F", bound=Callable[..., object])


def with_parameters(*keywords: inspect.Parameter) -> Callable[[F], F]:
    """Return a decorator that shows `keywords` in the signature in place of `**keywords`.

    `help()` and editors then list every option with its type and default.
    """

    def decorate(function: F) -> F:
        signature = inspect.signature(function)
        parameters = [p for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD]
        documented = signature.replace(parameters=[*parameters, *keywords])
        function.__signature__ = documented  # type: ignore[attr-defined]  # inspect reads this
        return function

    return decorate


def documented_fields(documented: object) -> dict[str, str]:
    """Return the entries of a docstring's "Attributes" or "Args" section, each on one line.

    An entry ends at the next entry or at an empty line.
    """
    text = inspect.getdoc(documented) or ""
    section = re.search(r"^(?:Attributes|Args):\n(.*?)(?=^\S|\Z)", text, re.DOTALL | re.MULTILINE)
    entries = re.findall(
        r"^    (\w+): (.*?)(?=^    \*{0,2}\w+: |^$|\Z)",
        section.group(1) if section else "",
        re.DOTALL | re.MULTILINE,
    )
    return {name: " ".join(description.split()) for name, description in entries}


OPTION_PARAMETERS: Final = tuple(
    inspect.Parameter(
        field.name, inspect.Parameter.KEYWORD_ONLY, default=field.default, annotation=field.type
    )
    for field in fields(Options)
)
"""All options."""

DETECTION_PARAMETERS: Final = tuple(
    parameter for parameter in OPTION_PARAMETERS if parameter.name in DETECTION_OPTIONS
)
"""The options that have an effect on `detect_language`."""
