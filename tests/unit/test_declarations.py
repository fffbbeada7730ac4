"""The program that writes tables of options. `make lint` checks that the tables are current."""

from tests import declarations
from whisperbatch.options import documented_fields


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
