"""The program that writes tables of options. `make lint` checks that the tables are current."""

import inspect
from collections.abc import Callable

import pytest

from tests import declarations
from whisperbatch.options import documented_fields, with_parameters


def test_entries_end_at_an_empty_line() -> None:
    class Documented:
        """Options.

        Attributes:
            The first group:

            size: a
                number.

            The second group:

            width: in pixels.
        """

    assert documented_fields(Documented) == {"size": "a number.", "width": "in pixels."}


def test_a_table_is_written_after_its_comment() -> None:
    comment = "<!-- Written by make declarations: SubtitleOptions -->\n\n"
    page = f"# Files\n\n{comment}| old | table |\n\nText.\n"
    written = declarations.with_tables(page)
    assert written.startswith(
        f"# Files\n\n{comment}| option | default | meaning |\n|---|---|---|\n"
    )
    assert written.endswith("|\n\nText.\n")
    assert "| `max_words_per_line` | `None` | maximum number" in written
    assert declarations.with_tables(written) == written


class Described:
    """Fields.

    Attributes:
        size: a number.
    """


@pytest.mark.parametrize("written", [lambda text: text, inspect.cleandoc])
def test_fields_follow_the_arguments_of_a_function(written: Callable[[str], str]) -> None:
    """Since Python 3.13, docstrings have no indent."""

    def function(name: str, **fields: int) -> str:
        """Return a text.

        Args:
            name: of the text.
            **fields: these keywords:

        Returns:
            The text.
        """
        return f"{name}{fields}"

    class Fields:
        __doc__ = written(str(Described.__doc__))

    function.__doc__ = written(str(function.__doc__))
    with_parameters(texts=Fields)(function)
    assert documented_fields(function)["size"] == "a number."
    assert str(function.__doc__).endswith("\n\nReturns:\n    The text.")
