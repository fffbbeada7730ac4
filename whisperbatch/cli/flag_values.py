"""The values of flags: from the text of the command line to the type of an option."""

from collections.abc import Callable
from typing import Any, Final

import typer

from whisperbatch.options import PARSERS, metavar_of

NONE: Final = object()
"""The value of a flag with the text "none". None itself means that the flag is not given."""


def parser_of(value_type: object, *, optional: bool) -> Callable[[str], Any]:
    """Return a function that parses the text of a flag.

    Args:
        value_type: a key of `PARSERS`.
        optional: whether "none" is a value.
    """

    def parse(text: str) -> Any:  # noqa: ANN401 - any type of an option
        if optional and text.lower() == "none":
            return NONE
        try:
            return PARSERS[value_type](text)
        except ValueError as error:
            raise typer.BadParameter(
                f"{text!r} is not of the form {metavar_of(value_type)}"
            ) from error

    return parse
