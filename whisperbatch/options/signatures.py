"""Signatures that `help()` and editors show: every option as a keyword."""

import inspect
from collections.abc import Callable
from dataclasses import fields
from typing import Final, TypeVar

from whisperbatch.options.keywords import DetectionKeywords
from whisperbatch.options.options import Options

F = TypeVar("F", bound=Callable[..., object])


def shows(*keywords: inspect.Parameter) -> Callable[[F], F]:
    """Give a function the signature that its users see: `keywords` in place of `**keywords`."""

    def decorate(function: F) -> F:
        signature = inspect.signature(function)
        own = [p for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD]
        shown = signature.replace(parameters=[*own, *keywords])
        function.__signature__ = shown  # type: ignore[attr-defined]  # what inspect looks for
        return function

    return decorate


OPTION_PARAMETERS: Final = tuple(
    inspect.Parameter(
        field.name, inspect.Parameter.KEYWORD_ONLY, default=field.default, annotation=field.type
    )
    for field in fields(Options)
)


DETECTION_PARAMETERS: Final = tuple(
    p for p in OPTION_PARAMETERS if p.name in DetectionKeywords.__annotations__
)
