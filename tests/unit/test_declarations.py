"""The program that writes derived texts. `make lint` checks that the written texts are current."""

from dataclasses import dataclass
from typing import Literal

import pytest

from tests import declarations
from whisperbatch.options import documented_fields

Size = Literal["small", "large"]


@dataclass(frozen=True, kw_only=True)
class Group:
    """A group of options.

    Attributes:
        size: "small" or "large".
        tokens: any number of token ids; the entry goes on
            in a second line.
    """

    size: Size = "small"
    tokens: tuple[int, ...] | None = None


@dataclass(frozen=True, kw_only=True)
class Undocumented:
    """A group of options.

    Attributes:
        size: a number.
    """

    width: int = 1


def test_the_types_of_keywords_are_those_of_the_source() -> None:
    types = {"size": "Size", "tokens": "tuple[int, ...] | None"}
    assert declarations.field_types(Group) == types
    assert list(declarations.imports(Group)) == [f"from {__name__} import Size"]
    source = declarations.typed_dict("Keywords", "TypedDict", "All options.", types)
    assert source.splitlines() == [
        "class Keywords(TypedDict, total=False):",
        '    """All options."""',
        "",
        "    size: Size",
        "    tokens: tuple[int, ...] | None",
    ]


def test_a_field_without_an_entry_is_an_error() -> None:
    with pytest.raises(SystemExit, match=r"Undocumented: size, width must be a field"):
        declarations.entries(Undocumented)


def test_the_entries_of_a_docstring_are_replaced() -> None:
    source = (
        'def load(*, size):\n    """Load.\n\n    Args:\n        model: a name.\n'
        "        **settings: these keywords,\n            if there are any:\n{}\n"
        '    Returns:\n        A model.\n    """\n'
    )
    lines = [f"{name}: {text}" for name, text in declarations.entries(Group).items()]
    old = source.format("        size: the old text,\n            in two lines.\n")
    new = source.format(
        '        size: "small" or "large".\n'
        "        tokens: any number of token ids; the entry goes on in a second line.\n"
    )
    assert declarations.with_entries(old, declarations.LOAD_DOCSTRING, lines) == new
    assert declarations.with_entries(new, declarations.LOAD_DOCSTRING, lines) == new
    with pytest.raises(SystemExit, match="the docstring is not of the form"):
        declarations.with_entries(new, declarations.OPTIONS_DOCSTRING, lines)


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
    assert "| `max_line_width` | `42` | maximum width" in written
    assert declarations.with_tables(written) == written
